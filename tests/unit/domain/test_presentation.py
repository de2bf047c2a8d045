import hashlib

from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.presentation import (
    Fingerprint,
    Listing,
    Place,
    Presentation,
    digest,
    fingerprint,
    merge,
    numbered_digest,
    present,
    running_digest,
    trim,
)

SESSION = "df_session"


def message(host_id: str | None, text: str | None = None, role: Role = Role.USER) -> Message:
    name = (host_id or "").split("__")[0]
    return Message(role=role, text=text or f"text of {name}", host_id=host_id)


def shown(*ids: str) -> Presentation:
    return present(SESSION, [message(host_id) for host_id in ids])


def texts(*words: str) -> Presentation:
    return present(SESSION, [message(None, word) for word in words])


def exact(presentation: Presentation) -> tuple[str, ...]:
    return tuple(f.exact for f in presentation.fingerprints)


def held(presentation: Presentation) -> list[list[str]]:
    """Per list: the text of a held message, or its text in brackets for a place."""
    names = {f.token: f.message.text.removeprefix("text of ") for f in presentation.fingerprints}
    return [
        [
            names[e.token] if isinstance(e, Fingerprint) else f"({names.get(e.token, '')})"
            for e in listing.entries
        ]
        for listing in presentation.listings
    ]


# -- what identifies a message ----------------------------------------------------------------


def test_digest_is_the_frozen_hash_of_its_fields() -> None:
    fields = b"deerflow-openviking-v1\0s\0user\0m1\0hello"
    assert digest("s", "user", "m1", "hello") == hashlib.sha256(fields).hexdigest()[:32]


def test_digest_differs_by_session_role_identity_and_text() -> None:
    digests = {
        digest("s", "user", "m1", "hello"),
        digest("t", "user", "m1", "hello"),
        digest("s", "assistant", "m1", "hello"),
        digest("s", "user", "m2", "hello"),
        digest("s", "user", "m1", "hallo"),
        digest("s", "user", "", "hello"),
    }
    assert len(digests) == 6


def test_message_with_an_id_is_known_by_its_digest_alone() -> None:
    found = fingerprint(SESSION, message("m1", "hello"))

    assert not found.numbered
    assert found.exact == found.token == digest(SESSION, "user", "m1", "hello")
    assert found.older == ()


def test_message_without_an_id_has_a_base_that_a_number_completes() -> None:
    for nothing in (None, ""):
        found = fingerprint(SESSION, message(nothing, "hello"))
        assert found.numbered
        assert found.exact == found.token == digest(SESSION, "user", "", "hello")[:24]
    assert numbered_digest("b" * 24, 11) == "b" * 24 + "0000000b"
    assert numbered_digest("b" * 24, (1 << 32) + 1) == "b" * 24 + "00000001"


def test_rekeyed_message_is_also_known_under_every_earlier_id() -> None:
    found = fingerprint(SESSION, message("m1__user__user", "hello"))

    assert found.exact == digest(SESSION, "user", "m1__user__user", "hello")
    once, never = (digest(SESSION, "user", i, "hello") for i in ("m1__user", "m1"))
    assert found.older == (once, never)
    assert found.token == never
    assert found.known_as({never}) == never
    assert found.known_as({never, once}) == once
    assert found.known_as({digest(SESSION, "user", "m1", "other")}) is None


def test_id_that_is_nothing_but_the_suffix_is_an_id() -> None:
    assert fingerprint(SESSION, message("__user")).older == ()


def test_nothing_shown_is_no_list() -> None:
    assert present(SESSION, []) == Presentation()
    assert Presentation().entries() == []


def test_presentation_counts_held_texts_and_places() -> None:
    one = present(SESSION, [message("m1", "abc"), message("m2", "de")])
    assert one.chars == 5
    trimmed = trim(one, exact(one), {exact(one)[1]})
    assert len(trimmed.fingerprints) == 1
    assert 2 < trimmed.chars <= 2 + 1000


def test_running_digest_is_that_of_every_spelling_and_of_the_order() -> None:
    assert running_digest([]) == ""
    heads = [running_digest(shown("a", "b").entries()[:n]) for n in (1, 2)]
    assert len({*heads, running_digest(shown("b", "a").entries())}) == 3
    assert running_digest(shown("a__user", "b").entries()) == heads[1]
    assert len(heads[1]) == 32
    by_base = running_digest(texts("ok").entries())
    assert by_base != running_digest(texts("no").entries())


# -- trimming ---------------------------------------------------------------------------------


def test_trim_keeps_wanted_texts_and_the_places_of_the_others() -> None:
    full = shown("a", "b", "c", "d")
    digests = exact(full)

    kept = trim(full, digests, {digests[1], digests[3]})

    assert held(kept) == [["()", "b", "()", "d"]]
    assert [e.digest for e in kept.entries() if isinstance(e, Place)] == [digests[0], digests[2]]
    assert kept.listings[0].waited
    assert [e.token for e in kept.entries()] == [e.token for e in full.entries()]


def test_trim_to_everything_only_notes_that_it_waited() -> None:
    full = shown("a", "b")
    kept = trim(full, exact(full), exact(full))
    assert kept.fingerprints == full.fingerprints
    assert kept.listings[0].waited
    assert not full.listings[0].waited


def test_trim_drops_a_list_that_holds_no_text() -> None:
    both = Presentation((*shown("a").listings, *shown("b").listings))
    digests = exact(both)
    assert held(trim(both, digests, {digests[1]})) == [["b"]]
    assert trim(both, digests, ()) == Presentation()


def test_trim_holds_a_message_of_two_lists_once() -> None:
    both = Presentation((*shown("a", "b").listings, *shown("b", "c").listings))
    digests = exact(both)
    assert held(trim(both, digests, set(digests))) == [["a", "b"], ["(b)", "c"]]


def test_trim_fixes_the_number_of_a_stored_message_and_of_no_other() -> None:
    both = Presentation((*texts("ok", "ok").listings, *texts("ok", "ok", "no").listings))
    base = both.fingerprints[0].exact
    one, two = numbered_digest(base, 1), numbered_digest(base, 2)
    three = numbered_digest(both.fingerprints[-1].exact, 3)

    kept = trim(both, (one, two, one, two, three), {two, three})

    first, _, stored, waits, _ = kept.entries()
    assert isinstance(first, Place)
    assert first.digest == one
    assert isinstance(stored, Place)
    assert stored.digest == one
    assert isinstance(waits, Place)
    assert waits.digest == base


# -- merging ----------------------------------------------------------------------------------


def test_merge_with_nothing_is_the_other() -> None:
    one = shown("a")
    assert merge(Presentation(), one) == one
    assert merge(one, Presentation()) == one


def test_grown_list_takes_the_place_of_the_one_that_waits() -> None:
    assert held(merge(shown("a", "b"), shown("a", "b", "c"))) == [["a", "b", "c"]]
    assert held(merge(shown("b"), shown("a", "b", "c"))) == [["a", "b", "c"]]


def test_list_that_waits_already_adds_nothing() -> None:
    waiting = shown("a", "b", "c")
    assert merge(waiting, shown("a", "b")) == waiting
    assert merge(waiting, shown("b")) == waiting


def test_other_list_stands_behind_without_the_texts_held_before() -> None:
    compacted = merge(shown("a", "b", "c"), shown("c", "d"))
    assert held(compacted) == [["a", "b", "c"], ["(c)", "d"]]
    assert held(merge(compacted, shown("c", "d", "e"))) == [["a", "b", "c"], ["(c)", "d", "e"]]
    back = merge(compacted, shown("a", "b", "x"))
    assert held(back) == [["a", "b", "c"], ["(c)", "d"], ["(a)", "(b)", "x"]]


def test_what_is_stored_in_one_list_is_stored_in_the_merged() -> None:
    old = shown("a", "b")
    waiting = trim(old, exact(old), {exact(old)[1]})

    merged = merge(waiting, shown("a", "b", "c"))
    assert held(merged) == [["()", "b", "c"]]
    assert merged.listings[0].waited

    assert held(merge(shown("a", "b"), waiting)) == [["()", "b"]]
    left = merge(shown("b"), waiting)
    assert held(left) == [["()", "b"]]
    assert left.listings[0].waited


def test_place_of_the_newer_list_is_taken_over() -> None:
    newer = shown("a", "b")
    trimmed = trim(newer, exact(newer), {exact(newer)[1]})
    assert held(merge(shown("a"), trimmed)) == [["()", "b"]]


def test_merged_message_keeps_the_later_spelling() -> None:
    for old, new in (("a", "a__user"), ("a__user", "a")):
        merged = merge(shown(old), shown(new, "b"))
        assert [f.message.host_id for f in merged.fingerprints] == ["a__user", "b"]
        assert merged.fingerprints[0].known_as({exact(shown("a"))[0]})


def test_equal_texts_without_ids_are_as_many_messages() -> None:
    assert held(merge(texts("ok", "ok"), texts("ok", "ok", "ok"))) == [["ok", "ok", "ok"]]
    assert held(merge(texts("ok", "1", "ok"), texts("ok", "2"))) == [
        ["ok", "1", "ok"],
        ["(ok)", "2"],
    ]


ids = st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True)


@given(st.lists(ids, max_size=4))
def test_merge_holds_every_message_once(lists: list[list[str]]) -> None:
    waiting = Presentation()
    for one in lists:
        waiting = merge(waiting, shown(*one))

    held_ids = [f.message.host_id for f in waiting.fingerprints]
    assert sorted(filter(None, held_ids)) == sorted({i for one in lists for i in one})


@given(ids, st.integers(0, 6), ids)
def test_merge_of_what_a_host_shows_next_keeps_both_orders(
    old: list[str], cut: int, more: list[str]
) -> None:
    """A host drops a head or a tail of its list and goes on at the end."""
    new = [i for i in more if i not in old]
    for kept in (old[:cut], old[cut:]):
        merged = merge(shown(*old), shown(*kept, *new))
        order = [f.message.host_id for f in merged.fingerprints]
        assert order == [*old, *new]


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5), max_size=3))
def test_merge_without_ids_holds_no_list_short(lists: list[list[str]]) -> None:
    waiting = Presentation()
    for one in lists:
        waiting = merge(waiting, texts(*one))
    words = [f.message.text for f in waiting.fingerprints]
    for one in lists:
        assert all(words.count(word) >= one.count(word) for word in one)
    assert len(words) <= sum(map(len, lists))


@given(st.lists(ids, max_size=3))
def test_merge_and_trim_are_deterministic(lists: list[list[str]]) -> None:
    def build() -> Presentation:
        waiting = Presentation()
        for one in lists:
            waiting = merge(waiting, shown(*one))
            digests = [
                f.exact if isinstance(f, Fingerprint) else f.digest for f in waiting.entries()
            ]
            waiting = trim(waiting, digests, set(digests[::2]))
        return waiting

    assert build() == build()


def test_listing_names_its_entries() -> None:
    assert Listing(entries=tuple(texts("ok").entries())).tokens == [texts("ok").entries()[0].token]
