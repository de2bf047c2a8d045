"""Who uses which connection pool, and when a pool is closed.

Rule: a pool is never closed under its users. It is retired: later attempts get another one, and
its last user closes it. The HTTP library's own queue is never used: slots are taken here first, so
a wait inside a pool can only mean that the pool has lost track of its connections.
"""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

import httpcore

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.sockets import SocketRegistry

P = TypeVar("P")


class NoSlotError(Exception):
    """No connection slot became free in time; nothing was sent."""


@dataclass(slots=True, eq=False)
class Lease(Generic[P]):
    """The use of one pool by one attempt."""

    pool: P
    users: "_Users"


@dataclass(slots=True, eq=False)
class _Users:
    """How many attempts use a pool, and whether the last one has to close it."""

    count: int = 0
    retired: bool = False


class SyncPools:
    """The pool of this process for threads. Safe from any thread; a forked child starts anew.

    Args:
        make: makes a pool whose sockets are watched over by the given registry.
        slots: attempts at once; the pool must allow as many connections.
        on_healed: called, outside of any lock, each time a poisoned pool was replaced.

    """

    def __init__(
        self,
        make: Callable[[SocketRegistry], httpcore.ConnectionPool],
        *,
        slots: int,
        on_healed: Callable[[], None],
    ) -> None:
        self._make = make
        self._slot_count = slots
        self._on_healed = on_healed
        self._registry = SocketRegistry()
        # Sockets of a pool that was dropped without close() are closed with it.
        weakref.finalize(self, self._registry.close_all)
        self._start()
        renew_after_fork(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._slot_count)
        self._current: Lease[httpcore.ConnectionPool] | None = None

    def renew(self) -> None:
        """Drop the parent's connections without a word to the server, and its locks."""
        self._registry.close_all()
        self._start()

    @contextlib.contextmanager
    def slot(self, timeout_s: float) -> Generator[None]:
        """Hold one of the slots.

        Raises:
            NoSlotError: none was free within ``timeout_s``.

        """
        slots = self._slots
        if not slots.acquire(timeout=max(0.0, timeout_s)):
            raise NoSlotError
        try:
            yield
        finally:
            slots.release()

    @contextlib.contextmanager
    def use(self) -> Generator[Lease[httpcore.ConnectionPool]]:
        """Use the current pool; made at first use."""
        with self._lock:
            if self._current is None:
                self._current = Lease(self._make(self._registry), _Users())
            lease = self._current
            lease.users.count += 1
        try:
            yield lease
        finally:
            self._left(lease)

    def heal(self, poisoned: Lease[httpcore.ConnectionPool]) -> None:
        """Put a fresh pool in the place of one that has lost its connections; once per pool."""
        if self._retire(poisoned):
            self._on_healed()

    def close(self) -> None:
        """Cut all connections; attempts in flight fail. A later attempt opens new ones."""
        with self._lock:
            lease = self._current
        if lease is not None and self._retire(lease):
            self._registry.cut_all()

    def _retire(self, lease: Lease[httpcore.ConnectionPool]) -> bool:
        with self._lock:
            first = self._current is lease
            if first:
                self._current = None
            lease.users.retired = True
            idle = first and lease.users.count == 0
        if idle:
            lease.pool.close()
        return first

    def _left(self, lease: Lease[httpcore.ConnectionPool]) -> None:
        with self._lock:
            lease.users.count -= 1
            last = lease.users.retired and lease.users.count == 0
        if last:
            lease.pool.close()


@dataclass(slots=True, eq=False)
class _LoopPools:
    """What belongs to one event loop; touched on that loop only, except for its sockets."""

    slots: asyncio.Semaphore
    registry: SocketRegistry
    forget: Callable[[], object]
    current: Lease[httpcore.AsyncConnectionPool] | None = None


class AsyncPools:
    """One pool per event loop, closed with it. Safe from several loops; a forked child starts anew.

    Idle connections belong to no loop, so those of a loop that is gone are simply closed. The
    arguments are those of ``SyncPools``.
    """

    def __init__(
        self,
        make: Callable[[SocketRegistry], httpcore.AsyncConnectionPool],
        *,
        slots: int,
        on_healed: Callable[[], None],
    ) -> None:
        self._make = make
        self._slot_count = slots
        self._on_healed = on_healed
        self._registries: set[SocketRegistry] = set()
        weakref.finalize(self, _close_sockets, self._registries)
        self._start()
        renew_after_fork(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPools] = (
            weakref.WeakKeyDictionary()
        )

    def renew(self) -> None:
        """Drop the parent's connections without a word to the server, and its loops."""
        _close_sockets(self._registries)
        self._start()

    @contextlib.asynccontextmanager
    async def slot(self, timeout_s: float) -> AsyncGenerator[None]:
        """Hold one of the running loop's slots.

        Raises:
            NoSlotError: none was free within ``timeout_s``.

        """
        slots = self._here().slots
        if slots.locked():
            try:
                async with asyncio.timeout(max(0.0, timeout_s)):
                    await slots.acquire()
            except TimeoutError:
                raise NoSlotError from None
        else:
            await slots.acquire()
        try:
            yield
        finally:
            slots.release()

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncGenerator[Lease[httpcore.AsyncConnectionPool]]:
        """Use the running loop's current pool; made at first use."""
        here = self._here()
        if here.current is None:
            here.current = Lease(self._make(here.registry), _Users())
        lease = here.current
        lease.users.count += 1
        try:
            yield lease
        finally:
            lease.users.count -= 1
            if lease.users.retired and lease.users.count == 0:
                await lease.pool.aclose()

    async def heal(self, poisoned: Lease[httpcore.AsyncConnectionPool]) -> None:
        """Put a fresh pool in the place of one that has lost its connections; once per pool."""
        here = self._here()
        if here.current is poisoned:
            await _retire(here)
            self._on_healed()

    async def aclose(self) -> None:
        """Cut the running loop's connections; attempts in flight fail. Later ones open new."""
        with self._lock:
            here = self._loops.pop(asyncio.get_running_loop(), None)
        if here is not None:
            await _retire(here)
            here.registry.cut_all()

    def abandon(self) -> None:
        """Cut the connections of all loops, from any thread; loops that run tidy up themselves."""
        with self._lock:
            found = list(self._loops.items())
            self._loops.clear()
        for loop, there in found:
            if loop.is_running():
                there.registry.cut_all()
                with contextlib.suppress(RuntimeError):  # it was closed this very moment
                    loop.call_soon_threadsafe(_retire_soon, there)
            else:
                there.forget()

    def _here(self) -> _LoopPools:
        loop = asyncio.get_running_loop()
        with self._lock:
            here = self._loops.get(loop)
            if here is None:
                for other in [known for known in self._loops if known.is_closed()]:
                    self._loops.pop(other).forget()
                registry = SocketRegistry()
                self._registries.add(registry)
                forget = weakref.finalize(loop, _forget, self._registries, registry)
                here = _LoopPools(asyncio.Semaphore(self._slot_count), registry, forget)
                self._loops[loop] = here
            return here


async def _retire(pools: _LoopPools) -> None:
    lease, pools.current = pools.current, None
    if lease is not None:
        lease.users.retired = True
        if lease.users.count == 0:
            await lease.pool.aclose()


_tidying: set[asyncio.Task[None]] = set()


def _retire_soon(pools: _LoopPools) -> None:
    task = asyncio.ensure_future(_retire(pools))
    _tidying.add(task)
    task.add_done_callback(_tidying.discard)


def _forget(registries: set[SocketRegistry], registry: SocketRegistry) -> None:
    registries.discard(registry)
    registry.close_all()


def _close_sockets(registries: set[SocketRegistry]) -> None:
    while registries:
        registries.pop().close_all()
