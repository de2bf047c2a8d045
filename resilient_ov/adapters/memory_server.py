"""Secondary adapter (anti-corruption layer): the memory server over HTTP with httpx.

Rule: one attempt per call, never a retry; what goes wrong comes back as a ``Failure`` whose
evidence is taken from the sockets. No HTTP word leaves this file upwards.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Final

import httpx

from resilient_ov.adapters import replies
from resilient_ov.adapters.credentials import CredentialError
from resilient_ov.adapters.offload import Offload, arrival
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.transport import (
    DEADLINE,
    WIRE,
    AsyncDeadlineTransport,
    DeadlineTransport,
)
from resilient_ov.adapters.wire import to_http
from resilient_ov.adapters.wire_attempt import WireAttempt
from resilient_ov.domain.exchange import Answer, Command, Evidence, Failure, FailureKind, Identity
from resilient_ov.domain.ports import Attempt
from resilient_ov.settings import AuthMode, AuthSettings, Settings

LARGE_BODY_BYTES: Final = 256 * 1024
"""Bodies above this are decoded on a worker thread when the caller is an event loop."""

_MAX_TRACE_ID_CHARS: Final = 512

Key = Callable[[], str | None]


class HttpxMemoryServer:
    """The memory server for threads; implements ``MemoryServer``.

    Args:
        settings: address, identity mode, timeouts, limits, trust.
        key: gives the current key without I/O, None = none is sent.
        on_healed: called when a poisoned connection pool was replaced.
        resolver: shared by several servers if given.
        wrap: puts a transport around ours, for HTTP spans.
        now: monotonic seconds.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        key: Key,
        on_healed: Callable[[], None] = lambda: None,
        resolver: Resolver | None = None,
        wrap: Callable[[httpx.BaseTransport], httpx.BaseTransport] = lambda inner: inner,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = _Requests(settings, key, now)
        self._transport = wrap(
            DeadlineTransport(
                limits=settings.limits,
                tls=TlsContexts(settings.tls, now=now),
                on_healed=on_healed,
                resolver=resolver or Resolver(now=now),
                now=now,
            )
        )

    def send(self, attempt: Attempt) -> Answer:
        """Perform one attempt; see the port."""
        request = self._requests.request(attempt)
        if isinstance(request, Failure):
            return request
        cap = replies.max_body_bytes(attempt.command)
        try:
            response = self._transport.handle_request(request)
            with contextlib.closing(response):
                body = bytearray()
                if _declared_bytes(response) > cap:
                    return replies.too_large(_wire(request))
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > cap:
                        return replies.too_large(_wire(request))
        except httpx.TransportError as error:
            return replies.failed(error, request.extensions.get(WIRE))
        return _answered(attempt.command, response, bytes(body), _wire(request))

    def close(self) -> None:
        """Cut all connections; attempts in flight fail, a later one opens new connections."""
        self._transport.close()


class AsyncHttpxMemoryServer:
    """The memory server for event loops; implements ``AsyncMemoryServer``.

    The arguments are those of ``HttpxMemoryServer``.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        key: Key,
        on_healed: Callable[[], None] = lambda: None,
        resolver: Resolver | None = None,
        wrap: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport] = lambda inner: inner,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = _Requests(settings, key, now)
        self._now = now
        self._decoders = Offload("resilient-ov-decode", 4)
        self._inner = AsyncDeadlineTransport(
            limits=settings.limits,
            tls=TlsContexts(settings.tls, now=now),
            on_healed=on_healed,
            resolver=resolver or Resolver(now=now),
            now=now,
        )
        self._transport = wrap(self._inner)

    async def send(self, attempt: Attempt) -> Answer:
        """Perform one attempt; see the port."""
        request = self._requests.request(attempt)
        if isinstance(request, Failure):
            return request
        cap = replies.max_body_bytes(attempt.command)
        try:
            response = await self._transport.handle_async_request(request)
            async with contextlib.aclosing(response):
                body = bytearray()
                if _declared_bytes(response) > cap:
                    return replies.too_large(_wire(request))
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > cap:
                        return replies.too_large(_wire(request))
        except httpx.TransportError as error:
            return replies.failed(error, request.extensions.get(WIRE))
        return await self._decoded(attempt, response, bytes(body), _wire(request))

    async def _decoded(
        self, attempt: Attempt, response: httpx.Response, body: bytes, wire: WireAttempt
    ) -> Answer:
        if len(body) > LARGE_BODY_BYTES:
            ticket = self._decoders.start(lambda: _answered(attempt.command, response, body, wire))
            if ticket is not None:
                try:
                    return await arrival(ticket, max(0.0, attempt.deadline_s - self._now()))
                except TimeoutError:
                    return replies.out_of_time(response.status_code, wire)
        return _answered(attempt.command, response, body, wire)

    async def aclose(self) -> None:
        """Cut the running loop's connections; attempts in flight on it fail."""
        await self._transport.aclose()

    def close(self) -> None:
        """Cut the connections of all loops, from any thread and without waiting."""
        self._inner.abandon()


class _Requests:
    """Makes the HTTP request of an attempt: address, identity, ids, phase timeouts."""

    def __init__(self, settings: Settings, key: Key, now: Callable[[], float]) -> None:
        self._base = httpx.URL(settings.base_url)
        self._prefix = self._base.raw_path.rstrip(b"/")
        self._auth = settings.auth
        self._timeouts = settings.timeouts
        self._key = key
        self._now = now

    def request(self, attempt: Attempt) -> httpx.Request | Failure:
        try:
            key = self._key()
        except CredentialError:
            return Failure(kind=FailureKind.AUTH, evidence=Evidence.NOT_SENT)
        call = to_http(attempt.command)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        headers |= _identity_headers(self._auth, attempt.command.identity, key)
        headers["X-Request-ID"] = attempt.request_id
        if attempt.trace_id is not None and _fits_header(attempt.trace_id):
            headers["X-Trace-Id"] = attempt.trace_id
        left_s = max(0.0, attempt.deadline_s - self._now())
        phases = self._timeouts
        return httpx.Request(
            call.method,
            self._base.copy_with(raw_path=self._prefix + call.target.encode("ascii")),
            headers=headers,
            content=call.content(),
            extensions={
                DEADLINE: attempt.deadline_s,
                "timeout": {
                    "connect": min(phases.connect_s, left_s),
                    "read": min(phases.read_s, left_s),
                    "write": min(phases.write_s, left_s),
                    "pool": min(phases.pool_s, left_s),
                },
            },
        )


def _identity_headers(auth: AuthSettings, identity: Identity, key: str | None) -> dict[str, str]:
    """Who is asking, by auth mode; an anonymous health check says nothing at all.

    A key of one user fixes the identity; identity headers beside it are refused by some servers.
    """
    if identity.user is None:
        return {}
    headers = {} if key is None else {"X-API-Key": key}
    if auth.mode is not AuthMode.API_KEY:
        headers["X-OpenViking-Account"] = auth.scope_account
        headers["X-OpenViking-User"] = identity.user
    if identity.agent is not None:
        headers["X-OpenViking-Agent"] = identity.agent
    return headers


def _fits_header(text: str) -> bool:
    return 0 < len(text) <= _MAX_TRACE_ID_CHARS and text.isascii() and text.isprintable()


def _declared_bytes(response: httpx.Response) -> int:
    declared = response.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else 0


def _wire(request: httpx.Request) -> WireAttempt:
    wire = request.extensions[WIRE]
    if not isinstance(wire, WireAttempt):
        raise TypeError("the transport left no record")
    return wire


def _answered(command: Command, response: httpx.Response, body: bytes, wire: WireAttempt) -> Answer:
    return replies.answered(command, response.status_code, response.headers, body, wire)
