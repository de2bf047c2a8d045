"""One circuit breaker as a pure state machine: time and jitter come in, transitions come out.

No I/O, clock, randomness or lock here; whoever shares it between threads locks around it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.policy.classify import Sample
from resilient_ov.policy.rules import Group
from resilient_ov.policy.window import SampleWindow
from resilient_ov.settings import BreakerSettings


class BreakerState(StrEnum):
    """The states; values of the labels ``from_state`` and ``to_state``."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class Cause(StrEnum):
    """What moves a breaker."""

    FAILURE_RATE = "failure_rate"
    CONSECUTIVE_FAILURES = "consecutive_failures"
    CONSECUTIVE_TIMEOUTS = "consecutive_timeouts"
    SLOW_CALLS = "slow_calls"
    PROBE_ADMITTED = "probe_admitted"
    PROBE_SUCCEEDED = "probe_succeeded"
    PROBE_FAILED = "probe_failed"
    RESET = "reset"
    """A person forced the breaker closed."""


_C, _H, _O = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN

TRANSITIONS = {
    (_C, Cause.FAILURE_RATE): _O,
    (_C, Cause.CONSECUTIVE_FAILURES): _O,
    (_C, Cause.CONSECUTIVE_TIMEOUTS): _O,
    (_C, Cause.SLOW_CALLS): _O,
    (_O, Cause.PROBE_ADMITTED): _H,
    (_H, Cause.PROBE_SUCCEEDED): _C,
    (_H, Cause.PROBE_FAILED): _O,
    (_O, Cause.RESET): _C,
    (_H, Cause.RESET): _C,
}
"""Every move there is; a pair that is not here does not move."""

JITTER = 0.2
"""Open periods of different processes spread over this share, so that probes are not in step."""


_MAX_DOUBLINGS = 16
"""The widest range, 0.1 s to 3600 s, is reached by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One move of one breaker.

    ``number`` counts the moves of that breaker from 1. ``open_until_s`` is set when it opened:
    from then on the next caller is its probe.
    """

    group: Group
    number: int
    from_state: BreakerState
    to_state: BreakerState
    cause: Cause
    at_s: float
    open_until_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerView:
    """One breaker as seen now. ``open_until_s`` is set in OPEN only."""

    state: BreakerState
    open_until_s: float | None


class Breaker:
    """State of one group's breaker.

    An admitted attempt carries a *ticket*, the generation at its admission. Every move and every
    change of the probe begins a new generation, and an outcome with an old ticket is dropped:
    what began before a move says nothing about what came after it.

    In HALF_OPEN at most one attempt, the probe, is under way. Its lease ends with its outcome, at
    the latest at ``lease_until_s``; from then on its outcome is dropped and another may probe.

    ``fraction`` draws a random number in [0, 1) for each open period.
    """

    __slots__ = (
        "_failures_in_a_row",
        "_fraction",
        "_group",
        "_lease_until_s",
        "_moves",
        "_openings",
        "_settings",
        "_timeouts_in_a_row",
        "_window",
        "generation",
        "open_until_s",
        "state",
    )

    def __init__(
        self, group: Group, settings: BreakerSettings, fraction: Callable[[], float]
    ) -> None:
        self._group = group
        self._settings = settings
        self._fraction = fraction
        self._window = SampleWindow(settings.window_s)
        self._failures_in_a_row = 0
        self._timeouts_in_a_row = 0
        self._openings = 0
        self._moves = 0
        self._lease_until_s: float | None = None
        self.state = BreakerState.CLOSED
        self.generation = 0
        self.open_until_s = 0.0
        """End of the latest open period; only meaningful in OPEN."""

    def probe_in_flight(self, now_s: float) -> bool:
        """Tell whether a probe holds the only place of a half-open breaker."""
        return self._lease_until_s is not None and now_s <= self._lease_until_s

    def blocked_until_s(self, now_s: float) -> float | None:
        """Return until when nobody is admitted, at the latest; None = the next may enter."""
        if self.state is BreakerState.OPEN and now_s < self.open_until_s:
            return self.open_until_s
        if self.probe_in_flight(now_s):
            return self._lease_until_s
        return None

    def enter(self, now_s: float, lease_until_s: float) -> tuple[int, Transition | None]:
        """Admit one attempt and return its ticket; only when nothing is blocked.

        Outside CLOSED it is the probe.
        """
        if self.state is BreakerState.CLOSED:
            return self.generation, None
        moved = self._move(Cause.PROBE_ADMITTED, now_s)
        self.generation += 1
        self._lease_until_s = lease_until_s
        return self.generation, moved

    def report(
        self, sample: Sample, ticket: int, now_s: float, took_s: float, *, timeout: bool
    ) -> Transition | None:
        """Note what one attempt said."""
        if sample is Sample.SUCCESS:
            return self.succeed(ticket, now_s, took_s)
        if sample is Sample.FAILURE:
            return self.fail(ticket, now_s, took_s, timeout=timeout)
        self.ignore(ticket)
        return None

    def view(self) -> BreakerView:
        """Return what is seen now."""
        is_open = self.state is BreakerState.OPEN
        return BreakerView(state=self.state, open_until_s=self.open_until_s if is_open else None)

    def succeed(self, ticket: int, now_s: float, took_s: float) -> Transition | None:
        """Note that the server did its work, in ``took_s``."""
        if self._stale(ticket, now_s):
            return None
        if self.state is BreakerState.HALF_OPEN:
            return self._move(Cause.PROBE_SUCCEEDED, now_s)
        self._failures_in_a_row = self._timeouts_in_a_row = 0
        slow_s = self._settings.slow_call_s
        slow = slow_s is not None and took_s >= slow_s
        self._window.add(now_s, failed=False, slow=slow)
        # A failure is looked at when it comes; a success can only ever add a slow call.
        return self._move(Cause.SLOW_CALLS, now_s) if slow and self._too_slow() else None

    def fail(self, ticket: int, now_s: float, took_s: float, *, timeout: bool) -> Transition | None:
        """Note that the server did not do its work; ``timeout`` = it did not answer in time."""
        if self._stale(ticket, now_s):
            return None
        if self.state is BreakerState.HALF_OPEN:
            return self._move(Cause.PROBE_FAILED, now_s)
        self._failures_in_a_row += 1
        self._timeouts_in_a_row = self._timeouts_in_a_row + 1 if timeout else 0
        slow_s = self._settings.slow_call_s
        self._window.add(now_s, failed=True, slow=slow_s is not None and took_s >= slow_s)
        cause = self._trip_cause()
        return None if cause is None else self._move(cause, now_s)

    def ignore(self, ticket: int) -> None:
        """Note that the attempt told nothing: a probe's place is free at once."""
        if ticket == self.generation and self._lease_until_s is not None:
            self._lease_until_s = None
            self.generation += 1

    def reset(self, now_s: float) -> Transition | None:
        """Close it whatever it knows."""
        return self._move(Cause.RESET, now_s)

    def _stale(self, ticket: int, now_s: float) -> bool:
        if ticket != self.generation:
            return True
        return self._lease_until_s is not None and now_s > self._lease_until_s

    def _too_slow(self) -> bool:
        window = self._window
        return (
            window.calls >= self._settings.minimum_calls
            and window.slow >= self._settings.slow_call_rate * window.calls
        )

    def _trip_cause(self) -> Cause | None:
        settings, window = self._settings, self._window
        if self._timeouts_in_a_row >= settings.consecutive_timeouts:
            return Cause.CONSECUTIVE_TIMEOUTS
        if self._failures_in_a_row >= settings.consecutive_failures:
            return Cause.CONSECUTIVE_FAILURES
        if (
            window.calls >= settings.minimum_calls
            and window.failures >= settings.failure_rate * window.calls
        ):
            return Cause.FAILURE_RATE
        return Cause.SLOW_CALLS if settings.slow_call_s is not None and self._too_slow() else None

    def _move(self, cause: Cause, now_s: float) -> Transition | None:
        to_state = TRANSITIONS.get((self.state, cause))
        if to_state is None:
            return None
        from_state, self.state = self.state, to_state
        self.generation += 1
        self._lease_until_s = None
        self._window.clear()
        self._failures_in_a_row = self._timeouts_in_a_row = 0
        if to_state is BreakerState.CLOSED:
            self._openings = 0
        opened = to_state is BreakerState.OPEN
        if opened:
            self.open_until_s = now_s + self._open_period_s()
            self._openings += 1
        self._moves += 1
        return Transition(
            group=self._group,
            number=self._moves,
            from_state=from_state,
            to_state=to_state,
            cause=cause,
            at_s=now_s,
            open_until_s=self.open_until_s if opened else None,
        )

    def _open_period_s(self) -> float:
        """Return the next open period: doubled each time, spread by `JITTER`, capped."""
        doubled_s = self._settings.open_s * 2.0 ** min(self._openings, _MAX_DOUBLINGS)
        longest_s = min(doubled_s * (1 + JITTER), self._settings.max_open_s)
        shortest_s = longest_s / (1 + JITTER)
        return shortest_s + self._fraction() * (longest_s - shortest_s)
