from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.messages import Message, Role, conversation
from resilient_ov.domain.planning import (
    Plan,
    Presentation,
    adopted_head,
    delivered,
    merge,
    plan,
    present,
    recognises,
    trim,
)
from resilient_ov.domain.presentation import Fingerprint, digest, numbered_digest
from resilient_ov.domain.watermark import Watermark

SESSION = "df_session"
WINDOW = 16
FRESH = Watermark(
    session_id=SESSION, openviking_user="u", account="a", server_id="s", server_profile="0.5"
)
COMPARED = FRESH.compared(total=0, live=0)


def shown(*ids: str) -> Presentation:
    """Messages with ids; `id=text` gives a message a text of its own."""
    messages: list[Message] = []
    for one in ids:
        host_id, _, text = one.partition("=")
        text = text or f"text of {host_id.split('__')[0]}"
        messages.append(Message(role=Role.USER, text=text, host_id=host_id))
    return present(SESSION, messages)


def texts(*words: str) -> Presentation:
    """Messages without ids."""
    return present(SESSION, [Message(role=Role.USER, text=word) for word in words])


def thread(first: int, last: int) -> Presentation:
    return shown(*(f"m{number}" for number in range(first, last + 1)))


def planned(watermark: Watermark, presentation: Presentation, **more: object) -> Plan:
    return plan(watermark, presentation, **({"window": WINDOW} | more))  # type: ignore[arg-type]


def names(found: Plan) -> list[str]:
    return [p.message.host_id or p.message.text for p in found.unknown]


def unknown(watermark: Watermark, presentation: Presentation, **more: object) -> list[str]:
    return names(planned(watermark, presentation, **more))


def store(watermark: Watermark, presentation: Presentation) -> Watermark:
    """Deliver a list in one batch to a healthy server."""
    found = planned(watermark, presentation)
    if found.unknown:
        sent = tuple(p.digest for p in found.unknown)
        live = (watermark.server_live or 0) + len(sent)
        watermark = watermark.intend(doubt_id="d", owner="o", digests=sent).stored(
            added=len(sent), live=live, window=WINDOW, now_utc="now"
        )
    return delivered(watermark, presentation, found.digests)


def exact(presentation: Presentation) -> tuple[str, ...]:
    return tuple(f.exact for f in presentation.fingerprints)


# -- known and unknown ------------------------------------------------------------------------


def test_everything_is_unknown_to_a_fresh_state_and_nothing_after_its_delivery() -> None:
    assert unknown(COMPARED, thread(1, 3)) == ["m1", "m2", "m3"]
    after = store(COMPARED, thread(1, 3))
    assert unknown(after, thread(1, 3)) == []
    assert unknown(after, thread(1, 4)) == ["m4"]


def test_digest_of_a_message_with_an_id_is_its_own() -> None:
    found = planned(COMPARED, shown("m1=hello"))
    assert found.digests == (digest(SESSION, "user", "m1", "hello"),)
    assert found.unknown[0].digest == found.digests[0]


def test_messages_in_doubt_are_not_planned() -> None:
    doubt = COMPARED.intend(doubt_id="d", owner="o", digests=exact(thread(1, 2)))
    assert unknown(doubt, thread(1, 3)) == ["m3"]


def test_same_id_with_another_text_is_a_new_message() -> None:
    """DF-09: an edit, then a regeneration."""
    first = store(COMPARED, shown("h1=Paris?", "a1=.."))
    edited = shown("h1=Rome?", "a1b=..R")
    assert unknown(first, edited) == ["h1", "a1b"]
    second = store(first, edited)
    assert unknown(second, shown("h1=Rome?", "a1c=..R2")) == ["a1c"]


def test_shorter_or_reordered_list_sends_nothing() -> None:
    """MC-15: a turn undone, then another way."""
    after = store(COMPARED, shown("h1", "a1", "h2", "a2"))
    assert unknown(after, shown("h1", "a1")) == []
    assert unknown(after, shown("a2", "h1")) == []
    assert unknown(after, shown("h1", "a1", "h3", "a3")) == ["h3", "a3"]
    assert len(store(after, shown("h1", "a1")).submitted) == 4


def test_half_an_emoji_is_the_same_message_the_next_time() -> None:
    """MC-01."""
    raw = [{"type": "human", "id": "h1", "content": "price \ud83d ok"}]
    after = store(COMPARED, present(SESSION, conversation(raw).messages))
    assert unknown(after, present(SESSION, conversation(raw).messages)) == []


@pytest.mark.parametrize("spelling", ["m1__user", "m1__user__user"])
def test_rekeyed_message_is_known(spelling: str) -> None:
    after = store(COMPARED, shown("m1"))
    found = planned(after, shown(spelling))
    assert found.unknown == ()
    assert found.digests == exact(shown("m1"))
    assert unknown(after, shown(f"{spelling}=another text")) == [spelling]


def test_message_first_seen_under_its_second_id_stays_known_under_the_third() -> None:
    after = store(COMPARED, shown("m1__user"))
    assert after.submitted == exact(shown("m1__user"))
    assert unknown(after, shown("m1__user__user")) == []


def test_a_process_that_still_holds_the_old_spelling_knows_the_new_one() -> None:
    after = store(COMPARED, shown("m1__user"))
    assert unknown(after, shown("m1")) == []
    assert unknown(after, shown("m1=another text")) == ["m1"]


@pytest.mark.parametrize("ids", [("m1", "m1"), ("m1", "m1__user"), ("m1__user", "m1")])
def test_message_that_is_listed_twice_is_planned_once(ids: tuple[str, str]) -> None:
    found = planned(COMPARED, shown(*ids))
    assert names(found) == [ids[0]]
    assert found.digests == (found.unknown[0].digest,) * 2


def test_same_list_and_state_give_the_same_plan() -> None:
    after = store(COMPARED, texts("ok", "1", "ok"))
    again = texts("ok", "1", "ok", "2", "ok")
    assert planned(after, again) == planned(after, again)


# -- messages without ids ---------------------------------------------------------------------


def test_equal_texts_without_ids_are_told_apart_by_their_place() -> None:
    """MC-12."""
    after = store(COMPARED, texts("ok", "1", "ok", "1"))
    assert len(set(after.submitted)) == 4
    grown = texts("ok", "1", "ok", "1", "ok", "2")
    assert unknown(after, grown) == ["ok", "2"]
    last = store(after, grown)
    assert unknown(last, texts("1", "ok", "2")) == []


def test_new_repetition_behind_a_kept_tail_is_new() -> None:
    after = store(COMPARED, texts("a", "b", "c", "d"))
    assert unknown(after, texts("d", "a", "b")) == ["a", "b"]


def test_repetition_that_can_be_an_old_message_is_taken_for_it() -> None:
    """`1, ok` kept and a new `1` look like `1, ok, 1`, a part of what is stored.

    Ambiguous in principle: a list cut to its last three is the same. The reading is the one that
    sends nothing twice.
    """
    after = store(COMPARED, texts("ok", "1", "ok", "1"))
    assert unknown(after, texts("1", "ok", "1")) == []


def test_numbers_go_on_behind_everything_the_server_has() -> None:
    after = store(COMPARED, texts("ok"))
    base = texts("ok").fingerprints[0].exact
    assert after.submitted == (numbered_digest(base, 1),)
    long_ago = replace(after, server_total=40)
    found = planned(long_ago, texts("ok", "ok"))
    assert [p.digest for p in found.unknown] == [numbered_digest(base, 41)]


def test_numbers_never_repeat_one_of_the_window_or_of_the_batch_in_doubt() -> None:
    base = texts("ok").fingerprints[0].exact
    known = replace(COMPARED, submitted=(numbered_digest(base, 9), numbered_digest(base, 7)))
    doubt = known.intend(doubt_id="d", owner="o", digests=(numbered_digest(base, 12),))
    found = planned(doubt, texts("ok", "ok", "ok", "ok", "ok"))
    assert [p.digest for p in found.unknown] == [numbered_digest(base, n) for n in (13, 14)]


def test_numbers_of_a_thread_of_equal_texts_are_unique_for_ever() -> None:
    state, sent = COMPARED, list[str]()
    for length in range(1, 60):
        words = texts(*["ok"] * length)
        sent += [p.digest for p in planned(state, words).unknown]
        state = store(state, words)
    assert len(sent) == len(set(sent)) == 59


def test_message_with_an_id_between_others_gives_them_their_place() -> None:
    def mixed(*items: tuple[str | None, str]) -> Presentation:
        made = [Message(role=Role.USER, text=text, host_id=host_id) for host_id, text in items]
        return present(SESSION, made)

    after = store(COMPARED, mixed((None, "ok"), ("m1", "x")))
    assert unknown(after, mixed(("m1", "x"), (None, "ok"))) == ["ok"]
    assert unknown(after, mixed((None, "ok"), ("m1", "x"), (None, "ok"))) == ["ok"]


def test_place_of_a_stored_message_is_not_taken_by_an_equal_text() -> None:
    """A waiting list keeps the numbers of what is stored of it, though the window lost them."""
    waiting = texts("ok", "ok")
    stored = planned(COMPARED, waiting).digests
    kept = trim(waiting, stored, {stored[1]})
    one_left = replace(COMPARED, submitted=(stored[0],), server_total=1)
    assert unknown(one_left, kept) == ["ok"]
    none_left = replace(COMPARED, submitted=(numbered_digest(stored[0][:24], 2),), server_total=2)
    assert unknown(none_left, kept) == []


# -- the prefix -------------------------------------------------------------------------------


def test_head_that_left_the_window_is_known_as_the_prefix() -> None:
    """DF-06."""
    after = store(COMPARED, thread(0, 20))
    assert len(after.submitted) == 16
    assert after.prefix_count == 5
    found = planned(after, thread(0, 21))
    assert names(found) == ["m21"]
    assert not found.prefix_lost
    assert store(after, thread(0, 21)).prefix_count == 6


def test_prefix_of_messages_without_ids_counts_their_texts() -> None:
    words = [f"word {number}" for number in range(40)]
    after = store(COMPARED, texts(*words))
    assert after.prefix_count == 24
    assert unknown(after, texts(*words, "new")) == ["new"]


def test_prefix_outlives_a_rekeying() -> None:
    after = store(COMPARED, thread(0, 20))
    rekeyed = shown("m0__user", *(f"m{number}" for number in range(1, 22)))
    assert unknown(after, rekeyed) == ["m21"]


@pytest.mark.parametrize(
    "other",
    [
        shown("m0=edited", *(f"m{number}" for number in range(1, 21))),
        thread(1, 20),
        thread(0, 3),
        shown(*(f"m{number}" for number in (1, 0, *range(2, 21)))),
    ],
    ids=["edited", "compacted", "shorter", "reordered"],
)
def test_prefix_does_not_hold_for_another_head(other: Presentation) -> None:
    found = planned(store(COMPARED, thread(0, 20)), other)
    assert found.prefix_lost
    assert "m3" in names(found)


def test_prefix_is_dropped_by_the_delivery_of_a_compacted_list() -> None:
    after = store(COMPARED, thread(0, 20))
    compacted = store(after, thread(15, 23))
    assert (compacted.prefix_count, compacted.prefix_digest) == (0, "")
    assert unknown(compacted, thread(15, 24)) == ["m24"]


def test_delivery_of_nothing_keeps_the_prefix() -> None:
    after = store(COMPARED, thread(0, 20))
    assert delivered(after, Presentation(), ()) == after


# -- when only the server can tell ------------------------------------------------------------


def test_unknown_behind_a_message_of_the_window_is_new() -> None:
    after = store(COMPARED, thread(0, 40))
    assert not planned(after, thread(30, 43)).prefix_lost
    assert names(planned(after, thread(30, 43))) == ["m41", "m42", "m43"]


@pytest.mark.parametrize(
    "lists",
    [
        thread(3, 40),
        thread(0, 4),
        shown("x1", "x2"),
        shown(*(f"m{number}" for number in (3, *range(35, 42)))),
    ],
    ids=["older head", "rewound", "nothing known", "rescued"],
)
def test_unknown_before_what_is_known_may_have_left_the_window(lists: Presentation) -> None:
    after = store(COMPARED, thread(0, 40))
    assert planned(after, lists).prefix_lost


def test_unknown_behind_the_prefix_alone_may_have_left_the_window() -> None:
    """A branch was stored; the host goes back to the older one behind their common head."""
    trunk = store(COMPARED, thread(0, 40))
    back = [f"m{number}" for number in range(4)]
    branched = trunk.with_prefix(0, "")
    branch = shown(*back, *(f"x{number}" for number in range(20)))
    history = exact(thread(0, 40))
    found = planned(branched, branch, history=history)
    after = delivered(
        replace(branched, submitted=tuple(p.digest for p in found.unknown)[-WINDOW:]),
        branch,
        found.digests,
    )
    assert after.prefix_count == 8
    again = shown(*back, *(f"x{number}" for number in range(4)), "m4", "m5")
    assert planned(after, again).prefix_lost


def test_nothing_is_doubtful_while_nothing_left_the_window() -> None:
    after = store(COMPARED, thread(0, 9))
    for other in (shown("x1"), shown("x1", "m3"), shown("m0=edited")):
        assert not planned(after, other).prefix_lost


def test_nothing_is_doubtful_when_nothing_is_unknown() -> None:
    assert not planned(store(COMPARED, thread(0, 40)), thread(30, 40)).prefix_lost


def test_each_sign_of_something_forgotten_counts() -> None:
    few = replace(COMPARED, submitted=exact(thread(1, 3)), server_total=3)
    assert not planned(few, shown("x")).prefix_lost
    assert planned(replace(few, server_total=4), shown("x")).prefix_lost
    assert planned(few.with_prefix(1, "another"), shown("x")).prefix_lost
    full = replace(COMPARED, submitted=exact(thread(1, WINDOW)), server_total=WINDOW)
    assert planned(full, shown("x")).prefix_lost


def test_history_of_all_the_server_has_leaves_no_doubt() -> None:
    after = store(COMPARED, thread(0, 40))
    found = planned(after, thread(3, 42), history=exact(thread(0, 40)))
    assert names(found) == ["m41", "m42"]
    assert not found.prefix_lost


def test_history_of_a_part_decides_what_stands_behind_it() -> None:
    after = store(COMPARED, thread(0, 40))
    newest = exact(thread(20, 40))
    assert planned(after, shown("x"), history=newest).prefix_lost
    found = planned(after, thread(20, 42), history=newest)
    assert names(found) == ["m41", "m42"]
    assert not found.prefix_lost


def test_history_lets_a_list_without_ids_be_read_as_a_whole() -> None:
    words = [f"word {number}" for number in range(30)]
    state = store(COMPARED, texts(*words))
    everything = planned(COMPARED, texts(*words)).digests
    assert unknown(state, texts(*words[2:], "new"), history=everything) == ["new"]


def test_history_is_matched_with_the_whole_list_though_a_prefix_holds() -> None:
    """Else a new text behind the prefix would be taken for an equal one that stands in it."""
    words = ["ok", "1", "ok", "2"] * 5
    everything = planned(COMPARED, texts(*words)).digests
    state = rebuilt(texts(*words, "ok", "1"), everything, total=20)
    assert state.prefix_count == 4
    assert unknown(state, texts(*words, "ok", "1"), history=everything) == ["ok", "1"]


# -- several lists ----------------------------------------------------------------------------


def test_message_of_two_lists_is_planned_once() -> None:
    both = Presentation((*shown("a", "b").listings, *shown("b__user", "c").listings))
    found = planned(COMPARED, both)
    assert names(found) == ["a", "b", "c"]
    assert found.digests == (*exact(shown("a", "b")), *exact(shown("b", "c")))


def test_equal_texts_of_two_lists_are_matched_in_their_order() -> None:
    both = merge(texts("ok", "1", "ok"), texts("ok", "2"))
    found = planned(COMPARED, both)
    assert names(found) == ["ok", "1", "ok", "2"]
    whole = Presentation((*texts("ok", "1").listings, *texts("1", "2").listings))
    assert names(planned(COMPARED, whole)) == ["ok", "1", "2"]


def test_new_message_stands_behind_its_neighbour_for_the_next_list() -> None:
    """The second list shows what the first one plans between older messages."""
    after = store(COMPARED, texts("a", "c"))
    both = Presentation((*texts("a", "b", "c").listings, *texts("b", "c", "d").listings))
    assert unknown(after, both) == ["b", "d"]


def test_each_list_has_its_own_prefix_and_place() -> None:
    after = store(COMPARED, thread(0, 40))
    both = Presentation((*thread(0, 42).listings, *thread(41, 44).listings))
    found = planned(after, both)
    assert names(found) == ["m41", "m42", "m43", "m44"]
    assert not found.prefix_lost
    other = Presentation((*thread(0, 42).listings, *thread(5, 8).listings))
    assert planned(after, other).prefix_lost


def test_place_out_of_the_window_says_nothing_about_what_follows() -> None:
    after = store(COMPARED, thread(0, 40))
    head = thread(0, 5)
    waiting = trim(head, exact(head), {exact(head)[5]})
    found = planned(after.with_prefix(0, ""), waiting)
    assert names(found) == ["m5"]
    assert found.prefix_lost


def test_place_without_text_is_never_planned() -> None:
    head = shown("a", "b")
    waiting = trim(head, exact(head), {exact(head)[1]})
    assert unknown(COMPARED, waiting) == ["b"]


# -- after a delivery -------------------------------------------------------------------------


def test_window_takes_the_order_of_the_list() -> None:
    late = replace(COMPARED, submitted=exact(shown("a", "c", "b")), server_total=3)
    after = delivered(late, shown("a", "b", "c"), exact(shown("a", "b", "c")))
    assert after.submitted == exact(shown("a", "b", "c"))


def test_message_stored_late_leaves_the_window_with_its_neighbours() -> None:
    """`m0` was stored last, though it stands first: it must not vouch for what follows it."""
    late = replace(
        COMPARED, submitted=(*exact(thread(6, 20)), *exact(thread(0, 0))), server_total=21
    )
    after = delivered(late, thread(0, 20), exact(thread(0, 20)))
    assert after.submitted == exact(thread(6, 20))
    assert after.prefix_count == 6
    assert planned(after, thread(0, 3)).prefix_lost


def test_prefix_ends_with_the_last_message_out_of_the_window() -> None:
    """`b` left the window before `a`: the prefix covers both, and `a` need not be remembered."""
    state = replace(COMPARED, submitted=exact(shown("a", "c")), server_total=3)
    after = delivered(state, shown("a", "b", "c"), exact(shown("a", "b", "c")))
    assert after.prefix_count == 2
    assert after.submitted == exact(shown("c"))
    assert unknown(after, shown("a", "b", "c", "d")) == ["d"]


# -- reading back -----------------------------------------------------------------------------


def test_list_as_the_host_shows_it_is_recognised_by_one_message() -> None:
    assert recognises(exact(shown("c")), shown("a", "b", "c", "d"))
    assert recognises(exact(shown("a")), shown("a__user"))
    assert not recognises(exact(shown("x")), shown("a", "b"))
    assert not recognises((), shown("a"))


def test_list_that_waited_is_recognised_only_before_what_waits() -> None:
    full = shown("a", "b", "c")
    waiting = trim(full, exact(full), {exact(full)[1], exact(full)[2]})
    assert recognises(exact(shown("a")), waiting)
    assert recognises(exact(shown("b")), trim(full, exact(full), set(exact(full)[1:])))
    assert not recognises(exact(shown("c")), waiting)


def test_every_list_must_be_recognised_and_only_the_last_by_what_stands_behind() -> None:
    both = Presentation((*shown("a", "b").listings, *shown("c", "d").listings))
    assert recognises(exact(shown("a", "d")), both)
    assert not recognises(exact(shown("b", "d")), both)
    assert not recognises(exact(shown("a", "b")), both)


def test_list_without_ids_is_only_recognised_whole() -> None:
    words = texts("ok", "1")
    assert not recognises(planned(COMPARED, words).digests, words)
    first = present(
        SESSION,
        [
            Message(role=Role.USER, text="text of a", host_id="a"),
            Message(role=Role.USER, text="ok"),
        ],
    )
    assert recognises(exact(shown("a")), first)


def test_nothing_shown_needs_nothing_read() -> None:
    assert recognises((), Presentation())


# -- after a rebuild --------------------------------------------------------------------------


def rebuilt(presentation: Presentation, history: tuple[str, ...], total: int) -> Watermark:
    """What the write path makes of a state that knows nothing."""
    state = FRESH.rebuilt(digests=history, window=WINDOW, newest_archive=1)
    state = adopted_head(state, presentation, window=WINDOW, history=history)
    return state.compared(total=total, live=0)


def test_what_stands_before_the_first_recognised_counts_as_stored() -> None:
    history = exact(thread(24, 40))
    state = rebuilt(thread(0, 42), history, total=41)
    assert state.prefix_count == 25
    found = planned(state, thread(0, 42), history=history)
    assert names(found) == ["m41", "m42"]
    assert not found.prefix_lost


def test_adopted_prefix_covers_what_only_the_history_knows() -> None:
    """So that a delivery that breaks off after the rebuild need not ask again."""
    history = exact(thread(0, 40))
    state = rebuilt(thread(3, 42), history, total=41)
    assert state.prefix_count == 22
    assert unknown(state, thread(3, 42)) == ["m41", "m42"]


def test_list_that_is_all_stored_is_adopted_as_far_as_it_left_the_window() -> None:
    history = exact(thread(0, 40))
    assert rebuilt(thread(0, 40), history, total=41).prefix_count == 25
    assert rebuilt(thread(30, 40), history, total=41).prefix_count == 0


def test_new_message_among_known_ones_ends_the_adopted_prefix() -> None:
    history = exact(shown("a", "c"))
    state = rebuilt(shown("a", "b", "c"), history, total=2)
    assert unknown(state, shown("a", "b", "c"), history=history) == ["b"]


def test_nothing_is_adopted_where_nothing_is_recognised() -> None:
    state = rebuilt(shown("x", "y"), exact(thread(0, 4)), total=5)
    assert (state.prefix_count, state.prefix_digest) == (0, "")
    assert unknown(state, shown("x", "y")) == ["x", "y"]


def test_message_that_waited_is_not_adopted() -> None:
    """Another process stored `c` while `b` waited here."""
    full = shown("a", "b", "c")
    waiting = trim(full, exact(full), set(exact(full)[1:]))
    state = rebuilt(waiting, exact(shown("c")), total=1)
    assert unknown(state, waiting, history=exact(shown("c"))) == ["b"]


def test_message_without_an_id_is_not_adopted() -> None:
    words = texts("new", "old")
    history = planned(COMPARED, texts("old")).digests
    state = rebuilt(words, history, total=1)
    assert unknown(state, words, history=history) == ["new"]


def test_place_that_another_list_holds_is_not_adopted() -> None:
    """`b` waits in the first list; the second one shows it before what is stored."""
    both = merge(texts("a", "b"), texts("b", "c"))
    history = planned(COMPARED, texts("c")).digests
    state = rebuilt(both, history, total=1)
    assert state.prefix_count == 0
    assert unknown(state, both, history=history) == ["a", "b"]


def test_rebuild_for_nothing_shown_adopts_nothing() -> None:
    assert adopted_head(COMPARED, Presentation(), window=WINDOW, history=()) == COMPARED


def test_numbers_go_on_after_a_rebuild() -> None:
    history = planned(COMPARED, texts("ok", "1")).digests
    state = rebuilt(texts("ok", "1", "ok"), history, total=2)
    found = planned(state, texts("ok", "1", "ok"), history=history)
    assert names(found) == ["ok"]
    assert found.unknown[0].digest == numbered_digest(history[0][:24], 3)


# -- in general -------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True), max_size=4),
    st.sets(st.sampled_from("abcdefgh")),
)
def test_plan_is_what_is_held_and_not_known_each_once(
    lists: list[list[str]], known: set[str]
) -> None:
    state = replace(COMPARED, submitted=exact(shown(*sorted(known))), server_total=len(known))
    presentation = Presentation()
    for one in lists:
        presentation = merge(presentation, shown(*one))

    found = planned(state, presentation)

    assert sorted(names(found)) == sorted({i for one in lists for i in one} - known)
    entries = presentation.entries()
    assert len(found.digests) == len(entries)
    for entry, one_digest in zip(entries, found.digests, strict=True):
        assert one_digest == (entry.exact if isinstance(entry, Fingerprint) else entry.digest)
    assert not planned(store(state, presentation), presentation).unknown
