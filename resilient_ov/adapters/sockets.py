"""Non-blocking sockets of a pool: open, watch over, wait for, close.

Rule: a wait ends at its time; nothing is written after it; closing never writes. A socket belongs
to no event loop while nobody waits on it.
"""

import asyncio
import errno
import select
import socket
import ssl
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import httpcore

from resilient_ov.adapters.resolver import Address
from resilient_ov.adapters.socket_steps import Need

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

T = TypeVar("T")
Clock = Callable[[], float]


class TlsError(httpcore.NetworkError):
    """The TLS layer refused: certificate, version, files or an alert of the peer."""


class TlsTimeout(httpcore.ConnectTimeout):
    """The TLS handshake did not end in time."""


class NoSocketError(Exception):
    """Our process may open no further socket; nothing was sent, the host is not to blame."""


class TimeUp(Exception):  # noqa: N818 - a signal, named by whoever knows the phase
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


class Channel:
    """A socket with its book-keeping and its clock; what both colours of stream are made of."""

    def __init__(self, sock: socket.socket, registry: SocketRegistry, now: Clock) -> None:
        self.sock = sock
        self.now = now
        self._registry = registry

    @classmethod
    def open(cls, address: Address, registry: SocketRegistry, now: Clock) -> "Channel":
        """Make an unconnected channel for an address.

        Raises:
            NoSocketError: the process or the system has none left.

        """
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise NoSocketError from None
            raise
        registry.add(sock)
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock, registry, now)

    def wrap(self, context: ssl.SSLContext, server_hostname: str | None) -> ssl.SSLSocket:
        """Put TLS on the socket, without a handshake yet."""
        plain = self.sock
        wrapped = context.wrap_socket(
            plain, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        self._registry.add(wrapped)
        self._registry.close(plain)  # already detached: this only forgets it
        self.sock = wrapped
        return wrapped

    def in_time(self, until_s: float) -> Callable[[], None]:
        """Make the check of the time that runs before each write."""

        def check() -> None:
            if self.now() >= until_s:
                raise TimeUp

        return check

    def close(self) -> None:
        """Close at once; nothing is written."""
        self._registry.close(self.sock)

    def info(self, name: str) -> Any:
        """Tell ``is_readable``, ``socket`` or ``ssl_object``; None for all else."""
        if name == "is_readable":
            return _is_readable(self.sock)
        if name == "socket":
            return self.sock
        if name == "ssl_object":
            return self.sock if isinstance(self.sock, ssl.SSLSocket) else None
        return None


def drive(channel: Channel, steps: Generator[Need, None, T], until_s: float) -> T:
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
                    raise TimeUp
                if poller.poll(min(left_s, 3600.0) * 1000):
                    break
            if channel.now() >= until_s:
                raise TimeUp
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def drive_async(channel: Channel, steps: Generator[Need, None, T], until_s: float) -> T:
    """Run steps on the running loop, waiting for the socket in between."""
    try:
        while True:
            need = next(steps)
            left_s = until_s - channel.now()
            if left_s <= 0:
                raise TimeUp
            await _ready(channel.sock.fileno(), need, left_s)
            if channel.now() >= until_s:
                raise TimeUp
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


def _is_readable(sock: socket.socket) -> bool:
    """Whether an idle connection has something to read, which can only be its end."""
    if sock.fileno() < 0:
        return True
    poller = select.poll()
    poller.register(sock.fileno(), select.POLLIN)
    return bool(poller.poll(0))
