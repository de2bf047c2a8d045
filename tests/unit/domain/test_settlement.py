from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.settlement import (
    MAX_UNUSABLE_LOOKS,
    Findings,
    Look,
    Settled,
    StillInDoubt,
    Unknowable,
    findings,
    judge,
    may_look_s,
    unanswered,
    unusable,
)
from resilient_ov.domain.watermark import InDoubt, ReadBack

SETTLE_S = 60.0
DOUBT = InDoubt(
    id="id", owner="me", digests=("a", "b"), total_before=10, newest_archive_before=0, live_before=2
)


def look(began_s: float, *seen: str, ended_s: float | None = None, exact: bool = True) -> Look:
    return Look(
        total=10,
        live=2,
        newest_archive=0,
        began_s=began_s,
        ended_s=began_s + 1.0 if ended_s is None else ended_s,
        seen={digest: seen.count(digest) for digest in seen},
        exact=exact,
    )


def verdict(doubt: InDoubt, taken: Look, owner: str = "me") -> Settled | StillInDoubt:
    return judge(doubt, taken, owner=owner, settle_s=SETTLE_S)


def after(doubt: InDoubt, *looks: Look, owner: str = "me") -> InDoubt:
    """The doubt after looks that did not end it."""
    for taken in looks:
        found = verdict(doubt, taken, owner)
        assert isinstance(found, StillInDoubt)
        doubt = replace(doubt, read_back=found.read_back)
    return doubt


# -- presence and absence ---------------------------------------------------------------------


def test_presence_is_believed_at_the_first_look() -> None:
    assert verdict(DOUBT, look(100.0, "b", "a", "other")) == Settled(present=("a", "b"))


def test_a_batch_is_present_wherever_it_stands() -> None:
    """A server that lost something older holds the batch before the place where it should begin."""
    moved = replace(look(100.0, "b"), before={"a": 1, "old": 1})
    assert verdict(DOUBT, moved) == Settled(present=("a", "b"))


def test_a_batch_that_stands_in_both_places_is_duplicated() -> None:
    twice = replace(look(100.0, "a", "b"), before={"a": 1, "old": 2})
    assert findings(twice, DOUBT, SUBMITTED) == Findings(duplicated=1, foreign=0)


def test_absence_is_not_believed_at_the_first_look() -> None:
    assert verdict(DOUBT, look(100.0)) == StillInDoubt(
        read_back=ReadBack(owner="me", absent_looks=1, last_absent_end_s=101.0),
        look_again_s=161.0,
    )


def test_absence_is_believed_at_a_second_look_that_begins_late_enough() -> None:
    once = after(DOUBT, look(100.0))
    assert verdict(once, look(161.0)) == Settled(present=())


def test_look_that_begins_too_early_neither_counts_nor_moves_the_clock() -> None:
    once = after(DOUBT, look(100.0))
    for began_s in (101.0, 160.99):
        found = verdict(once, look(began_s))
        assert found == StillInDoubt(
            read_back=ReadBack(owner="me", absent_looks=1, last_absent_end_s=101.0),
            look_again_s=161.0,
        )


def test_second_look_counts_by_its_beginning_not_its_end() -> None:
    once = after(DOUBT, look(100.0))
    assert isinstance(verdict(once, look(160.0, ended_s=500.0)), StillInDoubt)


def test_settle_time_runs_from_the_end_of_the_first_look() -> None:
    once = after(DOUBT, look(100.0, ended_s=140.0))
    assert isinstance(verdict(once, look(199.0)), StillInDoubt)
    assert verdict(once, look(200.0)) == Settled(present=())


def test_batch_seen_late_is_present() -> None:
    once = after(DOUBT, look(100.0))
    assert verdict(once, look(101.0, "a", "b")) == Settled(present=("a", "b"))


def test_part_of_a_batch_is_like_an_absent_one_and_what_is_seen_last_is_present() -> None:
    once = after(DOUBT, look(100.0, "a"))
    assert verdict(once, look(161.0, "a")) == Settled(present=("a",))
    assert verdict(once, look(161.0, "a", "b")) == Settled(present=("a", "b"))


def test_owed_look_is_settled_by_any_answered_one() -> None:
    assert verdict(replace(DOUBT, digests=()), look(100.0)) == Settled(present=())


def test_looks_of_another_life_count_for_nothing() -> None:
    theirs = after(DOUBT, look(100.0), owner="another")
    found = verdict(theirs, look(500.0))
    assert found == StillInDoubt(
        read_back=ReadBack(owner="me", absent_looks=1, last_absent_end_s=501.0),
        look_again_s=561.0,
    )


# -- looks without an answer ------------------------------------------------------------------


def test_look_that_was_not_answered_starts_the_clock_again() -> None:
    """A stopped server may hold the original until it goes on."""
    once = after(DOUBT, look(100.0))
    again = replace(once, read_back=unanswered(once, owner="me"))
    assert again.read_back == ReadBack(owner="me")
    assert isinstance(verdict(again, look(161.0)), StillInDoubt)
    twice = after(again, look(161.0))
    assert isinstance(verdict(twice, look(200.0)), StillInDoubt)
    assert verdict(twice, look(222.0)) == Settled(present=())


def test_unusable_looks_end_as_unknowable_and_start_the_clock_again() -> None:
    doubt = after(DOUBT, look(100.0))
    for count in range(1, MAX_UNUSABLE_LOOKS):
        back = unusable(doubt, owner="me")
        assert back == ReadBack(owner="me", unusable_looks=count)
        doubt = replace(doubt, read_back=back)
        if count == 2:
            doubt = replace(doubt, read_back=unanswered(doubt, owner="me"))
    assert unusable(doubt, owner="me") == Unknowable()


def test_unusable_looks_of_another_life_count_for_nothing() -> None:
    theirs = replace(DOUBT, read_back=ReadBack(owner="another", unusable_looks=4))
    assert unusable(theirs, owner="me") == ReadBack(owner="me", unusable_looks=1)


def test_usable_look_keeps_the_count_of_unusable_ones() -> None:
    back = unusable(DOUBT, owner="me")
    assert isinstance(back, ReadBack)
    once = after(replace(DOUBT, read_back=back), look(100.0))
    assert once.read_back == ReadBack(
        owner="me", absent_looks=1, last_absent_end_s=101.0, unusable_looks=1
    )


def test_next_look_is_worth_it_when_it_can_prove_absence() -> None:
    assert may_look_s(DOUBT, owner="me", settle_s=SETTLE_S) == 0.0
    once = after(DOUBT, look(100.0))
    assert may_look_s(once, owner="me", settle_s=SETTLE_S) == 161.0
    assert may_look_s(once, owner="another", settle_s=SETTLE_S) == 0.0
    again = replace(once, read_back=unanswered(once, owner="me"))
    assert may_look_s(again, owner="me", settle_s=SETTLE_S) == 0.0


events = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 50.0), st.sampled_from("lus")), max_size=12
)


@given(events)
def test_absence_always_rests_on_two_answered_looks_a_settle_time_apart(
    story: list[tuple[float, float, str]],
) -> None:
    """Oracle: the last answered looks in a row, from their own times alone."""
    doubt, now_s = DOUBT, 0.0
    row: list[Look] = []
    for pause_s, length_s, kind in story:
        now_s += pause_s
        if kind == "u":
            row = []
            doubt = replace(doubt, read_back=unanswered(doubt, owner="me"))
            continue
        if kind == "s":
            row = []
            back = unusable(doubt, owner="me")
            if isinstance(back, Unknowable):
                return
            doubt = replace(doubt, read_back=back)
            continue
        taken = look(now_s, ended_s=now_s + length_s)
        now_s += length_s
        row.append(taken)
        found = verdict(doubt, taken)
        proven = any(taken.began_s >= earlier.ended_s + SETTLE_S for earlier in row[:-1])
        assert isinstance(found, Settled) == proven
        if isinstance(found, Settled):
            return
        doubt = replace(doubt, read_back=found.read_back)


# -- what else a look shows -------------------------------------------------------------------

SUBMITTED = ("old", "older")


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ((), Findings(duplicated=0, foreign=0)),
        (("a", "b"), Findings(duplicated=0, foreign=0)),
        (("a", "b", "a", "b"), Findings(duplicated=2, foreign=0)),
        (("a", "a", "a"), Findings(duplicated=2, foreign=0)),
        (("old",), Findings(duplicated=1, foreign=0)),
        (("stranger", "stranger"), Findings(duplicated=0, foreign=2)),
    ],
)
def test_surplus_is_duplicated_and_what_nobody_knows_is_foreign(
    seen: tuple[str, ...], found: Findings
) -> None:
    assert findings(look(100.0, *seen), DOUBT, SUBMITTED) == found


def test_explained_digests_may_stand_behind_the_batch_once() -> None:
    owed = replace(DOUBT, digests=(), explained=("a",))
    assert findings(look(100.0, "a"), owed, ("a",)) == Findings(duplicated=0, foreign=0)
    assert findings(look(100.0, "a", "a"), owed, ("a",)) == Findings(duplicated=1, foreign=0)


def test_look_from_an_unknown_line_may_show_older_ones() -> None:
    seen = look(100.0, "old", "older", "older", "long ago", exact=False)
    assert findings(seen, DOUBT, SUBMITTED) == Findings(duplicated=1, foreign=0)


def test_line_without_our_mark_is_foreign() -> None:
    marked = replace(look(100.0, "a"), foreign_lines=3)
    assert findings(marked, DOUBT, ()) == Findings(duplicated=0, foreign=3)
