import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resilient_ov.policy.breaker import (
    JITTER,
    TRANSITIONS,
    Breaker,
    BreakerState,
    Cause,
    Transition,
)
from resilient_ov.policy.classify import Sample
from resilient_ov.policy.rules import Group
from resilient_ov.settings import BreakerSettings

CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN


def made(fraction: float = 0.0, **knobs: float) -> Breaker:
    return Breaker(Group.RECALL, BreakerSettings(**knobs), lambda: fraction)  # type: ignore[arg-type]


def admit(breaker: Breaker, now_s: float, lease_s: float = 3.0) -> int:
    ticket, _ = breaker.enter(now_s, now_s + lease_s)
    return ticket


def feed(breaker: Breaker, samples: str, now_s: float = 0.0) -> Transition | None:
    """Report one attempt a letter: s(uccess) f(ailure) t(imeout) i(gnore)."""
    moved = None
    for letter in samples:
        ticket = admit(breaker, now_s)
        sample = {"s": Sample.SUCCESS, "i": Sample.IGNORE}.get(letter, Sample.FAILURE)
        moved = breaker.report(sample, ticket, now_s, 0.01, timeout=letter == "t") or moved
    return moved


def opened(now_s: float = 0.0, **knobs: float) -> Breaker:
    breaker = made(**knobs)
    assert feed(breaker, "fffff", now_s) is not None
    return breaker


# -- closed -----------------------------------------------------------------------------------


def test_five_failures_in_a_row_open() -> None:
    breaker = made()
    assert feed(breaker, "ffff") is None
    moved = feed(breaker, "f", now_s=2.0)
    assert moved == Transition(
        group=Group.RECALL,
        number=1,
        from_state=CLOSED,
        to_state=OPEN,
        cause=Cause.CONSECUTIVE_FAILURES,
        at_s=2.0,
        open_until_s=7.0,
    )


def test_three_timeouts_in_a_row_open() -> None:
    breaker = made()
    assert feed(breaker, "tt") is None
    moved = feed(breaker, "t")
    assert moved is not None
    assert moved.cause is Cause.CONSECUTIVE_TIMEOUTS


@pytest.mark.parametrize("samples", ["ttft", "ttstt", "ffffsffff"])
def test_row_is_broken_by_another_outcome(samples: str) -> None:
    assert feed(made(minimum_calls=100), samples) is None


@pytest.mark.parametrize("samples", ["ttit", "ffffiiif"])
def test_ignored_attempt_does_not_break_a_row(samples: str) -> None:
    assert feed(made(minimum_calls=100), samples) is not None


def test_half_of_ten_failed_opens() -> None:
    breaker = made()
    assert feed(breaker, "fsfsfsfss") is None
    moved = feed(breaker, "f")
    assert moved is not None
    assert moved.cause is Cause.FAILURE_RATE


def test_failures_below_the_rate_do_not_open() -> None:
    assert feed(made(), "fss" * 30) is None


def test_rate_does_not_count_before_there_are_enough_samples() -> None:
    assert feed(made(), "fsfsffsff") is None


def test_samples_leave_with_the_window() -> None:
    breaker = made()
    feed(breaker, "fsfsfsfsf", now_s=0.0)
    assert feed(breaker, "f", now_s=30.0) is None


def test_client_errors_never_open() -> None:
    # BR-05: forty deterministic answers are ignored samples.
    breaker = made(consecutive_failures=3)
    assert feed(breaker, "i" * 40) is None
    assert breaker.state is CLOSED


def test_slow_calls_open_when_asked_to() -> None:
    breaker = made(slow_call_s=1.0, slow_call_rate=0.5)
    for _ in range(9):
        assert breaker.succeed(admit(breaker, 0.0), 0.0, 1.0) is None
    moved = breaker.succeed(admit(breaker, 0.0), 0.0, 1.0)
    assert moved is not None
    assert moved.cause is Cause.SLOW_CALLS


def test_slow_failure_counts_as_a_slow_call() -> None:
    breaker = made(slow_call_s=1.0, slow_call_rate=1.0, failure_rate=1.0, consecutive_failures=99)
    for _ in range(9):
        breaker.succeed(admit(breaker, 0.0), 0.0, 1.0)
    moved = breaker.fail(admit(breaker, 0.0), 0.0, 2.0, timeout=False)
    assert moved is not None
    assert moved.cause is Cause.SLOW_CALLS


def test_quick_calls_among_slow_ones_keep_it_closed() -> None:
    breaker = made(slow_call_s=1.0, slow_call_rate=0.6)
    for number in range(40):
        took_s = 1.0 if number % 2 else 0.1
        assert breaker.succeed(admit(breaker, 0.0), 0.0, took_s) is None


def test_slow_calls_do_not_matter_by_default() -> None:
    breaker = made()
    for _ in range(40):
        assert breaker.succeed(admit(breaker, 0.0), 0.0, 100.0) is None


# -- open -------------------------------------------------------------------------------------


def test_nobody_enters_before_the_period_is_over() -> None:
    breaker = opened()
    assert breaker.blocked_until_s(4.999) == 5.0
    assert breaker.blocked_until_s(5.0) is None


def test_period_doubles_while_probes_fail_and_is_capped() -> None:
    breaker = opened()
    now_s, periods_s = 0.0, [breaker.open_until_s]
    for _ in range(5):
        now_s = breaker.open_until_s
        breaker.fail(admit(breaker, now_s), now_s, 0.1, timeout=False)
        periods_s.append(breaker.open_until_s - now_s)
    assert periods_s == pytest.approx([5, 10, 20, 25, 25, 25])


def test_period_starts_small_again_after_closing() -> None:
    breaker = opened()
    breaker.fail(admit(breaker, 5.0), 5.0, 0.1, timeout=False)
    breaker.succeed(admit(breaker, 15.0), 15.0, 0.1)
    feed(breaker, "fffff", now_s=20.0)
    assert breaker.open_until_s == 25.0


@given(st.floats(0, 1, exclude_max=True), st.floats(0.1, 600), st.floats(1, 6), st.integers(0, 30))
def test_open_period_keeps_its_range(
    fraction: float, open_s: float, ratio: float, failed_probes: int
) -> None:
    longest_s = min(open_s * ratio, 3600.0)
    breaker = made(fraction, open_s=open_s, max_open_s=longest_s)
    feed(breaker, "fffff")
    now_s, opened_s = 0.0, 0.0
    for _ in range(failed_probes):
        now_s = opened_s = breaker.open_until_s
        breaker.fail(admit(breaker, now_s), now_s, 0.1, timeout=False)
    period_s = breaker.open_until_s - opened_s
    nominal_s = min(open_s * 2.0**failed_probes, longest_s)
    slack_s = 1e-6 * max(1.0, now_s)
    assert nominal_s / (1 + JITTER) - slack_s <= period_s <= longest_s + slack_s
    if nominal_s * (1 + JITTER) <= longest_s:
        assert period_s >= nominal_s - slack_s


def test_probe_times_of_many_breakers_differ() -> None:
    # BR-12, also when the longest period is reached.
    for knobs in ({}, {"open_s": 30.0}):
        ends_s: set[float] = set()
        for number in range(60):
            breaker = made(number / 60, **knobs)
            feed(breaker, "fffff")
            ends_s.add(round(breaker.open_until_s, 3))
        assert len(ends_s) == 60


def test_open_breaker_issues_no_ticket_that_counts() -> None:
    breaker = made()
    ticket = admit(breaker, 0.0)
    feed(breaker, "fffff")
    end_s = breaker.open_until_s
    assert breaker.fail(ticket, 3.0, 0.1, timeout=True) is None
    assert breaker.succeed(ticket, 3.0, 0.1) is None
    assert (breaker.state, breaker.open_until_s) == (OPEN, end_s)


# -- half-open --------------------------------------------------------------------------------


def test_half_open_admits_one_probe() -> None:
    breaker = opened()
    _, moved = breaker.enter(5.0, 8.0)
    assert moved is not None
    assert (moved.from_state, moved.to_state, moved.open_until_s) == (OPEN, HALF_OPEN, None)
    assert breaker.probe_in_flight(5.1)
    assert breaker.blocked_until_s(5.1) == 8.0


def test_successful_probe_closes() -> None:
    breaker = opened()
    moved = breaker.succeed(admit(breaker, 5.0), 5.1, 0.1)
    assert moved is not None
    assert (moved.to_state, moved.cause) == (CLOSED, Cause.PROBE_SUCCEEDED)
    assert breaker.blocked_until_s(5.1) is None


def test_ignored_probe_frees_its_place_at_once() -> None:
    # BR-01: a probe that ends in a 401 says nothing of the server.
    breaker = opened()
    breaker.ignore(admit(breaker, 5.0))
    assert breaker.state is HALF_OPEN
    assert breaker.blocked_until_s(5.0) is None
    assert breaker.succeed(admit(breaker, 5.2), 5.3, 0.1) is not None
    assert breaker.state is CLOSED


def test_lost_probe_is_given_up_when_its_lease_ends() -> None:
    breaker = opened()
    lost = admit(breaker, 5.0, lease_s=3.0)
    assert breaker.blocked_until_s(8.0) == 8.0
    assert breaker.blocked_until_s(8.001) is None
    assert breaker.succeed(lost, 8.001, 3.0) is None, "late: nobody may rely on it"
    found = admit(breaker, 9.0)
    assert breaker.fail(lost, 9.1, 4.0, timeout=True) is None, "another probes now"
    assert breaker.succeed(found, 9.2, 0.1) is not None


def test_outcome_at_the_end_of_the_lease_counts() -> None:
    breaker = opened()
    assert breaker.succeed(admit(breaker, 5.0, lease_s=3.0), 8.0, 3.0) is not None


def test_late_ignore_of_a_lost_probe_does_not_free_the_next() -> None:
    breaker = opened()
    lost = admit(breaker, 5.0)
    admit(breaker, 9.0)
    breaker.ignore(lost)
    assert breaker.probe_in_flight(9.1)


def test_success_from_before_opening_does_not_close() -> None:
    # BR-04: A starts; B, C, D fail; A ends well.
    breaker = made(consecutive_failures=3)
    first = admit(breaker, 0.0)
    feed(breaker, "fff", now_s=0.1)
    assert breaker.succeed(first, 0.5, 0.5) is None
    assert breaker.state is OPEN


def test_failure_from_before_closing_does_not_count_after_it() -> None:
    # BR-04, the other way round.
    breaker = made(consecutive_failures=3)
    old = [admit(breaker, 0.0) for _ in range(5)]
    feed(breaker, "fff", now_s=0.1)
    breaker.succeed(admit(breaker, 5.1), 5.2, 0.1)
    for ticket in old:
        assert breaker.fail(ticket, 6.0, 6.0, timeout=True) is None
    assert breaker.state is CLOSED


def test_old_samples_are_forgotten_when_it_closes() -> None:
    breaker = made()
    feed(breaker, "fsfsfsfsff")
    assert breaker.state is OPEN
    breaker.succeed(admit(breaker, 5.0), 5.1, 0.1)
    assert feed(breaker, "ffff", now_s=5.2) is None


def test_open_period_follows_the_time_it_is_given() -> None:
    # BR-13: there is no other clock here that could step.
    breaker = made(consecutive_failures=3, open_s=0.2)
    feed(breaker, "fff", now_s=1e6)
    assert breaker.blocked_until_s(1e6 + 0.199) is not None
    assert breaker.blocked_until_s(1e6 + 0.201) is None


# -- the table --------------------------------------------------------------------------------


def test_table_has_no_move_to_the_same_state() -> None:
    assert all(from_state is not to_state for (from_state, _), to_state in TRANSITIONS.items())


def test_reset_closes_from_anywhere() -> None:
    assert made().reset(1.0) is None
    breaker = opened()
    moved = breaker.reset(1.0)
    assert moved is not None
    assert (moved.to_state, moved.cause) == (CLOSED, Cause.RESET)
    breaker = opened()
    admit(breaker, 5.0)
    assert breaker.reset(5.1) is not None
    assert breaker.blocked_until_s(5.1) is None


def test_view_tells_the_end_of_the_open_period_only_while_open() -> None:
    breaker = opened()
    assert (breaker.view().state, breaker.view().open_until_s) == (OPEN, 5.0)
    admit(breaker, 5.0)
    assert (breaker.view().state, breaker.view().open_until_s) == (HALF_OPEN, None)


# -- against an oracle ------------------------------------------------------------------------


class BreakerMachine(RuleBasedStateMachine):
    """Random callers with late, lost and repeated outcomes against the rules in plain words."""

    SETTINGS = BreakerSettings(
        minimum_calls=6, window_s=10.0, consecutive_failures=4, open_s=5.0, max_open_s=20.0
    )

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(Group.APPEND, self.SETTINGS, lambda: 0.0)
        self.now_s = 1000.0
        self.state = CLOSED
        self.era = 0
        self.under_way: list[tuple[int, int]] = []
        self.row: list[str] = []
        self.samples: list[tuple[int, bool]] = []
        self.openings = 0
        self.open_until_s = 0.0
        self.probe: tuple[int, float] | None = None
        self.moves = 0

    # the oracle's own words

    def moves_to(self, state: BreakerState) -> None:
        self.state, self.era, self.moves = state, self.era + 1, self.moves + 1
        self.row, self.samples, self.probe = [], [], None
        if state is OPEN:
            period_s = min(5.0 * 2**self.openings * 1.2, 20.0) / 1.2
            self.open_until_s = self.now_s + period_s
            self.openings += 1
        if state is CLOSED:
            self.openings = 0

    def opens_now(self) -> bool:
        newest = int(self.now_s // 1.0)
        kept = [failed for number, failed in self.samples if number > newest - 10]
        return (
            self.row[-3:] == ["timeout"] * 3
            or (len(self.row) >= 4 and "success" not in self.row[-4:])
            or (len(kept) >= 6 and sum(kept) >= 0.5 * len(kept))
        )

    # what happens

    @rule(seconds=st.floats(0.0, 8.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(lease_s=st.floats(0.5, 4.0))
    def caller_comes(self, lease_s: float) -> None:
        probing = self.probe is not None and self.now_s <= self.probe[1]
        blocked = (self.state is OPEN and self.now_s < self.open_until_s) or probing
        assert (self.breaker.blocked_until_s(self.now_s) is not None) == blocked
        if blocked:
            return
        ticket, moved = self.breaker.enter(self.now_s, self.now_s + lease_s)
        assert (moved is not None) == (self.state is OPEN)
        if self.state is OPEN:
            self.moves_to(HALF_OPEN)
        if self.state is HALF_OPEN:
            self.era += 1
            self.probe = (self.era, self.now_s + lease_s)
        self.under_way.append((ticket, self.era))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), outcome=st.sampled_from(["success", "failure", "timeout", "ignore"]))
    def caller_reports(self, data: st.DataObject, outcome: str) -> None:
        at = data.draw(st.integers(0, len(self.under_way) - 1))
        ticket, era = self.under_way.pop(at)
        before = self.state
        self.expect(era, outcome)
        sample = {"success": Sample.SUCCESS, "ignore": Sample.IGNORE}.get(outcome, Sample.FAILURE)
        moved = self.breaker.report(sample, ticket, self.now_s, 0.1, timeout=outcome == "timeout")
        assert (moved is not None) == (before is not self.state)
        if moved is not None:
            assert (moved.from_state, moved.to_state) == (before, self.state)
            assert (before, moved.cause) in TRANSITIONS
            assert moved.number == self.moves

    def expect(self, era: int, outcome: str) -> None:
        if era != self.era:
            return
        if self.state is HALF_OPEN:
            assert self.probe is not None
            if outcome == "ignore":
                self.era, self.probe = self.era + 1, None
            elif self.now_s <= self.probe[1]:
                self.moves_to(CLOSED if outcome == "success" else OPEN)
        elif outcome != "ignore":
            self.row.append(outcome)
            self.samples.append((int(self.now_s // 1.0), outcome != "success"))
            if outcome != "success" and self.opens_now():
                self.moves_to(OPEN)

    @invariant()
    def says_the_same(self) -> None:
        assert self.breaker.state is self.state
        if self.state is OPEN:
            assert self.breaker.open_until_s == pytest.approx(self.open_until_s)


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
