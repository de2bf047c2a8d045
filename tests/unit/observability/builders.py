"""Events for the tests of the sinks."""

from typing import Any

from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov.events import (
    AttemptFailed,
    AttemptOutcome,
    BreakerChanged,
    BreakerState,
    Call,
    CallFinished,
    CallOutcome,
    Degraded,
    DegradeReason,
    Group,
    OperationFinished,
    OperationStatus,
    Origin,
)

USER_HASH = "df_" + "0123456789" * 4
SESSION_HASH = "df_" + "abcdefgh234567" * 3 + "abcdefgh23"
ORIGIN = Origin(trace_id="trace-1", user_hash=USER_HASH, session_hash=SESSION_HASH)


class ManualClock:
    """Time that passes when told."""

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_iso(self) -> str:
        return f"2026-01-01T00:{int(self.now_s) // 60 % 60:02d}:{int(self.now_s) % 60:02d}Z"


def call(**changes: Any) -> CallFinished:
    facts: dict[str, Any] = {
        "call": Call.GET_CONTEXT,
        "outcome": CallOutcome.OK,
        "duration_s": 0.1,
        "origin": ORIGIN,
    }
    return CallFinished(**{**facts, **changes})


def operation(**changes: Any) -> OperationFinished:
    facts: dict[str, Any] = {
        "operation": Operation.SEARCH,
        "group": Group.RECALL,
        "status": OperationStatus.OK,
        "duration_s": 0.1,
        "origin": ORIGIN,
        "request_id": "r" * 32,
        "status_code": 200,
    }
    return OperationFinished(**{**facts, **changes})


def failed_operation(**changes: Any) -> OperationFinished:
    return operation(
        **{
            "status": OperationStatus.ERROR,
            "reason": FailureKind.SERVER_ERROR,
            "error_type": "OpenVikingUnavailableError",
            "status_code": 500,
            **changes,
        }
    )


def failed_attempt(
    outcome: AttemptOutcome = AttemptOutcome.CONNECT, **changes: Any
) -> AttemptFailed:
    facts: dict[str, Any] = {
        "operation": Operation.SEARCH,
        "group": Group.RECALL,
        "outcome": outcome,
        "attempt": 1,
        "duration_s": 0.2,
    }
    return AttemptFailed(**{**facts, **changes})


def breaker(to_state: BreakerState, group: Group = Group.RECALL) -> BreakerChanged:
    from_state = {
        BreakerState.OPEN: BreakerState.CLOSED,
        BreakerState.HALF_OPEN: BreakerState.OPEN,
        BreakerState.CLOSED: BreakerState.HALF_OPEN,
    }[to_state]
    return BreakerChanged(group=group, from_state=from_state, to_state=to_state)


def degraded(reason: DegradeReason = DegradeReason.UNAVAILABLE, **changes: Any) -> Degraded:
    return Degraded(**{"reason": reason, "group": Group.RECALL, "origin": ORIGIN, **changes})
