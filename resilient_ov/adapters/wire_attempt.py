"""One attempt as the sockets see it: how much time is left, and what already happened on the wire.

No I/O here. The HTTP library does not hand a request's extensions to its sockets, so the attempt
travels beside it in a context variable, entered for every step that may touch a socket.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar


class WireAttempt:
    """Deadline and evidence of one attempt. Used by one thread or task at a time.

    Attributes:
        deadline_s: absolute monotonic seconds; ``inf`` = no total bound, phases only.
        byte_received: at least one byte of a reply came.
        peer_closed: the peer ended the connection while a reply was awaited.
        close_socket: closes the socket in use at once; set by the connection that is used.

    """

    __slots__ = (
        "_first_write_s",
        "_now",
        "_placed_s",
        "byte_received",
        "close_socket",
        "deadline_s",
        "peer_closed",
    )

    def __init__(self, deadline_s: float, now: Callable[[], float]) -> None:
        self.deadline_s = deadline_s
        self.byte_received = False
        self.peer_closed = False
        self.close_socket: Callable[[], None] = _nothing
        self._now = now
        self._first_write_s: float | None = None
        self._placed_s: float | None = None

    @property
    def sent(self) -> bool:
        """Whether a write of this request was started; started counts as sent."""
        return self._first_write_s is not None

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self._now() >= self.deadline_s

    @property
    def wire_s(self) -> float:
        """Seconds since the first write; 0 when none was started."""
        return 0.0 if self._first_write_s is None else max(0.0, self._now() - self._first_write_s)

    @property
    def reach_s(self) -> float:
        """Seconds since the attempt got its place in the pool; 0 when it never did."""
        return 0.0 if self._placed_s is None else max(0.0, self._now() - self._placed_s)

    def until_s(self, phase_s: float | None) -> float:
        """Return the monotonic time at which a phase that begins now must end."""
        phase_end = math.inf if phase_s is None else self._now() + phase_s
        return min(self.deadline_s, phase_end)

    def note_place(self) -> None:
        """Remember that a place in the pool was had, so that the host can be reached for now."""
        self._placed_s = self._now()

    def note_write(self) -> None:
        """Remember that a write is about to be started."""
        if self._first_write_s is None:
            self._first_write_s = self._now()

    def note_read(self, data: bytes) -> None:
        """Remember what a read returned; no bytes = the peer closed."""
        if data:
            self.byte_received = True
        else:
            self.peer_closed = True


def _nothing() -> None:
    """Stand in until a connection is used."""


_current: ContextVar[WireAttempt | None] = ContextVar("resilient_ov_wire_attempt", default=None)


def current_attempt() -> WireAttempt | None:
    """Return the attempt whose step is running, None outside of one."""
    return _current.get()


@contextmanager
def entered(attempt: WireAttempt) -> Generator[None]:
    """Make ``attempt`` the current one for a step; never held across a ``yield`` to the caller."""
    token = _current.set(attempt)
    try:
        yield
    finally:
        _current.reset(token)
