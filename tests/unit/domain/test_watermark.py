from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.watermark import InDoubt, ReadBack, Watermark

WINDOW = 4
FRESH = Watermark(
    session_id="df_s", openviking_user="u", account="a", server_id="one", server_profile="0.5"
)
COMPARED = FRESH.compared(total=10, live=2)


def intend(state: Watermark, *digests: str) -> Watermark:
    return state.intend(doubt_id="id", owner="me", digests=digests)


def stored(state: Watermark, *digests: str, live: int = 0, now_utc: str = "now") -> Watermark:
    return intend(state, *digests).stored(
        added=len(digests),
        live=live or (state.server_live or 0) + len(digests),
        window=WINDOW,
        now_utc=now_utc,
    )


def settled(state: Watermark, *present: str, total: int = 10, **more: int) -> Watermark:
    counters = {"live": 2, "newest_archive": 0} | more
    return state.settled(present=present, total=total, window=WINDOW, now_utc="now", **counters)


# -- what the server told ---------------------------------------------------------------------


def test_new_state_was_never_compared_and_owes_nothing() -> None:
    assert FRESH.server_total is None
    assert FRESH.server_live is None
    assert FRESH.known == ()
    assert not FRESH.unfinished


def test_comparison_takes_the_counters() -> None:
    assert (COMPARED.server_total, COMPARED.server_live) == (10, 2)


def test_empty_session_has_no_archive() -> None:
    state = replace(FRESH, newest_archive=5)
    assert state.compared(total=1, live=1).newest_archive == 5
    assert state.compared(total=0, live=0).newest_archive == 0


def test_another_server_keeps_what_is_known_and_what_is_owed() -> None:
    state = replace(intend(stored(COMPARED, "a"), "b"), last_commit_task_id="t")
    other = replace(
        FRESH, openviking_user="v", agent="x", server_id="two", server_profile="namespace"
    )
    assert state.moved(other) == replace(
        state,
        openviking_user="v",
        agent="x",
        server_id="two",
        server_profile="namespace",
        server_total=None,
        server_live=None,
    )


# -- a batch ----------------------------------------------------------------------------------


def test_intent_says_where_the_batch_can_be_found() -> None:
    state = intend(replace(COMPARED, newest_archive=3), "a", "b")
    assert state.in_doubt == InDoubt(
        id="id",
        owner="me",
        digests=("a", "b"),
        total_before=10,
        newest_archive_before=3,
        live_before=2,
    )
    assert state.known == ("a", "b")
    assert state.submitted == ()
    assert state.unfinished


def test_intent_before_any_comparison_counts_from_nothing() -> None:
    doubt = intend(FRESH, "a").in_doubt
    assert doubt is not None
    assert (doubt.total_before, doubt.live_before) == (0, None)


def test_nothing_hides_what_is_in_doubt() -> None:
    with pytest.raises(ValueError, match="in doubt already"):
        intend(intend(COMPARED, "a"), "b")


def test_stored_batch_is_submitted_and_owes_a_commit() -> None:
    state = stored(COMPARED, "a", "b")
    assert state.submitted == ("a", "b")
    assert (state.server_total, state.server_live) == (12, 4)
    assert state.in_doubt is None
    assert state.pending_commit_since == "now"
    assert stored(state, "c", now_utc="later").pending_commit_since == "now"


def test_window_forgets_the_oldest() -> None:
    assert stored(stored(COMPARED, "a", "b", "c"), "d", "e").submitted == ("b", "c", "d", "e")


def test_digest_is_submitted_once() -> None:
    assert stored(stored(COMPARED, "a", "b"), "a", "c").submitted == ("a", "b", "c")


@pytest.mark.parametrize(("live", "owed"), [(2, False), (3, False), (4, True)])
def test_more_live_messages_than_ours_leave_a_look_owed(live: int, *, owed: bool) -> None:
    state = stored(COMPARED, "a", live=live)
    assert state.submitted == ("a",)
    assert state.server_live == (live if live >= 3 else None)  # fewer: a commit was not heard of
    assert state.unfinished
    if not owed:
        assert state.in_doubt is None
        return
    doubt = state.in_doubt
    assert doubt is not None
    assert doubt.digests == ()
    assert doubt.explained == ("a",)
    assert (doubt.total_before, doubt.live_before) == (10, 2)


def test_unknown_live_count_explains_any() -> None:
    unsure = replace(COMPARED, server_live=None)
    assert stored(unsure, "a", live=7).in_doubt is None


def test_batch_not_applied_is_forgotten() -> None:
    assert intend(COMPARED, "a").not_applied() == COMPARED


# -- settling ---------------------------------------------------------------------------------


def test_unfinished_look_is_remembered_with_the_doubt() -> None:
    back = ReadBack(owner="me", absent_looks=1, last_absent_end_s=5.0)
    doubt = intend(COMPARED, "a").looked(back).in_doubt
    assert doubt is not None
    assert doubt.read_back == back


def test_present_is_submitted_and_absent_may_be_sent_again() -> None:
    state = settled(intend(COMPARED, "a", "b"), "b", total=11, live=3, newest_archive=2)
    assert state.known == ("b",)
    assert (state.server_total, state.server_live, state.newest_archive) == (11, 3, 2)
    assert state.in_doubt is None
    assert state.pending_commit_since == "now"


def test_batch_larger_than_the_window_is_known_whole_when_it_is_settled() -> None:
    batch = tuple("abcdef")
    state = settled(intend(stored(COMPARED, "x"), *batch), *batch, total=16)
    assert state.submitted == batch
    assert stored(state, "y").submitted == ("d", "e", "f", "y")


def test_absent_batch_owes_no_commit() -> None:
    assert settled(intend(COMPARED, "a")).pending_commit_since is None


def test_settling_is_no_comparison() -> None:
    state = settled(intend(FRESH, "a"), "a", total=11)
    assert (state.server_total, state.server_live) == (None, None)
    assert state.submitted == ("a",)


def test_server_that_lost_messages_counts_its_archives_anew() -> None:
    state = intend(replace(COMPARED, newest_archive=7), "a")
    assert settled(state, total=10, newest_archive=7).newest_archive == 7
    assert settled(state, total=9, newest_archive=2).newest_archive == 2
    assert settled(state, total=0, live=0).newest_archive == 0


def test_archive_made_meanwhile_is_not_forgotten_by_an_older_look() -> None:
    owed = stored(COMPARED, "a", live=9)
    committed = owed.committed_all(task_id=None, archive=4, archive_uri=None)
    assert settled(committed, newest_archive=3).newest_archive == 4


def test_unknowable_batch_is_known_and_only_the_live_count_is_not() -> None:
    state = intend(stored(COMPARED, "a", "b", "c"), "d", "e").unknowable(WINDOW)
    assert state.known == ("b", "c", "d", "e")
    assert state.in_doubt is None
    assert (state.server_total, state.server_live) == (13, None)


def test_given_up_messages_are_known_as_the_oldest() -> None:
    assert stored(COMPARED, "a").given_up(("x", "y"), WINDOW).known == ("x", "y", "a")
    full = stored(COMPARED, "a", "b", "c", "d")
    assert full.given_up(("x",), WINDOW).known == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    "settle",
    [
        lambda s: s.stored(added=1, live=1, window=WINDOW, now_utc="now"),
        settled,
        lambda s: s.unknowable(WINDOW),
        lambda s: s.looked(ReadBack(owner="me")),
    ],
    ids=["stored", "settled", "unknowable", "looked"],
)
def test_nothing_can_be_settled_where_nothing_is_in_doubt(settle) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="nothing is in doubt"):
        settle(COMPARED)


# -- committing -------------------------------------------------------------------------------


def test_commit_covers_what_was_submitted() -> None:
    state = stored(COMPARED, "a", "b").committed_all(
        task_id="t", archive=1, archive_uri="viking://x"
    )
    assert state.committed == ("a", "b")
    assert state.pending_commit_since is None
    assert state.server_live == 0
    assert (state.last_commit_task_id, state.last_archive_uri) == ("t", "viking://x")
    assert state.newest_archive == 1
    assert not state.unfinished


def test_skipped_commit_keeps_the_last_task_and_archive() -> None:
    first = stored(COMPARED, "a").committed_all(task_id="t", archive=3, archive_uri="u")
    again = first.committed_all(task_id=None, archive=None, archive_uri=None)
    assert again == first


def test_server_that_starts_anew_is_believed_about_its_newest_archive() -> None:
    first = COMPARED.committed_all(task_id="t", archive=3, archive_uri="u")
    assert first.committed_all(task_id="t", archive=1, archive_uri="u").newest_archive == 1


def test_commit_that_was_given_up_is_not_owed() -> None:
    assert stored(COMPARED, "a").commit_given_up().pending_commit_since is None


def test_owed_commit_keeps_its_first_time() -> None:
    state = COMPARED.commit_owed("then")
    assert state.pending_commit_since == "then"
    assert state.commit_owed("later").pending_commit_since == "then"


# -- rebuilding -------------------------------------------------------------------------------


def test_rebuilt_state_knows_the_newest_the_server_has() -> None:
    state = FRESH.rebuilt(digests=("a", "b", "c", "d", "e"), window=WINDOW, newest_archive=2)
    assert state.submitted == ("b", "c", "d", "e")
    assert state.newest_archive == 2


def test_rebuild_keeps_what_was_known_beside_it() -> None:
    state = stored(COMPARED, "a", "given up", "b")
    grown = state.rebuilt(digests=("0", "a", "b", "c"), window=9, newest_archive=1)
    assert grown.submitted == ("0", "a", "given up", "b", "c")


def test_stale_state_gives_way_to_what_the_server_has() -> None:
    state = stored(COMPARED, "a", "b", "c", "d")
    grown = state.rebuilt(digests=("w", "x", "y", "z"), window=WINDOW, newest_archive=1)
    assert grown.submitted == ("w", "x", "y", "z")


def test_rebuild_believes_the_server_about_its_archives() -> None:
    state = replace(COMPARED, newest_archive=9)
    assert state.rebuilt(digests=(), window=WINDOW, newest_archive=2).newest_archive == 2


def test_prefix_is_what_is_given() -> None:
    state = COMPARED.with_prefix(3, "hash")
    assert (state.prefix_count, state.prefix_digest) == (3, "hash")


# -- in general -------------------------------------------------------------------------------

fates = st.sampled_from(["stored", "present", "absent", "given up"])


@given(st.lists(st.tuples(st.integers(1, 6), fates)))
def test_window_holds_the_newest_of_what_is_stored(batches: list[tuple[int, str]]) -> None:
    state, newest, made = COMPARED, list[str](), 0
    for size, fate in batches:
        batch = tuple(f"d{made + at}" for at in range(size))
        made += size
        if fate == "given up":
            state = state.given_up(batch, 6)
            newest = [*batch, *newest][-6:]
        elif fate == "stored":
            state = intend(state, *batch).stored(
                added=size, live=(state.server_live or 0) + size, window=6, now_utc="now"
            )
            newest = [*newest, *batch][-6:]
        else:
            present = batch if fate == "present" else ()
            state = intend(state, *batch).settled(
                present=present, total=10, live=2, newest_archive=0, window=6, now_utc="now"
            )
            newest = [*newest, *present][-6:]
        assert state.known == tuple(newest)


def test_unknown_keys_travel_with_the_state() -> None:
    state = stored(replace(COMPARED, extra={"later": 1}), "a").commit_given_up()
    assert state.extra == {"later": 1}
    assert {f.name for f in fields(state)} >= {"extra", "revision"}
