"""Where one operation call stands, and how its way is told in events.

Rule: decides nothing; what is told of a call is told here, each thing once.
"""

from typing import Protocol

from resilient_ov import events
from resilient_ov.domain.exchange import Command, Evidence, Failure, FailureKind, Success
from resilient_ov.policy.classify import AttemptOutcome, Decision
from resilient_ov.policy.permits import Permit
from resilient_ov.policy.refusals import Refusal, RefusalReason, RetryBudgetSpent
from resilient_ov.policy.rules import OperationRule
from resilient_ov.usecases.failures import error_of

Result = Success | Failure | Refusal


class AttemptSeries(Protocol):
    """Says whether another attempt may follow a failed one; made anew for each operation call."""

    def again(self) -> bool:
        """Tell whether another attempt may be made; False for good once it was False."""
        ...


class Progress:
    """Where one operation call stands; one is made for every call and changed by it alone."""

    __slots__ = (
        "attempts",
        "began_s",
        "command",
        "failure",
        "origin",
        "permit",
        "request_id",
        "rule",
        "sent_s",
        "series",
        "token",
        "under_way",
    )

    def __init__(
        self,
        command: Command,
        rule: OperationRule,
        origin: events.Origin,
        token: str,
        began_s: float,
    ) -> None:
        self.command = command
        self.rule = rule
        self.origin = origin
        self.token = token
        self.request_id = token
        """One per attempt: the token, then ``-a2``, ``-a3``."""
        self.began_s = began_s
        self.sent_s = began_s
        """When the latest attempt was handed to the transport (monotonic)."""
        self.attempts = 0
        """Attempts that reached the wire."""
        self.permit: Permit | None = None
        self.series: AttemptSeries | None = None
        self.failure: Failure | None = None
        """How the latest attempt went wrong."""
        self.under_way = False

    def sending(self, now_s: float) -> None:
        """Begin the next attempt."""
        self.attempts += 1
        if self.attempts > 1:
            self.request_id = f"{self.token}-a{self.attempts}"
        self.sent_s = now_s
        self.under_way = True


class Teller:
    """Tells how operation calls go. Stateless: safe from many threads and tasks."""

    def __init__(self, sink: events.EventSink) -> None:
        self._emit = sink.emit

    def entered(self, permit: Permit) -> None:
        """An attempt is about to be sent."""
        group = permit.rule.group
        if group is None:
            return
        if permit.would_refuse is not None:
            self._emit(events.WouldRefuse(group=group, reason=permit.would_refuse))
        self._emit(events.ENTERED[group])

    def left(self, rule: OperationRule) -> None:
        """An attempt ended, however it did."""
        if rule.group is not None:
            self._emit(events.LEFT[rule.group])

    def refused(self, call: Progress, refusal: Refusal | RetryBudgetSpent) -> None:
        """No attempt may be made."""
        if isinstance(refusal, RetryBudgetSpent):
            self._emit(events.RetryBudgetExhausted(operation=call.rule.operation))
        else:
            self._refused(call, refusal.group, refusal.reason)

    def attempt_failed(self, call: Progress, decision: Decision, took_s: float) -> None:
        """An attempt went wrong."""
        if decision.outcome is not None:
            self._failed(call, decision.outcome, took_s, decision.failure.status)
        elif call.rule.group is not None:
            # Our own pool had no place: nothing reached the wire.
            self._refused(call, call.rule.group, RefusalReason.EXECUTOR)

    def attempt_cancelled(self, call: Progress, took_s: float) -> None:
        """An attempt was broken off by its caller."""
        self._failed(call, AttemptOutcome.CANCELLED, took_s, None)

    def retry_scheduled(self, call: Progress, decision: Decision, delay_s: float) -> None:
        """Another attempt will follow."""
        if decision.retry_reason is not None:
            self._emit(
                events.RetryScheduled(
                    operation=call.rule.operation,
                    reason=decision.retry_reason,
                    attempt=call.attempts + 1,
                    delay_s=delay_s,
                    request_id=call.request_id,
                    origin=call.origin,
                )
            )

    def finished(self, call: Progress, result: Result | None, now_s: float) -> None:
        """The operation call ended; None = its caller broke it off."""
        if isinstance(result, Success):
            self._emit(
                events.OperationFinished(
                    operation=call.rule.operation,
                    group=call.rule.group,
                    status=events.OperationStatus.OK,
                    duration_s=now_s - call.began_s,
                    attempts=call.attempts,
                    origin=call.origin,
                    request_id=call.request_id,
                    status_code=result.status,
                    result_count=len(result.value) if isinstance(result.value, tuple) else None,
                )
            )
            return
        self._emit(
            events.OperationFinished(
                operation=call.rule.operation,
                group=call.rule.group,
                status=_status(result),
                duration_s=now_s - call.began_s,
                attempts=call.attempts,
                origin=call.origin,
                request_id=call.request_id,
                reason=_reason(result),
                error_type=None if result is None else type(error_of(result)).__name__,
                status_code=result.status if isinstance(result, Failure) else None,
            )
        )

    def _refused(self, call: Progress, group: events.Group, reason: RefusalReason) -> None:
        self._emit(
            events.Refused(
                group=group, reason=reason, operation=call.rule.operation, origin=call.origin
            )
        )

    def _failed(
        self, call: Progress, outcome: AttemptOutcome, took_s: float, status: int | None
    ) -> None:
        self._emit(
            events.AttemptFailed(
                operation=call.rule.operation,
                group=call.rule.group,
                outcome=outcome,
                attempt=call.attempts,
                duration_s=took_s,
                request_id=call.request_id,
                status_code=status,
                origin=call.origin,
            )
        )


def _reason(result: Failure | Refusal | None) -> FailureKind | RefusalReason | None:
    if result is None:
        return None
    return result.reason if isinstance(result, Refusal) else result.kind


def _status(result: Failure | Refusal | None) -> events.OperationStatus:
    if result is None:
        return events.OperationStatus.CANCELLED
    if isinstance(result, Refusal):
        return events.OperationStatus.REFUSED
    if result.evidence is Evidence.UNKNOWN:
        return events.OperationStatus.UNKNOWN
    return events.OperationStatus.ERROR
