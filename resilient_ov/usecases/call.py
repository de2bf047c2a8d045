"""One operation call under the whole policy: permit, attempt, classify, report, perhaps again.

Rule: every attempt is admitted and every permit is reported exactly once, whatever happens in
between; nothing here knows a single operation by name, the table does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from resilient_ov import events
from resilient_ov.domain.exchange import Answer, Command, Evidence, Failure, FailureKind, Success
from resilient_ov.domain.identity import session_hash, user_hash
from resilient_ov.domain.ports import Attempt, Clock, Dice
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import Action, AttemptOutcome, Decision, classify
from resilient_ov.policy.permits import Gate, Permit
from resilient_ov.policy.refusals import (
    Change,
    Refusal,
    RefusalReason,
    RetryBudgetSpent,
)
from resilient_ov.policy.rules import OperationRule
from resilient_ov.usecases.failures import error_of
from resilient_ov.usecases.steps import Flow, send, wait

Result = Success | Failure | Refusal
BeforeSend = Callable[[], Flow[None]]


class AttemptSeries(Protocol):
    """Says whether another attempt may follow a failed one; made anew for each operation call."""

    def again(self) -> bool:
        """Tell whether another attempt may be made; False for good once it was False."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What all operations of one manager call share.

    ``deadline_s`` is absolute (monotonic) and total; ``budget_s`` its original length.
    """

    deadline_s: float
    budget_s: float
    origin: events.Origin
    sweeper: bool = False

    @classmethod
    def starting(
        cls,
        clock: Clock,
        *,
        budget_s: float,
        origin: events.Origin,
        sweeper: bool = False,
    ) -> "CallContext":
        """Return a context whose budget begins now."""
        return cls(
            deadline_s=clock.monotonic_s() + budget_s,
            budget_s=budget_s,
            origin=origin,
            sweeper=sweeper,
        )


def origin_of(
    user: str | None, session_id: str | None = None, trace_id: str | None = None
) -> events.Origin:
    """Return on whose behalf something happens, hashed, for the events."""
    return events.Origin(
        trace_id=trace_id,
        user_hash=user_hash(user) if user else None,
        session_hash=session_hash(session_id) if session_id else None,
    )


class Calls:
    """Performs operations. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        gate: Gate,
        series: Callable[[int], AttemptSeries],
        max_attempts: int,
        sink: events.EventSink,
        on_changes: Callable[[tuple[Change, ...]], None],
        clock: Clock,
        dice: Dice,
    ) -> None:
        self._gate = gate
        self._series = series
        self._max_attempts = max_attempts
        self._sink = sink
        self._on_changes = on_changes
        self._clock = clock
        self._dice = dice

    def perform(
        self, context: CallContext, command: Command, *, before_send: BeforeSend | None = None
    ) -> Flow[Result]:
        """Perform one operation inside the context's deadline.

        ``before_send`` runs after the first permit and before the first byte; what it raises ends
        the call, nothing was sent then. Nothing else is raised but cancellation.
        """
        call = _Call(self._clock.monotonic_s(), self._dice.token())
        rule = OPERATIONS[command.operation]
        try:
            result = yield from self._attempts(context, command, rule, call, before_send)
        except BaseException:
            self._finished(context, rule, call, events.OperationStatus.CANCELLED, None)
            raise
        self._finished(context, rule, call, _status(result), result)
        return result

    def not_applied(self, command: Command, failure: Failure) -> bool:
        """Tell whether the server has certainly not applied the failed command, now or later."""
        return classify(OPERATIONS[command.operation], failure).not_applied

    def _attempts(
        self,
        context: CallContext,
        command: Command,
        rule: OperationRule,
        call: "_Call",
        before_send: BeforeSend | None,
    ) -> Flow[Result]:
        series: AttemptSeries | None = None
        failed: Failure | None = None
        while True:
            admitted = yield from self._admit(context, command, rule, call.number + 1)
            if not isinstance(admitted, Permit):
                return self._refused(context, rule, admitted, failed)
            if admitted.changes:
                self._on_changes(admitted.changes)
            try:
                if before_send is not None:
                    yield from before_send()
                    before_send = None
                answer, took_s = yield from self._attempt(context, command, call, admitted)
            except BaseException:
                self._broken_off(context, rule, call, admitted)
                raise
            if isinstance(answer, Success):
                self._on_changes(admitted.succeeded(self._clock.monotonic_s(), took_s))
                self._left(rule)
                return answer
            failed = answer
            decision = classify(rule, answer)
            verdict = admitted.failed(decision, self._clock.monotonic_s(), took_s)
            self._left(rule)
            self._on_changes(verdict.changes)
            if decision.action is Action.ACCEPT:
                return Success(value=None, status=answer.status or 0)
            self._tell_failed(context, rule, call, decision, took_s)
            if verdict.retry_wait_s is None:
                return answer
            series = series or self._series(min(self._max_attempts, rule.max_attempts))
            if not series.again():
                return answer
            self._tell_retry(context, rule, call, decision, verdict.retry_wait_s)
            yield from wait(verdict.retry_wait_s)

    def _admit(
        self, context: CallContext, command: Command, rule: OperationRule, attempt_no: int
    ) -> Flow[Permit | Refusal | RetryBudgetSpent]:
        place: int | None = None
        while True:
            now_s = self._clock.monotonic_s()
            admitted = self._gate.admit(
                rule,
                now_s=now_s,
                deadline_s=context.deadline_s,
                budget_s=context.budget_s,
                identity=command.identity.user,
                attempt_no=attempt_no,
                sweeper=context.sweeper,
                place=place,
            )
            if not isinstance(admitted, Refusal) or admitted.reason is not RefusalReason.BULKHEAD:
                return admitted
            if context.sweeper or admitted.retry_at_s >= context.deadline_s:
                return admitted
            place = admitted.place
            yield from wait(max(0.0, admitted.retry_at_s - now_s))

    def _attempt(
        self, context: CallContext, command: Command, call: "_Call", permit: Permit
    ) -> Flow[tuple[Answer, float]]:
        group = permit.rule.group
        if group is not None:
            if permit.would_refuse is not None:
                self._sink.emit(events.WouldRefuse(group=group, reason=permit.would_refuse))
            self._sink.emit(events.ENTERED[group])
        call.sent()
        began_s = self._clock.monotonic_s()
        answer = yield from send(
            Attempt(
                command=command,
                deadline_s=permit.deadline_s,
                request_id=call.request_id,
                trace_id=context.origin.trace_id,
            )
        )
        return answer, self._clock.monotonic_s() - began_s

    # -- what is told ----------------------------------------------------------------------

    def _refused(
        self,
        context: CallContext,
        rule: OperationRule,
        refusal: Refusal | RetryBudgetSpent,
        failed: Failure | None,
    ) -> Result:
        if isinstance(refusal, RetryBudgetSpent):
            self._sink.emit(events.RetryBudgetExhausted(operation=rule.operation))
        else:
            self._tell_refused(context, rule, refusal.group, refusal.reason)
            if failed is None:
                return refusal
        # A retry that was refused ends the call with the failure that it has.
        if failed is None:
            raise AssertionError("a first attempt pays no retry")
        return failed

    def _broken_off(
        self, context: CallContext, rule: OperationRule, call: "_Call", permit: Permit
    ) -> None:
        if not call.under_way:
            permit.return_unused()
            return
        permit.cancel()
        call.under_way = False
        self._left(rule)
        self._sink.emit(
            events.AttemptFailed(
                operation=rule.operation,
                group=rule.group,
                outcome=AttemptOutcome.CANCELLED,
                attempt=call.number,
                duration_s=self._clock.monotonic_s() - call.began_s,
                request_id=call.request_id,
                origin=context.origin,
            )
        )

    def _left(self, rule: OperationRule) -> None:
        if rule.group is not None:
            self._sink.emit(events.LEFT[rule.group])

    def _tell_failed(
        self,
        context: CallContext,
        rule: OperationRule,
        call: "_Call",
        decision: Decision,
        took_s: float,
    ) -> None:
        call.under_way = False
        if decision.outcome is None:
            # Our own pool had no place: nothing reached the wire.
            call.number -= 1
            if rule.group is not None:
                self._tell_refused(context, rule, rule.group, RefusalReason.EXECUTOR)
            return
        self._sink.emit(
            events.AttemptFailed(
                operation=rule.operation,
                group=rule.group,
                outcome=decision.outcome,
                attempt=call.number,
                duration_s=took_s,
                request_id=call.request_id,
                status_code=decision.failure.status,
                origin=context.origin,
            )
        )

    def _tell_refused(
        self,
        context: CallContext,
        rule: OperationRule,
        group: events.Group,
        reason: RefusalReason,
    ) -> None:
        self._sink.emit(
            events.Refused(
                group=group, reason=reason, operation=rule.operation, origin=context.origin
            )
        )

    def _tell_retry(
        self,
        context: CallContext,
        rule: OperationRule,
        call: "_Call",
        decision: Decision,
        delay_s: float,
    ) -> None:
        if decision.retry_reason is not None:
            self._sink.emit(
                events.RetryScheduled(
                    operation=rule.operation,
                    reason=decision.retry_reason,
                    attempt=call.number + 1,
                    delay_s=delay_s,
                    request_id=call.request_id,
                    origin=context.origin,
                )
            )

    def _finished(
        self,
        context: CallContext,
        rule: OperationRule,
        call: "_Call",
        status: events.OperationStatus,
        result: Result | None,
    ) -> None:
        now_s = self._clock.monotonic_s()
        if isinstance(result, Success):
            self._sink.emit(
                events.OperationFinished(
                    operation=rule.operation,
                    group=rule.group,
                    status=status,
                    duration_s=now_s - call.began_s,
                    attempts=call.number,
                    origin=context.origin,
                    request_id=call.request_id,
                    status_code=result.status,
                    result_count=_count(result),
                )
            )
            return
        self._sink.emit(
            events.OperationFinished(
                operation=rule.operation,
                group=rule.group,
                status=status,
                duration_s=now_s - call.began_s,
                attempts=call.number,
                origin=context.origin,
                request_id=call.request_id,
                reason=None if result is None else _reason(result),
                error_type=None if result is None else type(error_of(result)).__name__,
                status_code=result.status if isinstance(result, Failure) else None,
            )
        )


class _Call:
    """Where one operation call stands."""

    __slots__ = ("began_s", "number", "request_id", "token", "under_way")

    def __init__(self, began_s: float, token: str) -> None:
        self.began_s = began_s
        self.token = token
        self.request_id = token
        self.number = 0
        self.under_way = False

    def sent(self) -> None:
        """Begin the next attempt."""
        self.number += 1
        self.under_way = True
        if self.number > 1:
            self.request_id = f"{self.token}-a{self.number}"


def _status(result: Result) -> events.OperationStatus:
    match result:
        case Success():
            return events.OperationStatus.OK
        case Refusal():
            return events.OperationStatus.REFUSED
        case Failure(evidence=Evidence.UNKNOWN):
            return events.OperationStatus.UNKNOWN
        case _:
            return events.OperationStatus.ERROR


def _reason(result: Failure | Refusal) -> FailureKind | RefusalReason:
    return result.reason if isinstance(result, Refusal) else result.kind


def _count(result: Success) -> int | None:
    return len(result.value) if isinstance(result.value, tuple) else None
