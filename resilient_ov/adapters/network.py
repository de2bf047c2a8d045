"""Network backends for the connection pools: every socket operation ends inside the deadline.

Rule: an operation gets ``min(phase timeout, what the attempt has left)``, the deadline is checked
before every single write, and a connection that ran out of time is closed by the pool above.
Both colours drive the same steps.
"""

import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore

from resilient_ov.adapters.resolver import Address, LookupFailedError, Resolver
from resilient_ov.adapters.socket_steps import (
    connect_steps,
    handshake_steps,
    receive_steps,
    send_steps,
)
from resilient_ov.adapters.sockets import (
    Channel,
    Clock,
    SocketRegistry,
    TimeUp,
    TlsError,
    TlsTimeout,
    drive,
    drive_async,
)
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.wire_attempt import WireAttempt, current_attempt


class _Stream:
    """What both colours of stream share."""

    def __init__(self, channel: Channel, tls: TlsContexts, connect_until_s: float) -> None:
        self._channel = channel
        self._tls = tls
        self._connect_until_s = connect_until_s

    def get_extra_info(self, info: str) -> Any:
        """Tell ``is_readable``, ``socket`` or ``ssl_object``; None for all else."""
        return self._channel.info(info)


class _Network:
    """What both colours of backend share."""

    def __init__(
        self,
        resolver: Resolver,
        tls: TlsContexts,
        registry: SocketRegistry,
        now: Clock = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._tls = tls
        self._registry = registry
        self._now = now

    def _trials(
        self, found: tuple[Address, ...], until_s: float
    ) -> Iterator[tuple[Address, Channel, float]]:
        """Yield each address with a channel to try it on and the end of its fair share."""
        for left, address in zip(range(len(found), 0, -1), found, strict=True):
            share_s = (until_s - self._now()) / left
            channel = Channel.open(address, self._registry, self._now)
            yield address, channel, self._now() + share_s


class SyncStream(_Stream, httpcore.NetworkStream):
    """A connection used by one thread at a time."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Receive up to ``max_bytes``; empty = the peer closed."""
        channel = self._channel
        with _alerts_noted(self._tls), _named(httpcore.ReadTimeout, httpcore.ReadError):
            data = drive(
                channel, receive_steps(channel.sock, max_bytes), _until_s(timeout, channel.now)
            )
        _note_read(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of ``buffer``."""
        channel = self._channel
        until_s = _until_s(timeout, channel.now)
        gate = _may_write(channel, until_s)
        with _alerts_noted(self._tls), _named(httpcore.WriteTimeout, httpcore.WriteError):
            drive(channel, send_steps(channel.sock, buffer, gate), until_s)

    def close(self) -> None:
        """Close at once; nothing is written."""
        self._channel.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 - ours is re-read when files rotate
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - connecting as a whole has one end
    ) -> httpcore.NetworkStream:
        """Run the handshake within the time that connecting has left."""
        channel, until_s = self._channel, self._connect_until_s
        try:
            with _named(TlsTimeout, TlsError):
                wrapped = channel.wrap(self._tls.context(until_s), server_hostname)
                steps = handshake_steps(wrapped, channel.in_time(until_s))
                drive(channel, steps, until_s)
        except BaseException:  # cancelled too: a half-made connection belongs to nobody
            self._tls.handshake_failed()
            channel.close()
            raise
        return self


class SyncNetwork(_Network, httpcore.NetworkBackend):
    """Opens connections for a pool of threads."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - never set by our pools
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.NetworkStream:
        """Look up and connect; each address gets a fair share of the time that is left."""
        until_s = _until_s(timeout, self._now)
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            found = self._resolver.addresses(host, port, until_s)
            failed: BaseException = LookupFailedError("no address")
            for address, channel, share_until_s in self._trials(found, until_s):
                steps = connect_steps(channel.sock, address.sockaddr)
                try:
                    drive(channel, steps, share_until_s)
                except (OSError, TimeUp) as error:
                    channel.close()
                    failed = error
                except BaseException:  # cancelled too: nobody else closes it
                    channel.close()
                    raise
                else:
                    self._resolver.worked(host, port, address)
                    return SyncStream(channel, self._tls, until_s)
            self._resolver.failed(host, port)
            raise failed


class AsyncStream(_Stream, httpcore.AsyncNetworkStream):
    """A connection used by one task at a time, on any loop."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the pool's word
        """Receive up to ``max_bytes``; empty = the peer closed."""
        channel = self._channel
        with _alerts_noted(self._tls), _named(httpcore.ReadTimeout, httpcore.ReadError):
            data = await drive_async(
                channel, receive_steps(channel.sock, max_bytes), _until_s(timeout, channel.now)
            )
        _note_read(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the pool's word
        """Send all of ``buffer``."""
        channel = self._channel
        until_s = _until_s(timeout, channel.now)
        gate = _may_write(channel, until_s)
        with _alerts_noted(self._tls), _named(httpcore.WriteTimeout, httpcore.WriteError):
            await drive_async(channel, send_steps(channel.sock, buffer, gate), until_s)

    async def aclose(self) -> None:
        """Close at once, without a suspension point: a cancellation cannot leave it half done."""
        self._channel.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 - ours is re-read when files rotate
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - connecting as a whole has one end
    ) -> httpcore.AsyncNetworkStream:
        """Run the handshake within the time that connecting has left."""
        channel, until_s = self._channel, self._connect_until_s
        try:
            with _named(TlsTimeout, TlsError):
                wrapped = channel.wrap(await self._tls.context_async(until_s), server_hostname)
                steps = handshake_steps(wrapped, channel.in_time(until_s))
                await drive_async(channel, steps, until_s)
        except BaseException:  # cancelled too: a half-made connection belongs to nobody
            self._tls.handshake_failed()
            channel.close()
            raise
        return self


class AsyncNetwork(_Network, httpcore.AsyncNetworkBackend):
    """Opens connections for a pool of tasks."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's word
        local_address: str | None = None,  # noqa: ARG002 - never set by our pools
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Look up and connect; each address gets a fair share of the time that is left."""
        until_s = _until_s(timeout, self._now)
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            found = await self._resolver.addresses_async(host, port, until_s)
            failed: BaseException = LookupFailedError("no address")
            for address, channel, share_until_s in self._trials(found, until_s):
                steps = connect_steps(channel.sock, address.sockaddr)
                try:
                    await drive_async(channel, steps, share_until_s)
                except (OSError, TimeUp) as error:
                    channel.close()
                    failed = error
                except BaseException:  # cancelled too: nobody else closes it
                    channel.close()
                    raise
                else:
                    self._resolver.worked(host, port, address)
                    return AsyncStream(channel, self._tls, until_s)
            self._resolver.failed(host, port)
            raise failed


@contextmanager
def _named(
    timeout: type[httpcore.TimeoutException], failure: type[httpcore.NetworkError]
) -> Generator[None]:
    """Turn what a step raises into the pool's words; texts of the system are left behind."""
    try:
        yield
    except (TimeUp, TimeoutError) as error:
        # The kernel's own ETIMEDOUT is a failed connection, not our clock.
        if isinstance(error, OSError) and error.errno is not None:
            raise failure from None
        raise timeout from None
    except ssl.SSLError:
        raise TlsError from None
    except OSError:
        raise failure from None


@contextmanager
def _alerts_noted(tls: TlsContexts) -> Generator[None]:
    """Have the files read again: TLS 1.3 tells a refused certificate after the handshake."""
    try:
        yield
    except TlsError:
        tls.handshake_failed()
        raise


def _until_s(timeout_s: float | None, now: Clock) -> float:
    return (current_attempt() or WireAttempt(float("inf"), now)).until_s(timeout_s)


def _note_read(data: bytes) -> None:
    attempt = current_attempt()
    if attempt is not None:
        attempt.note_read(data)


def _may_write(channel: Channel, until_s: float) -> Callable[[], None]:
    """Make the check that runs before each write of a request."""
    attempt = current_attempt()
    if attempt is None:
        return channel.in_time(until_s)
    attempt.close_socket = channel.close
    in_time = channel.in_time(until_s)

    def check() -> None:
        in_time()
        attempt.note_write()

    return check
