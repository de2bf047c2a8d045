"""Memory as its callers see it: the use cases under the configured failure policies.

Rule: one flow per call for both colours. A call ends with exactly one ``CallFinished``; it raises
only cancellation, or one of our errors where the operator chose fail-fast.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from resilient_ov import events
from resilient_ov.domain.errors import (
    OpenVikingError,
    OpenVikingOutcomeUnknownError,
    OpenVikingScopeError,
)
from resilient_ov.domain.exchange import Operation
from resilient_ov.domain.identity import scope, session_id
from resilient_ov.domain.namespace import View
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.recall import as_result, clamp_top_k
from resilient_ov.domain.rollout import is_in_share
from resilient_ov.domain.waiting import Target
from resilient_ov.policy.classify import DegradeReason
from resilient_ov.policy.permits import Gate
from resilient_ov.policy.refusals import Refusal, RefusalReason
from resilient_ov.policy.rules import Group
from resilient_ov.policy.switches import Mode
from resilient_ov.settings import (
    AuthMode,
    InjectionMode,
    ReadFailurePolicy,
    Settings,
    StartupPolicy,
    WriteFailurePolicy,
)
from resilient_ov.usecases.addressing import identity_of, target_of, view_of
from resilient_ov.usecases.backlog import HandOver, KeepHidden, text_chars
from resilient_ov.usecases.call import CallContext, origin_of
from resilient_ov.usecases.drain import Drain
from resilient_ov.usecases.failures import degradation, error_of
from resilient_ov.usecases.persistence import Persistence
from resilient_ov.usecases.recall import Found, Question, Recall, degraded
from resilient_ov.usecases.remember import Remember, Remembered
from resilient_ov.usecases.steps import Flow
from resilient_ov.usecases.warm import Warm, Warmed

R = TypeVar("R")

PROBE_USER = "__probe__"
_NO_STATE = events.CallOutcome.DEGRADED_UNAVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Whose memory, as the host names it; unchecked."""

    user_id: object
    agent_name: object = None
    thread_id: object = None
    trace_id: str | None = None


@dataclass(slots=True)
class _Ended:
    """What ``CallFinished`` will say, filled in by the call."""

    outcome: events.CallOutcome = events.CallOutcome.OK
    error_type: str | None = None
    origin: events.Origin = events.NOBODY


class Memory:
    """The calls, as flows. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        settings: Settings,
        recall: Recall,
        remember: Remember,
        warm: Warm,
        persistence: Persistence,
        gate: Gate,
        sink: events.EventSink,
        clock: Clock,
        scope_call: events.CallScope,
    ) -> None:
        self._settings = settings
        self._recall = recall
        self._remember = remember
        self._warm = warm
        self._persistence = persistence
        self._gate = gate
        self._sink = sink
        self._clock = clock
        self._scope_call = scope_call
        self._server_user: str | None = None
        self._lock = threading.Lock()
        self._writes_in_flight = 0
        self.closed = False

    # -- reading ---------------------------------------------------------------------------

    def get_context(self, who: Who, query: str | None) -> Flow[str]:
        """Return the text to inject, empty when there is none or it is only measured.

        Raises:
            OpenVikingError: the read failed and the read policy is fail-fast.
        """
        asked = query if query is not None else self._settings.retrieval.injection_query
        ended = _Ended()
        found = yield from self._told(
            events.Call.GET_CONTEXT,
            self._settings.budgets.get_context_s,
            ended,
            lambda context: self._found(
                context,
                ended,
                who,
                asked,
                self._settings.retrieval.top_k,
                None,
                events.Call.GET_CONTEXT,
            ),
        )
        return found.text

    def search(
        self, who: Who, query: str, top_k: object, category: str | None
    ) -> Flow[list[dict[str, str | float]]]:
        """Return the hits as JSON-clean mappings, best first.

        Raises:
            OpenVikingError: the read failed and the read policy is fail-fast.
        """
        limit = clamp_top_k(top_k, self._settings.retrieval.top_k)
        ended = _Ended()
        found = yield from self._told(
            events.Call.SEARCH,
            self._settings.budgets.search_s,
            ended,
            lambda context: self._found(
                context, ended, who, query, limit, category, events.Call.SEARCH
            ),
        )
        return [as_result(hit) for hit in found.hits]

    def refused_read(
        self, call: events.Call, reason: DegradeReason, refusal: RefusalReason
    ) -> None:
        """Count a read that our own limits or the calling thread did not allow to begin.

        Raises:
            OpenVikingError: the read policy is fail-fast.
        """
        cause = Refusal(group=Group.RECALL, reason=refusal, retry_at_s=0.0)
        found = degraded(reason, cause)
        error = error_of(cause, Operation.SEARCH)
        self._sink.emit(events.Refused(group=Group.RECALL, reason=refusal))
        self._sink.emit(
            events.Degraded(
                reason=reason, group=Group.RECALL, call=call, error_type=type(error).__name__
            )
        )
        self._sink.emit(
            events.CallFinished(
                call=call,
                outcome=found.outcome,
                duration_s=0.0,
                error_type=type(error).__name__,
            )
        )
        if self._settings.failure_policy.read is ReadFailurePolicy.FAIL_FAST:
            raise error

    def _found(
        self,
        context: CallContext,
        ended: _Ended,
        who: Who,
        query: str,
        top_k: int,
        category: str | None,
        call: events.Call,
    ) -> Flow[Found]:
        if self.closed:
            ended.outcome = events.CallOutcome.EMPTY
            return Found(outcome=ended.outcome)
        try:
            target = self._target(who, needs_thread=False)
        except OpenVikingScopeError as bad:
            self._degraded(DegradeReason.SCOPE, None, call, bad, context.origin)
            return self._read_failed(ended, degraded(DegradeReason.SCOPE), bad)
        context = self._for(context, ended, target, who)
        if self._disabled():
            refusal = Refusal(
                group=Group.RECALL, reason=RefusalReason.SWITCH, retry_at_s=float("inf")
            )
            found = degraded(DegradeReason.REFUSED, refusal)
        else:
            found = yield from self._recall.search(
                context,
                Question(
                    target=target,
                    view=self._view(target),
                    query=query,
                    category=category,
                    top_k=top_k,
                ),
                inject=call is events.Call.GET_CONTEXT,
            )
        if found.text and call is events.Call.GET_CONTEXT and not self._injects(who):
            found = replace(found, outcome=events.CallOutcome.WITHHELD, text="")
        ended.outcome = found.outcome
        if found.cause is None or found.reason is None:
            return found
        error = error_of(found.cause, Operation.SEARCH)
        ended.error_type = type(error).__name__
        if found.outcome in {events.CallOutcome.STALE, events.CallOutcome.WITHHELD}:
            return found
        self._degraded(found.reason, Group.RECALL, call, error, context.origin)
        return self._read_failed(ended, found, error)

    def _injects(self, who: Who) -> bool:
        """Tell whether this user's recalls reach the prompt yet."""
        injection = self._settings.injection
        if injection.mode is InjectionMode.MEASURE:
            return False
        account = self._settings.auth.scope_account
        return is_in_share(account, str(who.user_id), injection.percent)

    def _read_failed(self, ended: _Ended, found: Found, error: OpenVikingError) -> Found:
        ended.outcome = found.outcome
        ended.error_type = type(error).__name__
        if self._settings.failure_policy.read is ReadFailurePolicy.FAIL_FAST:
            raise error
        return found

    # -- writing ---------------------------------------------------------------------------

    def add(
        self, who: Who, messages: Sequence[object], keep_hidden: KeepHidden | None
    ) -> Flow[None]:
        """Store a thread's new messages and commit them, as far as the budget goes.

        Raises:
            OpenVikingError: it did not end with an accepted commit and the write policy is
                fail-fast. The text is kept for delivery all the same.
        """
        ended = _Ended()
        with self._lock:
            self._writes_in_flight += 1
        try:
            yield from self._told(
                events.Call.ADD,
                self._settings.budgets.add_s,
                ended,
                lambda context: self._added(context, ended, who, messages, keep_hidden),
            )
        finally:
            with self._lock:
                self._writes_in_flight -= 1

    def hand_over(
        self, who: Who, messages: Sequence[object], keep_hidden: KeepHidden | None
    ) -> None:
        """Give a thread's messages to the writer: no I/O, nothing read, nothing raised."""
        began_s = self._clock.monotonic_s()
        ended = _Ended()
        copied = tuple(messages)
        try:
            target = self._target(who, needs_thread=True)
        except OpenVikingScopeError as error:
            self._write_refused(ended, events.DropReason.SCOPE, len(copied), error)
        else:
            ended.origin = origin_of(target.identity.user, target.session_id, who.trace_id)
            if self.closed or self._disabled():
                reason = events.DropReason.SHUTDOWN if self.closed else events.DropReason.DISABLED
                self._write_refused(ended, reason, len(copied), None)
            else:
                remembered = self._remember.hand_over(
                    HandOver(
                        target=target,
                        messages=copied,
                        keep_hidden=keep_hidden,
                        chars=text_chars(copied),
                        trace_id=who.trace_id,
                    )
                )
                ended.outcome = remembered.outcome
        self._finished(events.Call.ADD_NOWAIT, ended, began_s, None)

    def writes_in_flight(self) -> int:
        """Return how many ``add`` calls have begun and not ended."""
        return self._writes_in_flight

    def _added(
        self,
        context: CallContext,
        ended: _Ended,
        who: Who,
        messages: Sequence[object],
        keep_hidden: KeepHidden | None,
    ) -> Flow[None]:
        try:
            target = self._target(who, needs_thread=True)
        except OpenVikingScopeError as error:
            self._write_refused(ended, events.DropReason.SCOPE, len(messages), error)
            if self._settings.failure_policy.write is WriteFailurePolicy.FAIL_FAST:
                raise
            return
        context = self._for(context, ended, target, who)
        if self.closed or self._disabled():
            reason = events.DropReason.SHUTDOWN if self.closed else events.DropReason.DISABLED
            self._write_refused(ended, reason, len(messages), None)
            return
        remembered = yield from self._remember.remember(context, target, messages, keep_hidden)
        ended.outcome = remembered.outcome
        if remembered.outcome is not events.CallOutcome.OK:
            self._not_stored(ended, remembered)

    def _not_stored(self, ended: _Ended, remembered: Remembered) -> None:
        if remembered.cause is not None:
            error = error_of(remembered.cause, Operation.MESSAGES_ADD, unknown=remembered.in_doubt)
        else:
            error = OpenVikingOutcomeUnknownError(
                "not stored yet; delivery goes on in the background",
                operation=Operation.MESSAGES_ADD.value,
            )
        ended.error_type = type(error).__name__
        if self._settings.failure_policy.write is WriteFailurePolicy.FAIL_FAST:
            raise error

    def _write_refused(
        self,
        ended: _Ended,
        reason: events.DropReason,
        count: int,
        error: OpenVikingScopeError | None,
    ) -> None:
        ended.outcome = events.CallOutcome.DROPPED
        if error is not None:
            ended.outcome = events.CallOutcome.DEGRADED_SCOPE
            ended.error_type = type(error).__name__
            self._degraded(DegradeReason.SCOPE, None, events.Call.ADD, error, ended.origin)
        self._sink.emit(events.MessagesDropped(reason=reason, count=count, origin=ended.origin))

    # -- the whole -------------------------------------------------------------------------

    def warm(self) -> Flow[bool]:
        """Tell whether memory is usable: True, or False under the policy ``warn``.

        Raises:
            OpenVikingError: it is not, and the startup policy is fail-fast.
        """
        ended = _Ended()
        error = yield from self._told(
            events.Call.WARM,
            self._settings.budgets.warm_s,
            ended,
            lambda context: self._warmed(context, ended),
        )
        if error is not None and self._settings.startup_policy is StartupPolicy.FAIL_FAST:
            raise error
        return error is None

    def _warmed(self, context: CallContext, ended: _Ended) -> Flow[OpenVikingError | None]:
        problem = yield from self._persistence.probe(context.deadline_s)
        if problem is not None:
            error = OpenVikingError(
                f"the state in {self._settings.storage_path} cannot be written: {problem};"
                " nothing is sent before it can",
                retryable=True,
            )
            ended.outcome, ended.error_type = _NO_STATE, type(error).__name__
            return error
        health = CallContext.starting(
            self._clock,
            budget_s=min(context.budget_s, self._settings.budgets.health_s),
            origin=context.origin,
        )
        nobody = scope(self._settings.auth.scope_account, PROBE_USER, None)
        target = target_of(self._settings, identity_of(self._settings, nobody), "")
        find = self._settings.startup_policy is StartupPolicy.FAIL_FAST
        warmed = yield from self._warm.warm(
            context,
            health,
            target.identity,
            targets=self._view(target).targets(None) if find else (),
        )
        if warmed.user is not None and self._settings.auth.mode is AuthMode.API_KEY:
            self._server_user = warmed.user
        if warmed.failed is None:
            return None
        error = error_of(warmed.failed, warmed.operation)
        found = degraded(_warm_reason(warmed), warmed.failed)
        ended.outcome, ended.error_type = found.outcome, type(error).__name__
        return error

    def flushed(self, drain: Drain, timeout_s: float) -> Flow[bool]:
        """Stop intake, deliver what waits; True = nothing of this process is left."""
        self.closed = True
        ended = _Ended()
        done = yield from self._told(
            events.Call.FLUSH, timeout_s, ended, lambda _: drain.drain(timeout_s)
        )
        return done

    def surroundings(self, call: events.Call) -> AbstractContextManager[None]:
        """Return what surrounds a call on its own thread or task: its span, for example."""
        return self._scope_call(call)

    # -- small parts -----------------------------------------------------------------------

    def _told(
        self,
        call: events.Call,
        budget_s: float,
        ended: _Ended,
        begin: Callable[[CallContext], Flow[R]],
    ) -> Flow[R]:
        context = CallContext.starting(self._clock, budget_s=budget_s, origin=events.NOBODY)
        began_s = context.deadline_s - budget_s
        try:
            result = yield from begin(context)
        except OpenVikingError:
            self._finished(call, ended, began_s, context.deadline_s)
            raise
        except BaseException:
            ended.outcome = events.CallOutcome.CANCELLED
            self._finished(call, ended, began_s, context.deadline_s)
            raise
        self._finished(call, ended, began_s, context.deadline_s)
        return result

    def _finished(
        self, call: events.Call, ended: _Ended, began_s: float, deadline_s: float | None
    ) -> None:
        now_s = self._clock.monotonic_s()
        self._sink.emit(
            events.CallFinished(
                call=call,
                outcome=ended.outcome,
                duration_s=now_s - began_s,
                overshoot_s=0.0 if deadline_s is None else max(0.0, now_s - deadline_s),
                error_type=ended.error_type,
                origin=ended.origin,
            )
        )

    def _target(self, who: Who, *, needs_thread: bool) -> Target:
        auth = self._settings.auth
        owner = scope(auth.scope_account, who.user_id, who.agent_name)
        if auth.mode is AuthMode.API_KEY:
            if who.user_id != auth.owner_user_id:
                raise OpenVikingScopeError("user_id: the API key belongs to another user")
            if who.agent_name is not None and not auth.api_key_shared_agents:
                raise OpenVikingScopeError(
                    "agent_name: one API key serves only the lead agent; set"
                    " api_key_shared_agents to share its memory"
                )
        if auth.require_authenticated_user and who.user_id == "default":
            raise OpenVikingScopeError("user_id: nobody is logged in")
        session = session_id(owner, who.thread_id) if needs_thread else ""
        return target_of(self._settings, identity_of(self._settings, owner), session)

    def _view(self, target: Target) -> View:
        by_key = self._settings.auth.mode is AuthMode.API_KEY
        own_user = self._server_user if by_key else target.identity.user
        return view_of(self._settings, target.identity, own_user=own_user)

    def _for(self, context: CallContext, ended: _Ended, target: Target, who: Who) -> CallContext:
        ended.origin = origin_of(target.identity.user, target.session_id or None, who.trace_id)
        return CallContext(
            deadline_s=context.deadline_s, budget_s=context.budget_s, origin=ended.origin
        )

    def _disabled(self) -> bool:
        mode = self._gate.switches.mode(Group.RECALL, self._clock.monotonic_s())
        return mode is Mode.DISABLED

    def _degraded(
        self,
        reason: DegradeReason,
        group: Group | None,
        call: events.Call,
        error: OpenVikingError,
        origin: events.Origin,
    ) -> None:
        self._sink.emit(
            events.Degraded(
                reason=reason,
                group=group,
                call=call,
                error_type=type(error).__name__,
                origin=origin,
            )
        )


def _warm_reason(warmed: Warmed) -> DegradeReason:
    if warmed.failed is None or warmed.operation is None:
        return DegradeReason.UNAVAILABLE
    return degradation(warmed.failed, warmed.operation)
