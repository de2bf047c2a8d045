"""One CLIENT span per attempt, by OpenTelemetry's own instrumentation of httpx, on our client only.

Rule: the instrumentation never sees a real request or answer. It is given a stand-in that has the
method, the host, the path template and the status, so no path, query, header, key or error text
can reach a span, whatever the host has told the instrumentation to capture. Below it the
instrumentation is suppressed: a host that instruments every client gets no second span.
"""

import asyncio
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import httpx

from resilient_ov.domain.exchange import FailureKind
from resilient_ov_observability.optional import optional
from resilient_ov_observability.redaction import OTHER_ERROR

_REAL: Final = "resilient_ov.real"
_SPAN: Final = "resilient_ov.span"
_TEMPLATE: Final = "resilient_ov.template"
_PROPAGATED: Final = ("traceparent", "tracestate")
_RESEND: Final = re.compile(r"-a(\d+)$")

_instrumentation: Final[Any] = optional("opentelemetry.instrumentation.httpx")
_suppression: Final[Any] = optional("opentelemetry.instrumentation.utils")
_trace: Final[Any] = optional("opentelemetry.trace")


class Templates:
    """The path templates of known routes.

    Args:
        routes: ``METHOD /path/{gap}`` each.
    """

    def __init__(self, routes: Iterable[str]) -> None:
        self._known: list[tuple[str, re.Pattern[str], str]] = []
        # Fixed paths go before those with gaps, which would match them too.
        for route in sorted(set(routes), key=lambda route: (route.count("{"), route)):
            method, template = route.split(" ", 1)
            gaps = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
            self._known.append((method, re.compile(gaps + "$"), template))

    def of(self, method: str, path: str) -> str:
        """Return the template of a request's path, whatever stands before it; ``/`` if unknown."""
        for wanted, pattern, template in self._known:
            if wanted == method and pattern.search(path):
                return template
        return "/"


_WORDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (asyncio.CancelledError, "cancelled"),
    (httpx.PoolTimeout, FailureKind.SATURATED.value),
    (httpx.ConnectTimeout, FailureKind.CONNECT.value),
    (httpx.ConnectError, FailureKind.CONNECT.value),
    (httpx.TimeoutException, FailureKind.TIMEOUT.value),
    (httpx.NetworkError, FailureKind.RESET.value),
    (httpx.RemoteProtocolError, FailureKind.PROTOCOL.value),
)


def error_type(error: BaseException) -> str:
    """Return a closed word for what went wrong: that of the attempt's metric where it is known."""
    if isinstance(error, httpx.TransportError) and type(error).__name__.startswith("Tls"):
        return FailureKind.TLS.value
    return next((word for kind, word in _WORDS if isinstance(error, kind)), OTHER_ERROR)


def _stand_in(request: httpx.Request, templates: Templates) -> httpx.Request:
    template = templates.of(request.method, request.url.path)
    url = httpx.URL(
        scheme=request.url.scheme,
        host=request.url.host,
        port=request.url.port,
        path=re.sub(r"\{(\w+)\}", r":\1", template),
    )
    extensions = {_REAL: request, _TEMPLATE: template}
    return httpx.Request(request.method, url, extensions=extensions)


def _on_request(span: Any, info: Any) -> None:
    """Name the span by the conventions' stable names, beside whatever the instrumentation sets."""
    info.extensions[_SPAN] = span
    if not span.is_recording():
        return
    real: httpx.Request = info.extensions[_REAL]
    template: str = info.extensions[_TEMPLATE]
    span.update_name(f"{real.method} {template}")
    span.set_attribute("http.request.method", real.method)
    span.set_attribute("url.template", template)
    span.set_attribute("server.address", real.url.host)
    span.set_attribute("server.port", real.url.port or (443 if real.url.scheme == "https" else 80))
    if resent := _RESEND.search(real.headers.get("x-request-id", "")):
        span.set_attribute("http.request.resend_count", int(resent[1]) - 1)


async def _on_async_request(span: Any, info: Any) -> None:
    _on_request(span, info)


def _on_response(span: Any, status: int) -> None:
    if span is None or not span.is_recording():
        return
    span.set_attribute("http.response.status_code", status)
    if status >= 400:
        span.set_attribute("error.type", str(status))
        span.set_status(_trace.StatusCode.ERROR)


def _on_error(span: Any, error: BaseException) -> None:
    if span is not None and span.is_recording():
        span.set_attribute("error.type", error_type(error))
        span.set_status(_trace.StatusCode.ERROR)


def suppressed() -> AbstractContextManager[None]:
    """Return surroundings in which no instrumentation of HTTP clients makes a span."""
    if _suppression is None:
        return nullcontext()
    quiet: AbstractContextManager[None] = _suppression.suppress_http_instrumentation()
    return quiet


@contextmanager
def _real_attempt(stand_in: httpx.Request) -> Generator[httpx.Request]:
    """Give the real request to the transport below, and tell the span how it failed."""
    real: httpx.Request = stand_in.extensions[_REAL]
    for name in _PROPAGATED:
        if name in stand_in.headers:
            real.headers[name] = stand_in.headers[name]
    try:
        with suppressed():
            yield real
    except BaseException as error:
        _on_error(stand_in.extensions.get(_SPAN), error)
        raise


def _stand_in_answer(stand_in: httpx.Request, real: httpx.Response) -> httpx.Response:
    _on_response(stand_in.extensions.get(_SPAN), real.status_code)
    return httpx.Response(real.status_code, extensions={_REAL: real})


def _real_answer(answer: httpx.Response) -> httpx.Response:
    real: httpx.Response = answer.extensions[_REAL]
    return real


class _Below(httpx.BaseTransport):
    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _real_attempt(request) as real:
            answer = self._inner.handle_request(real)
        return _stand_in_answer(request, answer)


class _AsyncBelow(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with _real_attempt(request) as real:
            answer = await self._inner.handle_async_request(real)
        return _stand_in_answer(request, answer)


class SpanTransport(httpx.BaseTransport):
    """Makes a span of each request that goes through it."""

    def __init__(self, inner: httpx.BaseTransport, templates: Templates) -> None:
        self._inner = inner
        self._templates = templates
        self._traced = _instrumentation.SyncOpenTelemetryTransport(
            _Below(inner), tracer_provider=_quiet_provider(), request_hook=_on_request
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, with a span around it."""
        return _real_answer(self._traced.handle_request(_stand_in(request, self._templates)))

    def close(self) -> None:
        """Close the transport below."""
        self._inner.close()


class AsyncSpanTransport(httpx.AsyncBaseTransport):
    """The same for event loops."""

    def __init__(self, inner: httpx.AsyncBaseTransport, templates: Templates) -> None:
        self._inner = inner
        self._templates = templates
        self._traced = _instrumentation.AsyncOpenTelemetryTransport(
            _AsyncBelow(inner), tracer_provider=_quiet_provider(), request_hook=_on_async_request
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, with a span around it."""
        stand_in = _stand_in(request, self._templates)
        return _real_answer(await self._traced.handle_async_request(stand_in))

    async def aclose(self) -> None:
        """Close the transport below."""
        await self._inner.aclose()


class SuppressedTransport(httpx.BaseTransport):
    """Keeps a host's instrumentation of all HTTP clients out of ours."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, with no span around it."""
        with suppressed():
            return self._inner.handle_request(request)

    def close(self) -> None:
        """Close the transport below."""
        self._inner.close()


class AsyncSuppressedTransport(httpx.AsyncBaseTransport):
    """The same for event loops."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, with no span around it."""
        with suppressed():
            return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transport below."""
        await self._inner.aclose()


def transport_wraps(
    *, spans: bool, routes: Iterable[str] = ()
) -> tuple[
    Callable[[httpx.BaseTransport], httpx.BaseTransport],
    Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport],
]:
    """Return what to put around our transports, sync and async.

    Without ``spans``, or when the instrumentation is missing or broken, only the suppression.
    ``routes`` are the known ``METHOD /path/{gap}``; any other path is told as ``/``.
    """
    if not spans or _instrumentation is None or _trace is None:
        return SuppressedTransport, AsyncSuppressedTransport
    templates = Templates(routes)
    return partial(SpanTransport, templates=templates), partial(
        AsyncSpanTransport, templates=templates
    )


def _quiet_provider() -> Any:
    """Return the process's tracer provider with the recording of exceptions taken out."""
    from opentelemetry import trace

    class QuietTracer(trace.Tracer):
        def __init__(self, inner: trace.Tracer) -> None:
            self._inner = inner

        def start_span(self, *arguments: Any, **keywords: Any) -> trace.Span:
            return self._inner.start_span(*arguments, **_without_exceptions(keywords))

        def start_as_current_span(self, *arguments: Any, **keywords: Any) -> Any:
            return self._inner.start_as_current_span(*arguments, **_without_exceptions(keywords))

    class QuietProvider(trace.TracerProvider):
        def get_tracer(
            self,
            instrumenting_module_name: str,
            instrumenting_library_version: str | None = None,
            schema_url: str | None = None,
            attributes: Any = None,
        ) -> trace.Tracer:
            # The function of this name takes a provider in the place of the schema.
            return QuietTracer(
                trace.get_tracer(
                    instrumenting_module_name,
                    instrumenting_library_version,
                    schema_url=schema_url,
                    attributes=attributes,
                )
            )

    return QuietProvider()


def _without_exceptions(keywords: dict[str, Any]) -> dict[str, Any]:
    return {**keywords, "record_exception": False, "set_status_on_exception": False}
