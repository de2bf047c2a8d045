import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode

from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov_observability import tracing
from resilient_ov_observability.tracing import TraceSink
from tests.unit.observability.builders import (
    SESSION_HASH,
    USER_HASH,
    breaker,
    call,
    degraded,
    failed_operation,
    operation,
)

GET, ADD = events.Call.GET_CONTEXT, events.Call.ADD


@pytest.fixture
def sink(spans):
    return TraceSink()


def test_a_call_is_one_internal_span_with_what_was_learnt(sink, spans):
    with sink.scope_call(GET):
        sink.emit(operation(attempts=2))
        sink.emit(call(duration_s=0.25))
    span = spans.only
    assert (span.name, span.kind) == ("openviking.get_context", SpanKind.INTERNAL)
    assert dict(span.attributes) == {
        "openviking.call": "get_context",
        "openviking.outcome": "ok",
        "openviking.duration_ms": 250.0,
        "openviking.attempts": 2,
        "openviking.breaker_state": "closed",
        "openviking.user_hash": USER_HASH,
        "openviking.session_hash": SESSION_HASH,
        "openviking.trace_id": "trace-1",
        "http.response.status_code": 200,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()


@pytest.mark.parametrize("named", list(events.Call))
def test_span_names_are_a_fixed_set(sink, spans, named):
    with sink.scope_call(named):
        pass
    assert spans.only.name == f"openviking.{named}"


def test_a_degraded_call_is_an_error_without_a_text(sink, spans):
    with sink.scope_call(GET):
        sink.emit(failed_operation(status_code=503))
        sink.emit(degraded())
        sink.emit(
            call(
                outcome=events.CallOutcome.DEGRADED_UNAVAILABLE,
                error_type="OpenVikingUnavailableError",
            )
        )
    span = spans.only
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert span.attributes["error.type"] == "OpenVikingUnavailableError"
    assert span.attributes["http.response.status_code"] == 503
    assert [event.name for event in span.events] == ["openviking.search", "openviking.degraded"]


def test_retries_refusals_and_breakers_are_events_of_the_span(sink, spans):
    with sink.scope_call(GET):
        sink.emit(
            events.RetryScheduled(
                operation=Operation.SEARCH,
                reason=events.RetryReason.RESET,
                attempt=2,
                delay_s=0.05,
            )
        )
        sink.emit(breaker(events.BreakerState.OPEN))
        sink.emit(events.Refused(group=events.Group.RECALL, reason=events.RefusalReason.OPEN))
        sink.emit(operation(status=events.OperationStatus.REFUSED))
        sink.emit(call())
    span = spans.only
    assert [(event.name, dict(event.attributes)) for event in span.events] == [
        (
            "openviking.retry.scheduled",
            {
                "openviking.operation": "search",
                "openviking.reason": "reset",
                "openviking.retry_count": 1,
                "openviking.duration_ms": 50.0,
            },
        ),
        ("openviking.breaker.changed", {"openviking.group": "recall", "openviking.reason": "open"}),
        ("openviking.refused", {"openviking.group": "recall", "openviking.reason": "open"}),
    ]
    assert span.attributes["openviking.breaker_state"] == "open"


def test_a_health_check_says_nothing_of_a_breaker(sink, spans):
    with sink.scope_call(events.Call.WARM):
        sink.emit(operation(operation=Operation.HEALTH, group=None))
        sink.emit(call(call=events.Call.WARM))
    assert "openviking.breaker_state" not in spans.only.attributes


def test_an_exception_that_passes_through_is_not_recorded(sink, spans):
    with pytest.raises(ValueError, match="SECRET"), sink.scope_call(GET):
        raise ValueError("SECRET")
    assert "SECRET" not in spans.text
    assert spans.only.events == ()


def test_events_outside_a_call_touch_no_span_of_the_host(sink, spans):
    host = spans.provider.get_tracer("host")
    with host.start_as_current_span("host"):
        for event in (
            call(),
            failed_operation(),
            degraded(),
            breaker(events.BreakerState.OPEN),
            events.Refused(group=events.Group.RECALL, reason=events.RefusalReason.OPEN),
            events.PoolHealed(),
        ):
            sink.emit(event)
    assert dict(spans.only.attributes) == {}
    assert spans.only.events == ()


def test_a_call_is_a_child_of_the_hosts_span_and_leaves_it_current(sink, spans):
    host = spans.provider.get_tracer("host")
    with host.start_as_current_span("host") as outer:
        with sink.scope_call(GET):
            assert trace.get_current_span() is not outer
        assert trace.get_current_span() is outer
    (inner,) = spans.named("openviking.get_context")
    assert inner.parent.span_id == outer.get_span_context().span_id


def test_nested_calls_keep_their_events_apart(sink, spans):
    with sink.scope_call(ADD):
        with sink.scope_call(GET):
            sink.emit(call())
        sink.emit(call(call=ADD, outcome=events.CallOutcome.PENDING))
    (add,), (get,) = spans.named("openviking.add"), spans.named("openviking.get_context")
    assert add.attributes["openviking.outcome"] == "pending"
    assert get.attributes["openviking.outcome"] == "ok"
    assert get.parent.span_id == add.context.span_id


def test_tasks_do_not_mix_and_a_cancelled_one_ends_its_span(sink, spans):
    async def turn(number, gate):
        with sink.scope_call(GET):
            sink.emit(operation(attempts=number))
            await gate.wait()
            sink.emit(call())

    async def run():
        gate = asyncio.Event()
        tasks = [asyncio.create_task(turn(number, gate)) for number in range(1, 6)]
        doomed = asyncio.create_task(turn(99, asyncio.Event()))
        await asyncio.sleep(0)
        doomed.cancel()
        gate.set()
        await asyncio.gather(*tasks, doomed, return_exceptions=True)
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert tracing._current.get() is None

    asyncio.run(run())
    attempts = [span.attributes.get("openviking.attempts") for span in spans.all]
    assert sorted(number for number in attempts if number) == [1, 2, 3, 4, 5]
    assert attempts.count(None) == 1


def test_threads_do_not_mix_unless_they_carry_the_callers_context(sink, spans):
    def elsewhere(work):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def emit():
        sink.emit(degraded())

    with sink.scope_call(GET):
        elsewhere(emit)
        elsewhere(functools.partial(contextvars.copy_context().run, emit))
    assert [event.name for event in spans.only.events] == ["openviking.degraded"]


def test_the_current_trace_id_is_the_spans(sink, spans):
    assert sink.current_trace_id() is None
    with sink.scope_call(GET):
        inside = sink.current_trace_id()
    assert inside == f"{spans.only.context.trace_id:032x}"
    assert len(inside) == 32


def test_a_span_that_is_not_recorded_still_propagates(monkeypatch, spans):
    ignored = trace.NonRecordingSpan(
        trace.SpanContext(trace_id=7, span_id=8, is_remote=False, trace_flags=trace.TraceFlags(0))
    )
    tracer = SimpleNamespace(start_span=lambda *_, **__: ignored)
    monkeypatch.setattr(tracing, "_tracer", lambda: tracer)
    sink = TraceSink()
    with sink.scope_call(GET):
        assert trace.get_current_span() is ignored
        sink.emit(call())
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_without_a_provider_nothing_is_made_current(monkeypatch):
    monkeypatch.setattr(tracing, "_tracer", trace.NoOpTracer)
    sink = TraceSink()
    before = context.get_current()
    with sink.scope_call(GET):
        assert context.get_current() == before
        sink.emit(call())


def raising(*_arguments, **_keywords):
    raise RuntimeError("a broken tracer")


@pytest.mark.parametrize("broken", ["start_span", "end"])
def test_a_tracer_that_raises_costs_the_span_and_not_the_call(monkeypatch, broken):
    span = SimpleNamespace(
        end=raising, is_recording=lambda: False, get_span_context=lambda: trace.INVALID_SPAN_CONTEXT
    )
    start = raising if broken == "start_span" else lambda *_, **__: span
    monkeypatch.setattr(tracing, "_tracer", lambda: SimpleNamespace(start_span=start))
    sink = TraceSink()
    done = []
    with sink.scope_call(GET):
        sink.emit(call())
        done.append(True)
    assert done == [True]


@pytest.mark.parametrize("state", ["missing", "broken"])
def test_memory_works_without_opentelemetry(state, tmp_path):
    if state == "missing":
        breakage = "sys.modules['opentelemetry'] = None"
    else:
        (tmp_path / "opentelemetry.py").write_text("raise RuntimeError('half installed')")
        breakage = f"sys.path.insert(0, {str(tmp_path)!r})"
    code = f"""
import sys
{breakage}
import httpx
from resilient_ov import events
from resilient_ov_observability.tracing import TraceSink
sink = TraceSink(http_spans=True)
assert not sink.working and not sink.handlers() and sink.current_trace_id() is None
with sink.scope_call(events.Call.ADD):
    sink.emit(events.PoolHealed())
transport = sink.wrap(httpx.MockTransport(lambda request: httpx.Response(204)))
print(transport.handle_request(httpx.Request("GET", "http://x/health")).status_code)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("204\n", "")


def test_the_handlers_are_what_emit_uses(sink):
    assert set(sink.handlers()) <= set(events.Event.__args__)
