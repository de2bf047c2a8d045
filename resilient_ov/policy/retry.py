"""How long to wait before the next attempt.

No I/O, clock or randomness here: `fraction` is a random number in [0, 1) that the caller draws.
"""

from dataclasses import dataclass

from resilient_ov.settings import RetrySettings

MAX_HOLD_S = 60.0
"""A server may ask for hours; nobody is held longer than this for one hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryWait:
    """Wait this long, then send again."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRetry:
    """The call ends. ``hold_s`` > 0 = the server asked everybody of that group to wait so long."""

    hold_s: float


def backoff_s(attempt_no: int, fraction: float, settings: RetrySettings) -> float:
    """Return the wait after attempt ``attempt_no`` (>= 1) failed.

    Full jitter: a uniform share of ``initial * 2 ** (attempt_no - 1)``, capped at ``max``
    (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
    """
    return fraction * min(settings.max_s, settings.initial_s * 2.0 ** (attempt_no - 1))


def plan_wait(
    *,
    attempt_no: int,
    fraction: float,
    settings: RetrySettings,
    retry_after_s: float | None,
    left_s: float,
    needed_s: float,
) -> RetryWait | NoRetry:
    """Return the wait before the next attempt, if one still fits.

    It fits when at least ``needed_s`` of the ``left_s`` until the deadline remain after the wait.
    A hint of the server is a lower bound: the jittered back-off is added to it, so that those who
    were told the same do not come back together.
    """
    hint_s = retry_after_s or 0.0
    wait_s = hint_s + backoff_s(attempt_no, fraction, settings)
    if wait_s + needed_s <= left_s:
        return RetryWait(wait_s=wait_s)
    return no_retry(retry_after_s)


def no_retry(retry_after_s: float | None) -> NoRetry:
    """Return the end of a call whose last answer carried that hint."""
    return NoRetry(hold_s=min(retry_after_s or 0.0, MAX_HOLD_S))
