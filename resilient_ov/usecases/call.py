"""One operation call under the whole policy: permit, attempt, classify, report, perhaps again.

Rule: every attempt is admitted and every permit is reported exactly once, whatever happens in
between; nothing here knows a single operation by name, the table does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from resilient_ov import events
from resilient_ov.domain.exchange import Answer, Command, Failure, Success
from resilient_ov.domain.identity import session_hash, user_hash
from resilient_ov.domain.ports import Attempt, Clock, Dice
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import Action, classify
from resilient_ov.policy.permits import Gate, Permit
from resilient_ov.policy.refusals import Change, Refusal, RefusalReason, RetryBudgetSpent
from resilient_ov.usecases.progress import AttemptSeries, Progress, Result, Teller
from resilient_ov.usecases.steps import Flow, Send, Wait, wait

__all__ = ["AttemptSeries", "BeforeSend", "CallContext", "Calls", "Result", "origin_of"]

BeforeSend = Callable[[], Flow[None]]


@dataclass(slots=True)
class CallContext:
    """What all operations of one manager call share; nobody changes it.

    ``deadline_s`` is absolute (monotonic) and total; ``budget_s`` its original length.
    """

    # Not frozen, because one is made for every call and frozen costs three times as much.
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
        return cls(clock.monotonic_s() + budget_s, budget_s, origin, sweeper)


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
        self._tell = Teller(sink)
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
        # In one piece, because each generator in between would cost as much as the breaker.
        now_s = self._clock.monotonic_s()
        rule = OPERATIONS[command.operation]
        call = Progress(command, rule, context.origin, self._dice.token(), now_s)
        result: Result
        try:
            while True:
                permit = self._ask(context, call, now_s, None)
                if isinstance(permit, Refusal):
                    permit = yield from self._wait_for_place(context, call, permit)
                if not isinstance(permit, Permit):
                    result = self._refused(call, permit)
                    break
                call.permit = permit
                if permit.changes:
                    self._on_changes(permit.changes)
                if before_send is not None:
                    yield from before_send()
                    before_send = None
                self._tell.entered(permit)
                call.sending(self._clock.monotonic_s())
                answer: Answer = yield Send(
                    Attempt(command, permit.deadline_s, call.request_id, context.origin.trace_id)
                )
                now_s = self._clock.monotonic_s()
                if isinstance(answer, Success):
                    changes = permit.succeeded(now_s, now_s - call.sent_s)
                    self._tell.left(rule)
                    if changes:
                        self._on_changes(changes)
                    result = answer
                    break
                again = self._judge(call, permit, answer, now_s)
                if not isinstance(again, Wait):
                    result = again
                    break
                yield again
                now_s = self._clock.monotonic_s()
        except BaseException:
            self._broken_off(call)
            raise
        self._tell.finished(call, result, now_s)
        return result

    def not_applied(self, command: Command, failure: Failure) -> bool:
        """Tell whether the server has certainly not applied the failed command, now or later."""
        return classify(OPERATIONS[command.operation], failure).not_applied

    def _ask(
        self, context: CallContext, call: Progress, now_s: float, place: int | None
    ) -> Permit | Refusal | RetryBudgetSpent:
        return self._gate.admit(
            call.rule,
            now_s=now_s,
            deadline_s=context.deadline_s,
            budget_s=context.budget_s,
            identity=call.command.identity.user,
            attempt_no=call.attempts + 1,
            sweeper=context.sweeper,
            place=place,
        )

    def _wait_for_place(
        self, context: CallContext, call: Progress, refusal: Refusal
    ) -> Flow[Permit | Refusal | RetryBudgetSpent]:
        """Ask again while only a limit of ours is in the way and the deadline allows."""
        answer: Permit | Refusal | RetryBudgetSpent = refusal
        while (
            isinstance(answer, Refusal)
            and answer.reason is RefusalReason.BULKHEAD
            and answer.retry_at_s < context.deadline_s
            and not context.sweeper
        ):
            yield from wait(max(0.0, answer.retry_at_s - self._clock.monotonic_s()))
            answer = self._ask(context, call, self._clock.monotonic_s(), answer.place)
        return answer

    def _refused(self, call: Progress, refusal: Refusal | RetryBudgetSpent) -> Result:
        self._tell.refused(call, refusal)
        # A retry that was refused ends the call with the failure that it has.
        if call.failure is not None:
            return call.failure
        if isinstance(refusal, Refusal):
            return refusal
        raise AssertionError("a first attempt pays no retry")

    def _judge(
        self, call: Progress, permit: Permit, failure: Failure, now_s: float
    ) -> Wait | Result:
        """Report a failed attempt; return the wait before the next one, or the call's end."""
        took_s = now_s - call.sent_s
        decision = classify(call.rule, failure)
        verdict = permit.failed(decision, now_s, took_s)
        call.under_way = False
        failure = call.failure = replace(failure, request_id=call.request_id)
        self._tell.left(call.rule)
        self._on_changes(verdict.changes)
        if decision.action is Action.ACCEPT:
            return Success(value=None, status=failure.status or 0)
        self._tell.attempt_failed(call, decision, took_s)
        if decision.outcome is None:
            call.attempts -= 1
        if verdict.retry_wait_s is None:
            return failure
        if call.series is None:
            call.series = self._series(min(self._max_attempts, call.rule.max_attempts))
        if not call.series.again():
            return failure
        self._tell.retry_scheduled(call, decision, verdict.retry_wait_s)
        return Wait(verdict.retry_wait_s)

    def _broken_off(self, call: Progress) -> None:
        """Give back what a call holds that its caller, or an error, ended."""
        now_s = self._clock.monotonic_s()
        permit = call.permit
        if permit is not None and permit.unreported:
            if call.under_way:
                permit.cancel()
                self._tell.left(call.rule)
                self._tell.attempt_cancelled(call, now_s - call.sent_s)
            else:
                permit.return_unused()
        self._tell.finished(call, None, now_s)
