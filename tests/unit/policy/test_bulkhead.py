import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resilient_ov.policy.bulkhead import SOONEST_POLL_S, Bulkhead, NoPlace
from resilient_ov.policy.rules import OPERATION_GROUPS, Group
from resilient_ov.settings import LimitSettings


def made(reads: int = 2, others: int = 2) -> Bulkhead:
    return Bulkhead(LimitSettings(read_in_flight=reads, write_in_flight=others))


def enter(
    bulkhead: Bulkhead,
    group: Group = Group.RECALL,
    place: int | None = None,
    now_s: float = 0.0,
    sweeper: bool = False,
) -> NoPlace | None:
    full = bulkhead.refusal(group, place, now_s, sweeper=sweeper)
    if full is None:
        bulkhead.enter(group, place, sweeper=sweeper)
    return full


def test_recall_and_the_rest_have_their_own_places() -> None:
    bulkhead = made()
    assert [enter(bulkhead) is None for _ in range(3)] == [True, True, False]
    assert enter(bulkhead, Group.APPEND) is None
    assert enter(bulkhead, Group.COMMIT) is None
    assert enter(bulkhead, Group.SESSION) is not None
    assert bulkhead.in_flight == {
        Group.RECALL: 2,
        Group.APPEND: 1,
        Group.COMMIT: 1,
        Group.SESSION: 0,
    }


def test_place_that_was_left_is_free() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    full = enter(bulkhead)
    assert full is not None
    bulkhead.leave(Group.RECALL, sweeper=False)
    assert enter(bulkhead, place=full.place, now_s=0.002) is None


def test_newcomer_does_not_pass_who_waits() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    waiting = enter(bulkhead)
    assert waiting is not None
    bulkhead.leave(Group.RECALL, sweeper=False)
    assert enter(bulkhead, now_s=0.001) is not None
    assert enter(bulkhead, place=waiting.place, now_s=0.002) is None


def test_who_went_away_without_a_word_is_forgotten() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    enter(bulkhead)
    bulkhead.leave(Group.RECALL, sweeper=False)
    assert enter(bulkhead, now_s=0.05) is not None
    assert enter(bulkhead, now_s=0.5) is None


def test_place_is_kept_while_asking() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    first = enter(bulkhead)
    assert first is not None
    again = enter(bulkhead, place=first.place, now_s=0.002)
    assert again is not None
    assert again.place == first.place


def test_unknown_place_is_a_new_one() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    full = enter(bulkhead, place=99)
    assert full is not None
    assert full.place != 99


def test_many_who_wait_ask_more_seldom() -> None:
    bulkhead = made(reads=1)
    enter(bulkhead)
    polls_s = [full.poll_s for full in (enter(bulkhead) for _ in range(101)) if full]
    assert polls_s[0] == SOONEST_POLL_S
    assert polls_s[-1] == pytest.approx(0.05)


def test_sweeper_has_one_place() -> None:
    bulkhead = made(others=8)
    assert enter(bulkhead, Group.SESSION, sweeper=True) is None
    assert enter(bulkhead, Group.COMMIT, sweeper=True) is not None
    assert enter(bulkhead, Group.COMMIT) is None
    bulkhead.leave(Group.SESSION, sweeper=True)
    assert enter(bulkhead, Group.COMMIT, sweeper=True) is None


class Places(RuleBasedStateMachine):
    """Oracle: counts. Nobody passes who waits, and whoever keeps asking gets in."""

    def __init__(self) -> None:
        super().__init__()
        self.bulkhead = made(reads=2, others=1)
        self.now_s = 0.0
        self.inside = dict.fromkeys(OPERATION_GROUPS, 0)
        self.waiting: list[tuple[Group, int]] = []

    @rule(group=st.sampled_from(OPERATION_GROUPS))
    def come(self, group: Group) -> None:
        full = enter(self.bulkhead, group, now_s=self.now_s)
        if full is None:
            self.inside[group] += 1
        else:
            self.waiting.append((group, full.place))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        self.now_s += 0.002
        group, place = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        full = enter(self.bulkhead, group, place, self.now_s)
        if full is None:
            self.inside[group] += 1
        else:
            self.waiting.append((group, full.place))

    @precondition(lambda self: any(self.inside.values()))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from([g for g, count in self.inside.items() if count]))
        self.bulkhead.leave(group, sweeper=False)
        self.inside[group] -= 1

    @invariant()
    def never_more_inside_than_places(self) -> None:
        assert self.inside[Group.RECALL] <= 2
        assert sum(self.inside.values()) - self.inside[Group.RECALL] <= 1
        assert self.bulkhead.in_flight == self.inside

    def teardown(self) -> None:
        for group, count in self.inside.items():
            for _ in range(count):
                self.bulkhead.leave(group, sweeper=False)
        for group, place in self.waiting:
            self.now_s += 0.001
            assert enter(self.bulkhead, group, place, self.now_s) is None
            self.bulkhead.leave(group, sweeper=False)


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
