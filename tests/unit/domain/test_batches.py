import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.batches import (
    MAX_BATCH_MESSAGES,
    mark,
    marked_digest,
    split,
    wire_message,
)
from resilient_ov.domain.exchange import WireMessage
from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.planning import Planned
from resilient_ov.domain.text import CUT_MARKER

DIGEST = "0123456789abcdef" * 2


def planned(text: str = "hello", host_id: str | None = "m1", **more: str) -> Planned:
    return Planned(Message(role=Role.USER, text=text, host_id=host_id, **more), DIGEST)


def wire(text: str = "hello") -> WireMessage:
    return WireMessage(role="user", content=text, source_ids=(mark(DIGEST),))


# -- marks ------------------------------------------------------------------------------------


def test_mark_is_read_back_as_its_digest() -> None:
    assert mark(DIGEST) == "df1-" + DIGEST
    assert marked_digest(["m1", mark(DIGEST)]) == DIGEST


@pytest.mark.parametrize(
    "ids",
    [
        [],
        ["m1"],
        ["df1-" + DIGEST[:-1]],
        ["df1-" + DIGEST + "0"],
        ["df1-" + DIGEST.upper()],
        ["xdf1-" + DIGEST],
        ["df1-" + DIGEST + "\n"],
    ],
)
def test_line_without_a_mark_is_not_ours(ids: list[str]) -> None:
    assert marked_digest(ids) is None


def test_host_id_that_looks_like_a_mark_does_not_hide_ours() -> None:
    message = wire_message(planned(host_id="df1-" + "f" * 32), max_chars=100)
    assert len(message.source_ids) == 2
    assert marked_digest(message.source_ids) == DIGEST


# -- one message ------------------------------------------------------------------------------


def test_message_travels_with_both_ids() -> None:
    message = wire_message(planned(created_at="2026-01-01T00:00:00+00:00"), max_chars=100)
    assert message == WireMessage(
        role="user",
        content="hello",
        source_ids=("m1", "df1-" + DIGEST),
        created_at="2026-01-01T00:00:00+00:00",
    )
    assert wire_message(planned(), max_chars=100, role_id="r").role_id == "r"


@pytest.mark.parametrize("host_id", ["a", "A-z_0.9:x", "m" * 128])
def test_plain_host_id_is_sent(host_id: str) -> None:
    ids = wire_message(planned(host_id=host_id), max_chars=100).source_ids
    assert ids == (host_id, mark(DIGEST))


@pytest.mark.parametrize("host_id", [None, "", "m" * 129, "a b", "a/b", "ä", "a\n"])
def test_any_other_host_id_is_left_out(host_id: str | None) -> None:
    ids = wire_message(planned(host_id=host_id), max_chars=100).source_ids
    assert ids == (mark(DIGEST),)


def test_long_text_is_cut_and_keeps_its_mark() -> None:
    message = wire_message(planned("x" * 30), max_chars=20)
    assert message.content == "x" * 20 + CUT_MARKER
    assert marked_digest(message.source_ids) == DIGEST


# -- batches ----------------------------------------------------------------------------------


def test_nothing_makes_no_batch() -> None:
    assert split([], max_bytes=16384) == []


def test_batch_holds_at_most_a_hundred_messages() -> None:
    batches = split([wire()] * 201, max_bytes=1 << 20)
    assert [len(batch) for batch in batches] == [MAX_BATCH_MESSAGES, MAX_BATCH_MESSAGES, 1]


def test_message_that_is_too_large_for_any_batch_travels_alone() -> None:
    small, large = wire(), wire("x" * 5000)
    assert split([small, large, small], max_bytes=2000) == [(small,), (large,), (small,)]


texts = st.lists(st.text(max_size=300), max_size=30)


@given(texts, st.integers(2000, 6000))
def test_batches_fit_the_limit_in_any_encoding_and_keep_the_order(
    contents: list[str], max_bytes: int
) -> None:
    host_id = "m" * 128
    messages = [
        WireMessage(
            role="assistant",
            content=content,
            source_ids=(host_id, mark(DIGEST)),
            created_at="2026-11-30T19:00:00.123456+00:00",
            role_id="r" * 64,
        )
        for content in contents
    ]

    batches = split(messages, max_bytes=max_bytes)

    assert [message for batch in batches for message in batch] == messages
    for batch in batches:
        assert batch
        body = {
            "messages": [
                {
                    "role": m.role,
                    "content": m.content,
                    "created_at": m.created_at,
                    "role_id": m.role_id,
                    "source_message_ids": m.source_ids,
                }
                for m in batch
            ]
        }
        if len(batch) > 1:
            assert len(json.dumps(body)) <= max_bytes + 64
            utf8 = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
            assert len(utf8) <= max_bytes


@given(texts, st.integers(2000, 6000))
def test_no_batch_is_split_without_need(contents: list[str], max_bytes: int) -> None:
    batches = split([wire(content) for content in contents], max_bytes=max_bytes)
    for batch, following in itertools.pairwise(batches):
        together = sum(len(json.dumps(m.content)) + 512 for m in (*batch, following[0]))
        assert together > max_bytes
