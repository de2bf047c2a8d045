"""Judges from breakers, holds and attempts whether the server is up.

No I/O, no clock. Not thread-safe by itself: an update lost between two threads is made good by
the next attempt.
"""

from resilient_ov.events import AttemptOutcome, BreakerState, Group

FAILURES_UNTIL_DOWN = 3

_SILENT = frozenset({AttemptOutcome.CANCELLED})
_FAILED = frozenset(
    {
        AttemptOutcome.SERVER_ERROR,
        AttemptOutcome.CONNECT,
        AttemptOutcome.TLS,
        AttemptOutcome.TIMEOUT,
        AttemptOutcome.RESET,
        AttemptOutcome.PROTOCOL,
    }
)


class Uptime:
    """Knows ``up``: True, False, or None before anything is known.

    False while a breaker is open, an auth hold stands, or after three failed attempts in a row;
    True when none of that holds and the last attempt was answered without 5xx; in between it
    stays what it was.
    """

    __slots__ = ("_answered", "_failures", "_held", "_open", "up")

    def __init__(self) -> None:
        self.up: bool | None = None
        self._answered = False
        self._failures = 0
        self._open: set[Group] = set()
        self._held: set[Group] = set()

    def succeeded(self) -> bool:
        """Take a successful attempt; True when ``up`` changed."""
        if self.up and not self._failures:
            return False
        return self.attempted(AttemptOutcome.OK)

    def attempted(self, outcome: AttemptOutcome) -> bool:
        """Take an attempt; True when ``up`` changed."""
        if outcome in _SILENT:
            return False
        self._answered = outcome not in _FAILED
        self._failures = 0 if self._answered else self._failures + 1
        return self._judge()

    def breaker(self, group: Group, state: BreakerState) -> bool:
        """Take a breaker's new state; True when ``up`` changed."""
        if state is BreakerState.OPEN:
            self._open.add(group)
        else:
            self._open.discard(group)
        return self._judge()

    def auth_hold(self, group: Group, *, stands: bool) -> bool:
        """Take the begin or end of an auth hold; True when ``up`` changed."""
        if stands:
            self._held.add(group)
        else:
            self._held.discard(group)
        return self._judge()

    def _judge(self) -> bool:
        before = self.up
        if self._open or self._held or self._failures >= FAILURES_UNTIL_DOWN:
            self.up = False
        elif self._answered:
            self.up = True
        return self.up is not before
