import asyncio
import contextlib

import httpcore
import httpx
import pytest
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.instrumentation.utils import suppress_http_instrumentation
from opentelemetry.trace import SpanKind, StatusCode

from resilient_ov import events
from resilient_ov.operations import OPERATIONS
from resilient_ov_observability import http_spans
from resilient_ov_observability.http_spans import Templates, transport_wraps
from resilient_ov_observability.tracing import TraceSink

PATH = "/SECRET1/api/v1/sessions/df_SECRET2/messages/batch"
TEMPLATE = "/api/v1/sessions/{session}/messages/batch"


ROUTES = sorted({route for rule in OPERATIONS.values() for route in rule.routes})


def request(path=PATH, method="POST", request_id="0" * 32):
    return httpx.Request(
        method,
        f"https://memory.example:8443{path}?q=SECRET3",
        headers={"X-API-Key": "SECRET4", "X-Request-ID": request_id, "X-Trace-Id": "SECRET5"},
        content=b"SECRET6",
        extensions={"ours": object()},
    )


class Server(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The transport below: keeps what it is given, answers or raises."""

    def __init__(self, answer=None, error=None):
        self.answer = answer or httpx.Response(200, headers={"x-secret": "SECRET7"}, json={"a": 1})
        self.error = error
        self.seen = []
        self.closed = 0

    def handle_request(self, request):
        self.seen.append(request)
        if self.error is not None:
            raise self.error
        return self.answer

    async def handle_async_request(self, request):
        return self.handle_request(request)

    def close(self):
        self.closed += 1

    async def aclose(self):
        self.closed += 1


def send(server, sent, *, colour, spans):
    sync_wrap, async_wrap = transport_wraps(spans=spans, routes=ROUTES)
    if colour == "sync":
        return sync_wrap(server).handle_request(sent)
    return asyncio.run(async_wrap(server).handle_async_request(sent))


both = pytest.mark.parametrize("colour", ["sync", "async"])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("prefix", ["", "/behind/a/proxy"])
def test_every_route_is_reduced_to_its_template(route, prefix):
    method, template = route.split(" ", 1)
    filled = prefix + template.replace("{session}", "df_x").replace("{task}", "t1")
    assert Templates(ROUTES).of(method, filled) == template


def test_an_unknown_path_tells_nothing():
    assert Templates(ROUTES).of("GET", "/somewhere/else") == "/"
    assert Templates(ROUTES).of("DELETE", "/health") == "/"


@both
def test_an_attempt_is_one_client_span_with_the_conventions_names(spans, colour):
    send(Server(), request(request_id="0" * 32 + "-a3"), colour=colour, spans=True)
    span = spans.only
    assert (span.name, span.kind) == (f"POST {TEMPLATE}", SpanKind.CLIENT)
    expected = {
        "http.request.method": "POST",
        "url.template": TEMPLATE,
        "server.address": "memory.example",
        "server.port": 8443,
        "http.request.resend_count": 2,
        "http.response.status_code": 200,
    }
    assert expected.items() <= dict(span.attributes).items()
    assert "error.type" not in span.attributes


@both
def test_the_first_attempt_has_no_resend_count(spans, colour):
    send(Server(), request(), colour=colour, spans=True)
    assert "http.request.resend_count" not in spans.only.attributes


def test_the_port_of_the_scheme_is_told(spans):
    for scheme in ("http", "https"):
        sent = httpx.Request("GET", f"{scheme}://memory.example/health")
        send(Server(), sent, colour="sync", spans=True)
    assert [span.attributes["server.port"] for span in spans.all] == [80, 443]


@both
def test_the_transport_below_gets_the_real_request_and_its_answer_comes_back(spans, colour):
    server, sent = Server(), request()
    answer = send(server, sent, colour=colour, spans=True)
    assert server.seen == [sent]
    assert str(sent.url).endswith(PATH + "?q=SECRET3")
    assert sent.headers["x-api-key"] == "SECRET4"
    assert answer is server.answer


@both
def test_the_trace_goes_on_to_the_server_and_nothing_else_does(spans, colour):
    server = Server()
    send(server, request(), colour=colour, spans=True)
    span = spans.only
    assert f"{span.context.trace_id:032x}" in server.seen[0].headers["traceparent"]
    assert "baggage" not in server.seen[0].headers


@both
@pytest.mark.parametrize("error", [None, httpx.ReadTimeout("SECRET8"), ValueError("SECRET8")])
def test_no_secret_reaches_a_span_even_if_the_host_captures_all_headers(
    spans, monkeypatch, colour, error
):
    for side in ("REQUEST", "RESPONSE"):
        monkeypatch.setenv(f"OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_{side}", ".*")
    with contextlib.suppress(httpx.ReadTimeout, ValueError):
        send(Server(error=error), request(), colour=colour, spans=True)
    assert len(spans.all) == 1
    assert "SECRET" not in spans.text


def test_given_the_real_request_the_instrumentation_would_tell(spans, monkeypatch):
    """The test above can fail: without the stand-in the secrets are on the span."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_REQUEST", ".*")
    naked = http_spans._instrumentation.SyncOpenTelemetryTransport(
        Server(), tracer_provider=spans.provider
    )
    naked.handle_request(request())
    assert all(f"SECRET{number}" in spans.text for number in (1, 2, 3, 4, 5))


@both
@pytest.mark.parametrize(("status", "error_type"), [(404, "404"), (503, "503")])
def test_a_status_of_failure_is_an_error(spans, colour, status, error_type):
    send(Server(answer=httpx.Response(status)), request(), colour=colour, spans=True)
    span = spans.only
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.attributes["error.type"] == error_type


class TlsFailure(httpx.ConnectError):
    pass


@both
@pytest.mark.parametrize(
    ("error", "word"),
    [
        (TlsFailure("x"), "tls"),
        (httpx.ConnectError("x"), "connect"),
        (httpx.ConnectTimeout("x"), "connect"),
        (httpx.ReadTimeout("x"), "timeout"),
        (httpx.PoolTimeout("x"), "saturated"),
        (httpx.ReadError("x"), "reset"),
        (httpx.RemoteProtocolError("x"), "protocol"),
        (asyncio.CancelledError(), "cancelled"),
        (RuntimeError("x"), "_OTHER"),
    ],
)
def test_what_went_wrong_is_one_word_and_no_exception_is_recorded(spans, colour, error, word):
    with pytest.raises(type(error)):
        send(Server(error=error), request(), colour=colour, spans=True)
    span = spans.only
    assert span.attributes["error.type"] == word
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert span.events == ()


@both
def test_a_client_span_is_a_child_of_the_calls_span(spans, colour):
    sink = TraceSink(http_spans=True)
    with sink.scope_call(events.Call.ADD):
        send(Server(), request(), colour=colour, spans=True)
    (outer,) = spans.named("openviking.add")
    (inner,) = spans.named(f"POST {TEMPLATE}")
    assert inner.parent.span_id == outer.context.span_id


@both
@pytest.mark.parametrize("error", [None, httpx.ReadTimeout("x")])
def test_a_host_that_suppresses_spans_gets_none_and_its_own_span_is_left_alone(
    spans, colour, error
):
    host = spans.provider.get_tracer("host")
    with (
        host.start_as_current_span("host"),
        suppress_http_instrumentation(),
        contextlib.suppress(httpx.ReadTimeout),
    ):
        send(Server(error=error), request(), colour=colour, spans=True)
    assert dict(spans.only.attributes) == {}
    assert spans.only.status.status_code is StatusCode.UNSET


@pytest.fixture
def instrumenting_host(spans):
    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    yield
    instrumentor.uninstrument()


class Pool:
    """In the place of the connection pool of httpx's own transport."""

    def handle_request(self, request):
        return httpcore.Response(200)

    async def handle_async_request(self, request):
        return httpcore.Response(200)


def instrumented_transport(colour):
    made = httpx.HTTPTransport() if colour == "sync" else httpx.AsyncHTTPTransport()
    made._pool = Pool()
    return made


@both
@pytest.mark.parametrize(("with_spans", "expected"), [(False, 0), (True, 1)])
def test_a_host_that_instruments_every_client_gets_no_second_span(
    spans, instrumenting_host, colour, with_spans, expected
):
    send(instrumented_transport(colour), request(), colour=colour, spans=with_spans)
    assert len(spans.all) == expected
    assert "SECRET" not in spans.text


def test_that_host_does_see_what_does_not_go_through_us(spans, instrumenting_host):
    instrumented_transport("sync").handle_request(request())
    assert "SECRET" in spans.text


@both
@pytest.mark.parametrize("with_spans", [False, True])
def test_closing_closes_the_transport_below(spans, colour, with_spans):
    server = Server()
    sync_wrap, async_wrap = transport_wraps(spans=with_spans, routes=ROUTES)
    if colour == "sync":
        sync_wrap(server).close()
    else:
        asyncio.run(async_wrap(server).aclose())
    assert server.closed == 1


@both
def test_without_the_instrumentation_only_the_suppression_is_left(monkeypatch, colour):
    monkeypatch.setattr(http_spans, "_instrumentation", None)
    server = Server()
    assert send(server, request(), colour=colour, spans=True) is server.answer


@both
def test_without_opentelemetry_requests_pass_as_they_are(monkeypatch, colour):
    monkeypatch.setattr(http_spans, "_suppression", None)
    server = Server()
    assert send(server, request(), colour=colour, spans=False) is server.answer


def test_the_instrumentation_may_name_its_schema_by_place(spans):
    tracer = http_spans._quiet_provider().get_tracer("who", "1", "https://schema.example/1.0")
    with tracer.start_as_current_span("GET /"):
        pass
    assert [span.name for span in spans.named("GET /")] == ["GET /"]
