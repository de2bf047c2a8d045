"""A few daemon threads for calls that may block and cannot be interrupted (names, files).

Rule: the caller's wait is bounded, the work is not: what is too slow is abandoned and keeps its
slot until it ends, so no more than ``slots`` threads ever hang.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from resilient_ov.adapters.forked import renew_after_fork

T = TypeVar("T")


class Offload:
    """Starts blocking work on own daemon threads, at most ``slots`` at once.

    Threads live as long as their work. Safe from any thread; a forked child has all slots free.
    """

    def __init__(self, name: str, slots: int) -> None:
        self._name = name
        self._slots = slots
        self._free = threading.BoundedSemaphore(slots)
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the parent's threads: they do not exist in this process."""
        self._free = threading.BoundedSemaphore(self._slots)

    def start(self, work: Callable[[], T]) -> "Future[T] | None":
        """Run ``work`` on a thread of its own; None = no slot or thread to be had, not started."""
        free = self._free
        if not free.acquire(blocking=False):
            return None
        ticket: Future[T] = Future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the waiter
                free.release()
                ticket.set_exception(error)
            else:
                free.release()
                ticket.set_result(result)

        try:
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except RuntimeError:
            # The system has no thread to spare.
            free.release()
            return None
        return ticket


async def arrival(ticket: "Future[T]", timeout_s: float) -> T:
    """Wait on the running loop for an offloaded result, at most ``timeout_s``.

    Raises:
        TimeoutError: it did not come in time; the work goes on unattended.

    """
    loop = asyncio.get_running_loop()
    here: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not here.done():
            here.set_result(None)

    def arrived(_: "Future[T]") -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            # The loop was closed meanwhile: nobody waits any more.
            return

    ticket.add_done_callback(arrived)
    async with asyncio.timeout(timeout_s):
        await here
    return ticket.result()
