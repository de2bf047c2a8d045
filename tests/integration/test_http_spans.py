"""Spans of attempts on a real wire, through the whole adapter, in both colours."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.trace import SpanKind

from resilient_ov import events
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.domain.exchange import Failure, FailureKind, Success
from resilient_ov.operations import OPERATIONS
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_observability.tracing import TraceSink
from tests.integration.faulty import FIND, KEY, add, attempt, settings
from tests.unit.observability.spans import Spans, spans

__all__ = ["spans"]

ROUTES = [route for rule in OPERATIONS.values() for route in rule.routes]
FIND_SPAN = "POST /api/v1/search/find"
ADD_SPAN = "POST /api/v1/sessions/{session}/messages/batch"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def send(sink, server, command, *, colour, budget_s=5.0):
    """One attempt inside the span of a call."""
    found = settings(server.url)
    if colour == "sync":
        one = HttpxMemoryServer(found, key=lambda: KEY, wrap=sink.wrap)
        with sink.scope_call(events.Call.SEARCH):
            answer = one.send(attempt(command, budget_s))
        one.close()
        return answer

    async def run():
        one = AsyncHttpxMemoryServer(found, key=lambda: KEY, wrap=sink.wrap_async)
        with sink.scope_call(events.Call.SEARCH):
            answer = await one.send(attempt(command, budget_s))
        await one.aclose()
        return answer

    return asyncio.run(run())


both = pytest.mark.parametrize("colour", ["sync", "async"])


@both
@pytest.mark.parametrize(("command", "name"), [(FIND, FIND_SPAN), (add(), ADD_SPAN)])
def test_an_attempt_is_a_child_of_its_call(spans: Spans, server, colour, command, name):
    answer = send(TraceSink(http_spans=True, routes=ROUTES), server, command, colour=colour)
    assert isinstance(answer, Success | Failure)
    (inner,), (outer,) = spans.named(name), spans.named("openviking.search")
    assert inner.kind is SpanKind.CLIENT
    assert inner.parent.span_id == outer.context.span_id
    assert inner.attributes["server.port"] == server.port
    sent = server.requests[-1].request.headers
    assert sent["traceparent"].split("-")[1:3] == [
        f"{inner.context.trace_id:032x}",
        f"{inner.context.span_id:016x}",
    ]
    assert sent["x-api-key"] == KEY


@both
def test_a_failing_server_shows_on_the_span_without_its_words(spans: Spans, server, colour):
    server.script(Rule(on="find", do="status", code=503, echo=True))
    answer = send(TraceSink(http_spans=True, routes=ROUTES), server, FIND, colour=colour)
    assert isinstance(answer, Failure)
    (inner,) = spans.named(FIND_SPAN)
    assert inner.attributes["error.type"] == "503"
    assert KEY not in spans.text
    assert FIND.query not in spans.text


@both
def test_a_hanging_server_is_a_timeout_on_span_and_answer(spans: Spans, server, colour):
    server.script(Rule(on="find", do="hang"))
    sink = TraceSink(http_spans=True, routes=ROUTES)
    answer = send(sink, server, FIND, colour=colour, budget_s=0.3)
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.TIMEOUT
    (inner,) = spans.named(FIND_SPAN)
    assert inner.attributes["error.type"] == FailureKind.TIMEOUT.value
    assert inner.events == ()


@both
@pytest.mark.parametrize("http_spans", [True, False])
def test_an_instrumenting_host_sees_neither_second_span_nor_url(
    spans: Spans, server, colour, http_spans
):
    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    try:
        sink = TraceSink(http_spans=http_spans, routes=ROUTES)
        send(sink, server, FIND, colour=colour)
    finally:
        instrumentor.uninstrument()
    clients = [span.name for span in spans.all if span.kind is SpanKind.CLIENT]
    assert clients == ([FIND_SPAN] if http_spans else [])


@both
def test_a_cancelled_or_ended_call_leaves_no_span_current(spans: Spans, server, colour):
    server.script(Rule(on="find", do="hang"))
    sink = TraceSink(http_spans=True, routes=ROUTES)
    if colour == "sync":
        send(sink, server, FIND, colour=colour, budget_s=0.2)
    else:

        async def cancelled():
            one = AsyncHttpxMemoryServer(
                settings(server.url), key=lambda: KEY, wrap=sink.wrap_async
            )

            async def call():
                with sink.scope_call(events.Call.SEARCH):
                    await one.send(attempt(FIND, 5.0))

            task = asyncio.ensure_future(call())
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await one.aclose()

        asyncio.run(cancelled())
        (inner,) = spans.named(FIND_SPAN)
        assert inner.attributes["error.type"] == "cancelled"
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert len(spans.named("openviking.search")) == 1
