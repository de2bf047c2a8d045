"""HTTP transports with a hard total deadline, for threads and for event loops.

Rule: the request says until when (``extensions["resilient_ov.deadline_s"]``, absolute monotonic
seconds; absent = phases only). When the time is up or the caller is cancelled the connection is
closed, never returned to its pool. What happened on the wire is left in
``extensions["resilient_ov.wire"]`` of the request. Bodies are bounded by the same deadline.
"""

import asyncio
import contextlib
import importlib
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Final

import httpcore
import httpx

from resilient_ov.adapters.network import AsyncNetwork, SyncNetwork
from resilient_ov.adapters.pools import AsyncPools, SyncPools
from resilient_ov.adapters.quiet import mute_own_requests
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.sockets import SocketRegistry
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.transport_errors import named
from resilient_ov.adapters.wire_attempt import WireAttempt, entered
from resilient_ov.settings import LimitSettings

# The pool would import these at its first request, on the event loop, for more than 100 ms.
for _name in ("anyio._backends._asyncio", "sniffio"):
    importlib.import_module(_name)

DEADLINE: Final = "resilient_ov.deadline_s"
WIRE: Final = "resilient_ov.wire"

KEEPALIVE_S: Final = 4.0
"""The server closes idle connections after 5.0 s; a request must never meet that moment."""

BACKSTOP_S: Final = 0.005
"""How long after the deadline an event loop may still be waiting inside the pool."""


def _begin(request: httpx.Request, now: Callable[[], float]) -> WireAttempt:
    attempt = WireAttempt(float(request.extensions.get(DEADLINE, float("inf"))), now)
    request.extensions[WIRE] = attempt
    if attempt.expired:
        raise httpx.ConnectTimeout("the deadline has passed", request=request)
    return attempt


def _pool_request(request: httpx.Request) -> httpcore.Request:
    timeouts = dict(request.extensions.get("timeout", {}))
    # Slots are taken before, so there is never a reason to wait inside the pool.
    timeouts["pool"] = 0.0
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=request.stream,
        extensions={"timeout": timeouts},
    )


def _pool_wait_s(request: httpx.Request, attempt: WireAttempt, now: Callable[[], float]) -> float:
    return attempt.until_s(request.extensions.get("timeout", {}).get("pool")) - now()


def _placeholder_context() -> ssl.SSLContext:
    """Stop the pool from loading a CA bundle of its own; trusts nobody and is never used."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class DeadlineTransport(httpx.BaseTransport):
    """For threads. Thread-safe; usable again in a forked child and after ``close``.

    Args:
        limits: connections and idle connections of the pool.
        tls: contexts for https.
        on_healed: called when a poisoned pool was replaced.
        resolver: host names to addresses.
        now: monotonic seconds.

    """

    def __init__(
        self,
        *,
        limits: LimitSettings,
        tls: TlsContexts,
        on_healed: Callable[[], None],
        resolver: Resolver,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now

        def make(registry: SocketRegistry) -> httpcore.ConnectionPool:
            mute_own_requests()
            return httpcore.ConnectionPool(
                ssl_context=_placeholder_context(),
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive,
                keepalive_expiry=KEEPALIVE_S,
                network_backend=SyncNetwork(resolver, tls, registry, now),
            )

        self._pools = SyncPools(make, slots=limits.max_connections, on_healed=on_healed)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send once and return when the head of the answer is there.

        Raises:
            httpx.TransportError: by what went wrong; never with a text from outside.

        """
        attempt = _begin(request, self._now)
        with contextlib.ExitStack() as held, entered(attempt), named(request), _cut(attempt):
            held.enter_context(self._pools.slot(_pool_wait_s(request, attempt, self._now)))
            attempt.note_place()
            answer = self._sent(_pool_request(request), held)
            body = _Body(answer, request, attempt, held.pop_all())
        return _response(answer, body)

    def _sent(self, request: httpcore.Request, held: contextlib.ExitStack) -> httpcore.Response:
        lease = held.enter_context(self._pools.use())
        try:
            return lease.pool.handle_request(request)
        except httpcore.PoolTimeout:
            self._pools.heal(lease)
        return held.enter_context(self._pools.use()).pool.handle_request(request)

    def close(self) -> None:
        """Cut all connections; attempts in flight fail."""
        self._pools.close()


class AsyncDeadlineTransport(httpx.AsyncBaseTransport):
    """For event loops, several at once; the arguments are those of ``DeadlineTransport``."""

    def __init__(
        self,
        *,
        limits: LimitSettings,
        tls: TlsContexts,
        on_healed: Callable[[], None],
        resolver: Resolver,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now

        def make(registry: SocketRegistry) -> httpcore.AsyncConnectionPool:
            mute_own_requests()
            return httpcore.AsyncConnectionPool(
                ssl_context=_placeholder_context(),
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive,
                keepalive_expiry=KEEPALIVE_S,
                network_backend=AsyncNetwork(resolver, tls, registry, now),
            )

        self._pools = AsyncPools(make, slots=limits.max_connections, on_healed=on_healed)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send once and return when the head of the answer is there.

        Raises:
            httpx.TransportError: by what went wrong; never with a text from outside.

        """
        attempt = _begin(request, self._now)
        async with contextlib.AsyncExitStack() as held:
            with entered(attempt), named(request), _cut(attempt):
                wait_s = _pool_wait_s(request, attempt, self._now)
                await held.enter_async_context(self._pools.slot(wait_s))
                attempt.note_place()
                async with _backstop(attempt, self._now, request):
                    answer = await self._sent(_pool_request(request), held)
            body = _AsyncBody(answer, request, attempt, held.pop_all(), self._now)
        return _response(answer, body)

    async def _sent(
        self, request: httpcore.Request, held: contextlib.AsyncExitStack
    ) -> httpcore.Response:
        lease = await held.enter_async_context(self._pools.use())
        try:
            return await lease.pool.handle_async_request(request)
        except httpcore.PoolTimeout:
            await self._pools.heal(lease)
        fresh = await held.enter_async_context(self._pools.use())
        return await fresh.pool.handle_async_request(request)

    async def aclose(self) -> None:
        """Cut the running loop's connections; attempts in flight on it fail."""
        await self._pools.aclose()

    def abandon(self) -> None:
        """Cut the connections of all loops, from any thread."""
        self._pools.abandon()


class _Body(httpx.SyncByteStream):
    """The body of an answer, read inside the attempt's deadline; closing it gives all back."""

    def __init__(
        self,
        answer: httpcore.Response,
        request: httpx.Request,
        attempt: WireAttempt,
        held: contextlib.ExitStack,
    ) -> None:
        self._answer = answer
        self._request = request
        self._attempt = attempt
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        chunks = self._answer.iter_stream()
        while True:
            with entered(self._attempt), named(self._request), _cut(self._attempt):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def close(self) -> None:
        with self._held, entered(self._attempt), _cut(self._attempt):
            self._answer.close()


class _AsyncBody(httpx.AsyncByteStream):
    """The same on an event loop."""

    def __init__(
        self,
        answer: httpcore.Response,
        request: httpx.Request,
        attempt: WireAttempt,
        held: contextlib.AsyncExitStack,
        now: Callable[[], float],
    ) -> None:
        self._answer = answer
        self._request = request
        self._attempt = attempt
        self._held = held
        self._now = now

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._answer.aiter_stream()
        while True:
            with entered(self._attempt), named(self._request), _cut(self._attempt):
                async with _backstop(self._attempt, self._now, self._request):
                    chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        async with self._held:
            with entered(self._attempt), _cut(self._attempt):
                await self._answer.aclose()


@contextlib.contextmanager
def _cut(attempt: WireAttempt) -> Generator[None]:
    """Close the socket whatever ends the step early, even a second cancellation in the pool."""
    try:
        yield
    except BaseException:
        attempt.close_socket()
        raise


@contextlib.asynccontextmanager
async def _backstop(
    attempt: WireAttempt, now: Callable[[], float], request: httpx.Request
) -> AsyncGenerator[None]:
    """End what waits for anything but a socket just after the deadline."""
    left_s = attempt.deadline_s - now()
    when_s = asyncio.get_running_loop().time() + left_s + BACKSTOP_S
    try:
        async with asyncio.timeout_at(when_s if left_s < float("inf") else None):
            yield
    except TimeoutError:
        raise httpx.ReadTimeout("the deadline has passed", request=request) from None


def _response(
    answer: httpcore.Response, body: httpx.SyncByteStream | httpx.AsyncByteStream
) -> httpx.Response:
    return httpx.Response(answer.status, headers=answer.headers, stream=body)
