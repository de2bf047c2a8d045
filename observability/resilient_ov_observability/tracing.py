"""The trace sink: one INTERNAL span per call of the manager, from events.

Rule: spans join whatever provider the host has set; there is no SDK and no provider of ours. An
exception is never recorded: its text may hold anything. What is set passes the allow-list.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final

import httpx

from resilient_ov import events
from resilient_ov.events.sinks import Handler
from resilient_ov_observability import redaction
from resilient_ov_observability.http_spans import transport_wraps
from resilient_ov_observability.optional import optional
from resilient_ov_observability.version import VERSION
from resilient_ov_observability.wording import operation_event

_NAMES: Final = {call: f"openviking.{call}" for call in events.Call}
_ATTRIBUTES: Final = {name: f"openviking.{name}" for name in redaction.ALLOWED} | {
    "error_type": "error.type",
    "status_code": "http.response.status_code",
}
"""Name of the attribute for each field that may leave; the conventions' where there is one."""

# Imported with this module, not inside a call.
_trace: Final[Any] = optional("opentelemetry.trace")
_context: Final[Any] = optional("opentelemetry.context")


class TraceSink:
    """Makes spans of calls and puts what happens inside them on them.

    A sink that does nothing when OpenTelemetry is missing or broken; ``working`` tells.

    Args:
        http_spans: also one CLIENT span per attempt, through ``wrap`` and ``wrap_async``.
        routes: the known ``METHOD /path/{gap}``, to which those spans reduce a path.
    """

    wrap: Callable[[httpx.BaseTransport], httpx.BaseTransport]
    wrap_async: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport]

    def __init__(self, *, http_spans: bool = False, routes: Iterable[str] = ()) -> None:
        self.working = _trace is not None and _context is not None
        self._tracer = _tracer() if self.working else None
        self.wrap, self.wrap_async = transport_wraps(spans=http_spans, routes=routes)
        self._breakers: dict[events.Group, events.BreakerState] = {}
        self._handlers: dict[type, Handler] = {
            events.CallFinished: self._call,
            events.OperationFinished: self._operation,
            events.RetryScheduled: self._retry,
            events.BreakerChanged: self._breaker,
            events.Refused: self._refused,
            events.Degraded: self._degraded,
        }

    def emit(self, event: events.Event) -> None:
        """Put the event on the span of the call it belongs to."""
        handle = self.handlers().get(type(event))
        if handle is not None:
            handle(event)

    def handlers(self) -> Mapping[type, Handler]:
        """Return what to call per event class."""
        return self._handlers if self.working else {}

    def scope_call(self, call: events.Call, /) -> AbstractContextManager[None]:
        """Return the span of one call, current while it is entered."""
        return _CallSpan(self._tracer, call) if self.working else events.no_scope(call)

    def current_trace_id(self) -> str | None:
        """Return the trace id of the current span as 32 hex digits, None without a span."""
        if not self.working:
            return None
        found = _trace.get_current_span().get_span_context()
        return f"{found.trace_id:032x}" if found.trace_id else None

    # -- events

    def _call(self, event: events.CallFinished) -> None:
        mine = _current.get()
        if mine is None:
            return
        failed = event.outcome.startswith("degraded_")
        mine.put(
            call=event.call,
            outcome=event.outcome,
            duration_ms=event.duration_s * 1_000.0,
            attempts=mine.attempts,
            status_code=mine.status_code,
            breaker_state=mine.breaker_state,
            error_type=event.error_type,
            user_hash=event.origin.user_hash,
            session_hash=event.origin.session_hash,
            trace_id=event.origin.trace_id,
        )
        if failed:
            mine.failed()

    def _operation(self, event: events.OperationFinished) -> None:
        mine = _current.get()
        if mine is None:
            return
        mine.attempts += event.attempts
        mine.status_code = event.status_code
        if event.group is not None:
            mine.breaker_state = self._breakers.get(event.group, events.BreakerState.CLOSED)
        if event.status in (events.OperationStatus.ERROR, events.OperationStatus.UNKNOWN):
            mine.happened(
                operation_event(event.operation),
                operation=event.operation,
                reason=event.reason,
                error_type=event.error_type,
                status_code=event.status_code,
                retry_count=event.retry_count,
                request_id=event.request_id,
            )

    def _retry(self, event: events.RetryScheduled) -> None:
        _happened(
            "openviking.retry.scheduled",
            operation=event.operation,
            reason=event.reason,
            retry_count=event.attempt - 1,
            duration_ms=event.delay_s * 1_000.0,
            request_id=event.request_id,
        )

    def _breaker(self, event: events.BreakerChanged) -> None:
        self._breakers[event.group] = event.to_state
        _happened("openviking.breaker.changed", group=event.group, reason=event.to_state)

    def _refused(self, event: events.Refused) -> None:
        _happened(
            "openviking.refused",
            operation=event.operation,
            group=event.group,
            reason=event.reason,
        )

    def _degraded(self, event: events.Degraded) -> None:
        _happened("openviking.degraded", group=event.group, reason=event.reason)


def _tracer() -> Any:
    return _trace.get_tracer("resilient_ov", VERSION)


class _CallSpan:
    """The span of one call, and what is learnt about it before it ends.

    Entering and leaving never raise: a tracer that does costs the span, not the call.
    """

    __slots__ = (
        "_before",
        "_call",
        "_span",
        "_token",
        "_tracer",
        "attempts",
        "breaker_state",
        "status_code",
    )

    def __init__(self, tracer: Any, call: events.Call) -> None:
        self._tracer = tracer
        self._call = call
        self._span: Any = None
        self._token: Any = None
        self._before: Token[_CallSpan | None] | None = None
        self.attempts = 0
        self.status_code: int | None = None
        self.breaker_state: events.BreakerState | None = None

    def __enter__(self) -> None:
        with contextlib.suppress(Exception):
            span = self._tracer.start_span(
                _NAMES[self._call],
                kind=_trace.SpanKind.INTERNAL,
                record_exception=False,
                set_status_on_exception=False,
            )
            # Without a provider nothing is recorded, and nothing need be made current.
            if span.get_span_context().is_valid:
                self._token = _context.attach(_trace.set_span_in_context(span))
            self._span = span
            if span.is_recording():
                self._before = _current.set(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            _current.reset(self._before)
        with contextlib.suppress(Exception):
            if self._token is not None:
                _context.detach(self._token)
            if self._span is not None:
                self._span.end()

    def put(self, **fields: object) -> None:
        """Set attributes, those that may leave."""
        self._span.set_attributes(_attributes(fields))

    def happened(self, name: str, **fields: object) -> None:
        """Add an event."""
        self._span.add_event(name, _attributes(fields))

    def failed(self) -> None:
        """Mark the call as failed; without a text."""
        self._span.set_status(_trace.StatusCode.ERROR)


_current: ContextVar[_CallSpan | None] = ContextVar("resilient_ov_call_span", default=None)


def _happened(name: str, **fields: object) -> None:
    mine = _current.get()
    if mine is not None:
        mine.happened(name, **fields)


def _attributes(fields: Mapping[str, object]) -> dict[str, Any]:
    return {_ATTRIBUTES[name]: value for name, value in redaction.clean(fields).items()}
