"""Network backends for the connection pools: every socket operation ends inside the deadline.

Rule: an operation gets ``min(phase timeout, what the attempt has left)``, the deadline is checked
before every single write, and a connection that ran out of time is closed by the pool above.
Both colours drive the same steps; sockets are non-blocking and belong to no event loop while idle.
"""

import asyncio
import errno
import select
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpcore

from resilient_ov.adapters.resolver import Address, LookupFailedError, Resolver
from resilient_ov.adapters.socket_steps import (
    Need,
    connect_steps,
    handshake_steps,
    receive_steps,
    send_steps,
)
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.wire_attempt import WireAttempt, current_attempt

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

T = TypeVar("T")
Clock = Callable[[], float]


class TlsError(httpcore.NetworkError):
    """The TLS layer refused: certificate, version, files or an alert of the peer."""


class TlsTimeout(httpcore.ConnectTimeout):
    """The TLS handshake did not end in time."""


class NoSocketError(Exception):
    """Our process may open no further socket; nothing was sent, the host is not to blame."""


class _TimeUp(Exception):  # noqa: N818 - a signal inside this module
    """A step ran out of its time."""


class SocketRegistry:
    """All open sockets of a pool, so that they can be dropped from outside. Any thread."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, sock: socket.socket) -> None:
        """Watch over a socket."""
        self._open.add(sock)

    def close(self, sock: socket.socket) -> None:
        """Close a socket and forget it; nothing is written, not even a TLS goodbye."""
        self._open.discard(sock)
        sock.close()

    def close_all(self) -> None:
        """Close every socket without telling the peer; for a forked child or a dead loop."""
        while self._open:
            self._open.pop().close()

    def cut_all(self) -> None:
        """End every connection so that whoever waits on one wakes up and closes it itself."""
        for sock in list(self._open):
            try:
                # The plain method: SSLSocket's own would drop the TLS state under its user.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                continue  # not connected yet, or closed meanwhile


class _Channel:
    """What both colours of stream share: the socket, its book-keeping and its time."""

    def __init__(self, sock: socket.socket, registry: SocketRegistry, now: Clock) -> None:
        self.sock = sock
        self.registry = registry
        self.now = now

    def gate(self, until_s: float) -> Callable[[], None]:
        """Make the check of the time that runs before each write."""

        def check() -> None:
            if self.now() >= until_s:
                raise _TimeUp

        return check

    def close(self) -> None:
        self.registry.close(self.sock)

    def info(self, info: str) -> Any:
        if info == "is_readable":
            return _is_readable(self.sock)
        if info == "socket":
            return self.sock
        if info == "ssl_object":
            return self.sock if isinstance(self.sock, ssl.SSLSocket) else None
        return None


class SyncStream(httpcore.NetworkStream):
    """A connection used by one thread at a time."""

    def __init__(self, channel: _Channel, tls: TlsContexts, connect_until_s: float) -> None:
        self._channel = channel
        self._tls = tls
        self._connect_until_s = connect_until_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Receive up to ``max_bytes``; empty = the peer closed."""
        channel = self._channel
        with _alerts_noted(self._tls), _named(httpcore.ReadTimeout, httpcore.ReadError):
            data = _drive(
                channel, receive_steps(channel.sock, max_bytes), _until_s(timeout, channel.now)
            )
        _note_read(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of ``buffer``."""
        channel = self._channel
        until_s = _until_s(timeout, channel.now)
        gate = _gate(channel, until_s)
        with _alerts_noted(self._tls), _named(httpcore.WriteTimeout, httpcore.WriteError):
            _drive(channel, send_steps(channel.sock, buffer, gate), until_s)

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
                context = self._tls.context(until_s)
                _wrap(channel, context, server_hostname)
                _drive(channel, _handshake(channel, until_s), until_s)
        except BaseException:
            self._tls.handshake_failed()
            channel.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        """Tell ``is_readable``, ``socket`` or ``ssl_object``; None for all else."""
        return self._channel.info(info)


class SyncNetwork(httpcore.NetworkBackend):
    """Opens connections for a pool of threads."""

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
            for left, address in _countdown(found):
                channel = _open(address, self._registry, self._now)
                share_s = (until_s - self._now()) / left
                try:
                    _drive(
                        channel,
                        connect_steps(channel.sock, address.sockaddr),
                        self._now() + share_s,
                    )
                except (OSError, _TimeUp) as error:
                    channel.close()
                    failed = error
                except BaseException:
                    channel.close()
                    raise
                else:
                    self._resolver.worked(host, port, address)
                    return SyncStream(channel, self._tls, until_s)
            self._resolver.failed(host, port)
            raise failed


class AsyncStream(httpcore.AsyncNetworkStream):
    """A connection used by one task at a time, on any loop."""

    def __init__(self, channel: _Channel, tls: TlsContexts, connect_until_s: float) -> None:
        self._channel = channel
        self._tls = tls
        self._connect_until_s = connect_until_s

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the pool's word
        """Receive up to ``max_bytes``; empty = the peer closed."""
        channel = self._channel
        with _alerts_noted(self._tls), _named(httpcore.ReadTimeout, httpcore.ReadError):
            data = await _drive_async(
                channel, receive_steps(channel.sock, max_bytes), _until_s(timeout, channel.now)
            )
        _note_read(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the pool's word
        """Send all of ``buffer``."""
        channel = self._channel
        until_s = _until_s(timeout, channel.now)
        gate = _gate(channel, until_s)
        with _alerts_noted(self._tls), _named(httpcore.WriteTimeout, httpcore.WriteError):
            await _drive_async(channel, send_steps(channel.sock, buffer, gate), until_s)

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
                context = await self._tls.context_async(until_s)
                _wrap(channel, context, server_hostname)
                await _drive_async(channel, _handshake(channel, until_s), until_s)
        except BaseException:
            self._tls.handshake_failed()
            channel.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        """Tell ``is_readable``, ``socket`` or ``ssl_object``; None for all else."""
        return self._channel.info(info)


class AsyncNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for a pool of tasks."""

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
            for left, address in _countdown(found):
                channel = _open(address, self._registry, self._now)
                share_s = (until_s - self._now()) / left
                try:
                    await _drive_async(
                        channel,
                        connect_steps(channel.sock, address.sockaddr),
                        self._now() + share_s,
                    )
                except (OSError, _TimeUp) as error:
                    channel.close()
                    failed = error
                except BaseException:
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
    except (_TimeUp, TimeoutError) as error:
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


def _gate(channel: _Channel, until_s: float) -> Callable[[], None]:
    """Make the check that runs before each write of a request."""
    attempt = current_attempt()
    if attempt is None:
        return channel.gate(until_s)
    attempt.close_socket = channel.close
    clock_gate = channel.gate(until_s)

    def check() -> None:
        clock_gate()
        attempt.note_write()

    return check


def _countdown(found: tuple[Address, ...]) -> Iterator[tuple[int, Address]]:
    return zip(range(len(found), 0, -1), found, strict=True)


def _open(address: Address, registry: SocketRegistry, now: Clock) -> _Channel:
    try:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise NoSocketError from None
        raise
    registry.add(sock)
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Channel(sock, registry, now)


def _wrap(channel: _Channel, context: ssl.SSLContext, server_hostname: str | None) -> None:
    plain = channel.sock
    wrapped = context.wrap_socket(
        plain, server_hostname=server_hostname, do_handshake_on_connect=False
    )
    channel.registry.add(wrapped)
    channel.registry.close(plain)  # already detached: this only forgets it
    channel.sock = wrapped


def _handshake(channel: _Channel, until_s: float) -> Generator[Need, None, None]:
    sock = channel.sock
    if not isinstance(sock, ssl.SSLSocket):
        raise TypeError("a handshake needs a wrapped socket")
    return handshake_steps(sock, channel.gate(until_s))


def _is_readable(sock: socket.socket) -> bool:
    """Whether an idle connection has something to read, which can only be its end."""
    if sock.fileno() < 0:
        return True
    poller = select.poll()
    poller.register(sock.fileno(), select.POLLIN)
    return bool(poller.poll(0))


def _drive(channel: _Channel, steps: Generator[Need, None, T], until_s: float) -> T:
    """Run steps on this thread, waiting for the socket in between."""
    try:
        while True:
            need = next(steps)
            poller = select.poll()
            poller.register(
                channel.sock.fileno(), select.POLLIN if need is Need.READABLE else select.POLLOUT
            )
            while True:
                left_s = until_s - channel.now()
                if left_s <= 0:
                    raise _TimeUp
                if poller.poll(min(left_s, 3600.0) * 1000):
                    break
            if channel.now() >= until_s:
                raise _TimeUp
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _drive_async(channel: _Channel, steps: Generator[Need, None, T], until_s: float) -> T:
    """Run steps on the running loop, waiting for the socket in between."""
    try:
        while True:
            need = next(steps)
            left_s = until_s - channel.now()
            if left_s <= 0:
                raise _TimeUp
            await _ready(channel.sock.fileno(), need, left_s)
            if channel.now() >= until_s:
                raise _TimeUp
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _ready(fileno: int, need: Need, left_s: float) -> None:
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    if need is Need.READABLE:
        add, remove = loop.add_reader, loop.remove_reader
    else:
        add, remove = loop.add_writer, loop.remove_writer
    add(fileno, wake)
    timer = loop.call_later(min(left_s, 3600.0), wake)
    try:
        await woken
    finally:
        timer.cancel()
        remove(fileno)
