"""Arithmetic of the one deadline a call has.

No I/O and no clock here: `now_s` and `deadline_s` are readings of the same monotonic clock.
"""

LITTLE_TIME_S = 0.25
"""Less than this is not enough to send a write that cannot be repeated and hear of it."""


def remaining_s(deadline_s: float, now_s: float) -> float:
    """Return the time left, never negative."""
    return max(0.0, deadline_s - now_s)


def phase_s(limit_s: float, deadline_s: float, now_s: float) -> float:
    """Return how long a phase (connect, read, write, pool) may take: its limit or what is left."""
    return min(limit_s, remaining_s(deadline_s, now_s))


def little_time_s(budget_s: float) -> float:
    """Return what a write that cannot be repeated needs to be started, for a call's budget."""
    return min(LITTLE_TIME_S, budget_s / 2)


def evidence_s(min_evidence_s: float, budget_s: float, attempt_s: float | None) -> float:
    """Return how long the server must have had for a cut at the deadline to speak against it.

    Half of a capped attempt is enough: who caps attempts says how long an answer may take.
    """
    enough_s = min(min_evidence_s, budget_s / 2)
    return enough_s if attempt_s is None else min(enough_s, attempt_s / 2)
