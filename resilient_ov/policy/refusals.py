"""What the gate answers to who asks to send: values only, and the closed list of reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.policy.breaker import BreakerView, Transition
from resilient_ov.policy.holds import HoldChanged
from resilient_ov.policy.rules import Group
from resilient_ov.policy.switches import Mode


class RefusalReason(StrEnum):
    """Why nothing was sent; values of ``openviking_refused_total{reason}``.

    The gate never says EXECUTOR (our own pool of threads or connections is full) or CLOSED (this
    backend was shut down): those who own these say it.
    """

    OPEN = "open"
    PROBE_IN_FLIGHT = "probe_in_flight"
    HOST_OPEN = "host_open"
    AUTH_HOLD = "auth_hold"
    RETRY_AFTER = "retry_after"
    BULKHEAD = "bulkhead"
    EXECUTOR = "executor"
    SWITCH = "switch"
    DEADLINE = "deadline"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Nothing may be sent now.

    ``retry_at_s`` (monotonic) is when asking again makes sense; infinite for a switch without an
    end. Only BULKHEAD is worth waiting for inside a call: ask again then and show ``place``.
    """

    group: Group
    reason: RefusalReason
    retry_at_s: float
    place: int | None = None


@dataclass(frozen=True, slots=True)
class RetryBudgetSpent:
    """No retry is left for now: the call ends with the failure it has.

    Counted in ``openviking_retry_budget_exhausted_total``, not as a refusal.
    """


Change = Transition | HoldChanged
"""Something an operator may want to hear of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What follows a failed attempt: wait and ask for the next attempt, or None = the call ends."""

    changes: tuple[Change, ...]
    retry_wait_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSnapshot:
    """The gate as seen at one moment, for metrics and status.

    Attributes:
        breakers: all five.
        auth_hold_until_s: end of the hold of the host; it may have passed when no probe was
            accepted yet. None = our key is not refused.
        held_identities: how many users are held alone.
        retry_after_until_s: groups that the server asked to wait.
        in_flight: attempts under way by group.
        modes: the switch of each group of operations.
        up: whether memory works as far as the attempts tell: True when the last one was answered
            without 5xx, False after three failures in a row and while a breaker is open or our key
            is held; in between it stays; None before the first.
    """

    breakers: Mapping[Group, BreakerView]
    auth_hold_until_s: float | None
    held_identities: int
    retry_after_until_s: Mapping[Group, float]
    in_flight: Mapping[Group, int]
    modes: Mapping[Group, Mode]
    up: bool | None
