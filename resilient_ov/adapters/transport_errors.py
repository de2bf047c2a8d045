"""The pool's errors and ours as the transport's callers know them.

No I/O here. Rule: a text that comes from the system or the library is lost: it may hold addresses.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import httpcore
import httpx

from resilient_ov.adapters.pools import NoSlotError
from resilient_ov.adapters.sockets import NoSocketError, TlsError, TlsTimeout


class TlsFailure(httpx.ConnectError):
    """The TLS layer refused."""


class TlsTimedOut(httpx.ConnectTimeout):
    """The TLS handshake did not end in time."""


NAMES: Final[dict[type[Exception], type[httpx.TransportError]]] = {
    TlsError: TlsFailure,
    TlsTimeout: TlsTimedOut,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    NoSlotError: httpx.PoolTimeout,
    NoSocketError: httpx.PoolTimeout,
}


@contextmanager
def named(request: httpx.Request) -> Generator[None]:
    """Turn the pool's errors into the transport's; their texts may hold addresses and are lost."""
    try:
        yield
    except tuple(NAMES) as error:
        named = NAMES[type(error)]
        raise named(named.__name__, request=request) from None
