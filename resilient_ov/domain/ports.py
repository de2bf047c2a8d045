"""What the use cases need from the outside, in the domain's words.

Rule: technology-neutral signatures. Every port has one contract suite that runs on the fake and
on each real adapter.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from resilient_ov.domain.exchange import Answer, Command
from resilient_ov.domain.waiting import Kept, OutboxDepth, Parcel
from resilient_ov.domain.watermark import Watermark

T = TypeVar("T")


class Clock(Protocol):
    """Time. Safe from any thread; never blocks."""

    def monotonic_s(self) -> float:
        """Return seconds that only grow; every duration and deadline is measured with it."""
        ...

    def utc_iso(self) -> str:
        """Return the wall clock as an ISO-8601 UTC instant, for display only."""
        ...


class Dice(Protocol):
    """Randomness. Safe from any thread; independent in each forked child."""

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def token(self) -> str:
        """Return 32 fresh hexadecimal characters."""
        ...


@dataclass(slots=True)
class Attempt:
    """One attempt of a command; nobody changes it.

    ``deadline_s`` is absolute on the monotonic clock and covers everything up to the last byte
    of the answer. ``request_id`` is random and carries no identity. ``trace_id`` is the host's,
    or None.
    """

    # Not frozen, because one is made for every request and frozen costs three times as much.
    command: Command
    deadline_s: float
    request_id: str
    trace_id: str | None = None


class MemoryServer(Protocol):
    """The remote memory, for callers without a running event loop.

    ``send`` performs one attempt and never retries. What went wrong comes back as a ``Failure``
    with its evidence; only cancellation-like exceptions (``BaseException``) pass through, after
    the connection was aborted. It returns at the latest a scheduling delay after the deadline,
    and sends no byte after it. Thread-safe; usable again after ``fork`` in the child.
    ``close`` takes at most a second, is idempotent, and lets attempts in flight fail.
    """

    def send(self, attempt: Attempt) -> Answer:
        """Perform one attempt."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class AsyncMemoryServer(Protocol):
    """The same for callers on an event loop; one instance serves several loops.

    A cancelled ``send`` aborts its connection before ``CancelledError`` passes through.
    """

    async def send(self, attempt: Attempt) -> Answer:
        """Perform one attempt."""
        ...

    async def aclose(self) -> None:
        """Release the connections of the running loop."""
        ...


class StateUnwritableError(Exception):
    """The state of a session could not be read or saved; the old one is intact.

    ``problem`` is a closed word for the operator: ``no_space``, ``denied``, ``io``.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"session state cannot be written: {problem}")
        self.problem = problem


class NewerStateError(Exception):
    """The state was written by a newer version; it is left untouched and the session refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session's state as found. ``watermark`` None = there was none.

    ``repaired`` True = there was one, unreadable, which was kept aside.
    """

    watermark: Watermark | None
    repaired: bool = False


class SessionUnit(Protocol):
    """One exclusive visit of one session's state; made by ``WatermarkStore.session``.

    The methods block (disk, lock) and run on a worker thread, one at a time. Leaving the context
    never blocks and may happen at any moment, also while a method still runs: what that method
    obtains is then released by it.
    """

    def open(self) -> Loaded | None:
        """Take the session's lock without waiting and load the state; None = held by another.

        Raises:
            StateUnwritableError: the place of the state cannot be used.
            NewerStateError: the state belongs to a newer version.
        """
        ...

    def save(self, watermark: Watermark) -> None:
        """Make the state durable before returning; the marker of unfinished work with it.

        Raises:
            StateUnwritableError: nothing changed.
        """
        ...


class WatermarkStore(Protocol):
    """Owns what is known to be stored, per session, and the lock around it.

    Exclusive across the threads and processes that share the place. Safe from any thread; a
    forked child becomes a new owner.
    """

    def session(self, session_id: str) -> AbstractContextManager[SessionUnit]:
        """Return a visit; nothing is done before its ``open``. Leaving it releases the lock."""
        ...

    def owner(self) -> str:
        """Return this process's random token; its life is visible to others (blocks, cheap)."""
        ...

    def owner_lives(self, token: str) -> bool:
        """Tell whether the process with that token still lives (blocks)."""
        ...

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of sessions with something to settle or commit, sorted (blocks)."""
        ...

    def lead(self) -> bool:
        """Try to be, or stay, the one sweeper of this place (blocks, never waits)."""
        ...

    def persistent(self) -> bool:
        """Tell whether the last attempt to write succeeded."""
        ...

    def probe(self) -> None:
        """Write, replace and remove something as a save does (blocks).

        Raises:
            StateUnwritableError: a save would fail now.
        """
        ...

    def close(self) -> None:
        """Release the owner's marks; idempotent."""
        ...


class OutboxError(Exception):
    """What waits could not be kept or read; what was kept before still is.

    ``problem`` is a closed word for the operator: ``no_space``, ``denied``, ``io``, ``busy`` (for
    others' sake, for longer than a moment), ``unreadable`` (it was kept aside and begun anew, or
    belongs to a newer version), ``forked`` (of no use in this child before it ends).
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"what waits cannot be kept: {problem}")
        self.problem = problem


class Outbox(Protocol):
    """Keeps what waits to be stored, so that a killed process loses none of it.

    It is a mirror: the process that waits decides what is sent and when, and tells what waits of a
    session as a whole, each time. Nothing is delivered from here, and what is adopted twice (a
    kill between two steps) is stored once all the same, because every delivery compares first.

    Each owner keeps its own parcel of a session; owner and life are those of ``WatermarkStore``.
    All methods block, none waits for other processes longer than a quarter of a second. Safe from
    any thread: ``keep`` and ``adopt`` of one process exclude each other, and their callbacks run
    inside that exclusion. A forked child owns nothing of its parent's. Every method but ``close``
    raises ``OutboxError``.
    """

    @property
    def durable(self) -> bool:
        """False = nothing survives the process; then nobody needs to call anything here."""
        ...

    def keep(
        self, session_ids: Collection[str], waiting: Callable[[str], Parcel | None]
    ) -> OutboxDepth:
        """Make durable what waits of these sessions: all of them or, when it raises, none.

        ``waiting`` is asked for each, and what it says replaces what was kept; None = nothing
        waits. What is replaced or no longer waits has left no trace of its text when this
        returns, unless another process is just reading: then the next ``keep`` of anybody
        removes it. There is no bound here; how much there may be is decided before a list is
        accepted.
        """
        ...

    def adopt(self, take: Callable[[Parcel], Parcel | None]) -> int:
        """Take over some of what dead owners left, the longest waiting first; return how many.

        0 = there is none, or none was taken. ``take`` is given each parcel and returns all that
        waits of its session in this process from now on, which is kept as this owner's; None =
        there is no room for it, then it stays as it is and the rest is left for later. Across
        all processes each parcel is taken once.
        """
        ...

    def depth(self) -> OutboxDepth:
        """Return how much is kept in the whole place."""
        ...

    def entries(self) -> tuple[Kept, ...]:
        """Return every parcel without its text, the longest waiting first."""
        ...

    def erase(self, user: str) -> int:
        """Remove what dead owners left for a user of the server; return how many messages."""
        ...

    def close(self) -> None:
        """Release what is held; what is kept stays for whoever adopts it. Idempotent."""
        ...


class Workers(Protocol):
    """A small bounded pool of our own daemon threads for what may block."""

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> bool:
        """Run ``work`` on a worker and report to ``done`` there; False = no place, not run.

        Never blocks. The caller's context variables are visible to ``work``.
        """
        ...
