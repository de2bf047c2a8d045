import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.adapters.outbox_parcel import UnreadableParcelError, pack, unpack
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.planning import merge, present, trim
from resilient_ov.domain.waiting import Parcel, Target

SESSION = "df_session"
TEXTS = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6)


def parcel(texts: list[str], *, ids: bool = True) -> Parcel:
    said = [
        Message(role=Role.USER, text=text, host_id=f"id-{n}" if ids else None, created_at="2030")
        for n, text in enumerate(texts)
    ]
    presentation = present(SESSION, said)
    return Parcel(
        target=Target(identity=Identity(user="df_user"), session_id=SESSION, account="deerflow"),
        presentation=presentation,
        waited_s=tuple(n + 0.25 for n in range(len(texts))),
        trace_id=None,
        since_utc="2030-01-01T00:00:00Z",
    )


@given(first=TEXTS, second=TEXTS, ids=st.booleans(), stored=st.integers(0, 6))
def test_any_parcel_comes_back_as_it_was(
    first: list[str], second: list[str], ids: bool, stored: int
) -> None:
    whole = parcel(first, ids=ids).presentation
    digests = [entry.exact for entry in whole.fingerprints]
    rest = trim(whole, digests, digests[stored:])
    both = merge(rest, parcel(second, ids=ids).presentation)
    ages = tuple(float(n) for n in range(len(both.fingerprints)))
    made = replace(parcel(first), presentation=both, waited_s=ages)
    assert unpack(pack(made)) == made


def test_a_text_is_in_its_own_part_only() -> None:
    packed = pack(parcel(["secret one", "secret two"]))
    assert b"secret" not in packed.order
    assert sorted(b"secret one" in text for text in packed.texts.values()) == [False, True]


def test_a_message_that_goes_on_waiting_keeps_its_name() -> None:
    one, two = pack(parcel(["one"])), pack(parcel(["one", "two"]))
    assert one.texts.keys() < two.texts.keys()


@pytest.mark.parametrize(
    "order",
    [b"", b"[]", b"{}", b'{"version":2}', b"[" * 100_000],
    ids=["nothing", "a list", "no version", "a newer version", "nested"],
)
def test_what_is_no_parcel_is_unreadable(order: bytes) -> None:
    with pytest.raises(UnreadableParcelError):
        unpack(replace(pack(parcel(["one"])), order=order))


@pytest.mark.parametrize("change", [{"lists": [[False, ["missing"]]]}, {"ages": []}])
def test_parts_that_do_not_fit_are_unreadable(change: dict[str, object]) -> None:
    packed = pack(parcel(["one"]))
    order = json.dumps(json.loads(packed.order) | change).encode()
    with pytest.raises(UnreadableParcelError):
        unpack(replace(packed, order=order))


def test_a_text_that_is_no_message_is_unreadable() -> None:
    packed = pack(parcel(["one"]))
    broken = dict.fromkeys(packed.texts, b'["nobody", "text", null, null]')
    with pytest.raises(UnreadableParcelError):
        unpack(replace(packed, texts=broken))
