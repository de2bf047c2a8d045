"""What is done with a non-blocking socket, step by step, without a colour.

Each function is a generator that says what it waits for; a driver (thread or event loop) does the
waiting and owns the time. Nothing here blocks.
"""

import errno
import os
import socket
import ssl
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any

WRITE_CHUNK_BYTES = 65_536


class Need(Enum):
    """What a step waits for before it can go on."""

    READABLE = "readable"
    WRITABLE = "writable"


def connect_steps(sock: socket.socket, address: Any) -> Generator[Need, None, None]:
    """Connect to a numeric address.

    Raises:
        OSError: refused, unreachable, or the system gave up.

    """
    failed = sock.connect_ex(address)
    if failed in (errno.EINPROGRESS, errno.EWOULDBLOCK):
        yield Need.WRITABLE
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))


def handshake_steps(
    sock: ssl.SSLSocket, before_write: Callable[[], None]
) -> Generator[Need, None, None]:
    """Run the TLS handshake; ``before_write`` is called before anything may be written.

    Raises:
        OSError: the peer or its certificate was not accepted, or it closed.

    """
    while True:
        before_write()
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            yield Need.READABLE
        except ssl.SSLWantWriteError:
            yield Need.WRITABLE
        else:
            return


def send_steps(
    sock: socket.socket, data: bytes, before_write: Callable[[], None]
) -> Generator[Need, None, None]:
    """Send all bytes; ``before_write`` is called before every single write and may raise.

    Raises:
        OSError: the connection is broken.

    """
    left = memoryview(data)
    while left:
        before_write()
        try:
            sent = sock.send(left[:WRITE_CHUNK_BYTES])
        except (BlockingIOError, ssl.SSLWantWriteError):
            yield Need.WRITABLE
        except ssl.SSLWantReadError:
            yield Need.READABLE
        else:
            left = left[sent:]


def receive_steps(sock: socket.socket, max_bytes: int) -> Generator[Need, None, bytes]:
    """Receive up to ``max_bytes``; empty = the peer closed.

    Raises:
        OSError: the connection is broken.

    """
    while True:
        try:
            return sock.recv(max_bytes)
        except (BlockingIOError, ssl.SSLWantReadError):
            yield Need.READABLE
        except ssl.SSLWantWriteError:
            yield Need.WRITABLE
