"""A port where connection attempts vanish: nobody answers, nobody refuses.

Linux drops a connection request silently when the listener's queue is full, so a listener that
never accepts, with its queue filled, is a black hole for everybody after.
"""

import socket
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

_BIND_S = 2.0


@contextmanager
def swallowing_port(port: int, host: str = "127.0.0.1") -> Generator[None]:
    """Swallow connection attempts to a free port for the time of a block.

    Raises:
        OSError: the port is not free, or the system does not swallow.

    """
    with ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(listener, host, port)
        listener.listen(0)
        for _ in range(4):
            filler = held.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003 - the library's signature
            filler.connect_ex((host, port))
        with socket.socket() as probe:
            probe.settimeout(0.2)
            try:
                probe.connect((host, port))
            except TimeoutError:
                pass
            else:
                raise OSError("this system accepts connections beyond a full queue")
        yield


def _bind(listener: socket.socket, host: str, port: int) -> None:
    end_s = time.monotonic() + _BIND_S
    while True:
        try:
            listener.bind((host, port))
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.02)
        else:
            return
