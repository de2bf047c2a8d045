"""Secondary adapter (anti-corruption layer): a bounded pool of our own daemon threads.

Rule: never the interpreter's or the host's executor. A blocked disk or resolver may occupy every
worker; it never holds up the caller, who is told that there is no place.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

from resilient_ov.adapters.forked import renew_after_fork

T = TypeVar("T")

_CLOSE_S = 0.9


class WorkersClosedError(RuntimeError):
    """Accepted work was not started because its pool was closed."""


class WorkerPool:
    """Implements ``Workers`` with at most ``threads`` threads and ``waiting`` queued works.

    Threads start on demand and stay until ``close``. ``done`` is called exactly once for every
    accepted work, on a worker (at ``close`` on the closing thread, with ``WorkersClosedError``,
    for work that no worker took in time); it must not raise. A forked child starts empty: what
    was accepted before the fork is the parent's.
    """

    def __init__(self, *, threads: int, waiting: int, name: str = "resilient-ov-worker") -> None:
        if threads < 1 or waiting < 0:
            raise ValueError("threads must be >= 1 and waiting >= 0")
        self._threads_max = threads
        self._waiting_max = waiting
        self._name = name
        self._start_empty()
        renew_after_fork(self)

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> bool:
        """Run ``work`` on a worker and report to ``done`` there; False = no place, not run.

        Never blocks. ``work`` and ``done`` see the caller's context variables.
        """
        job = (copy_context(), partial(_perform, work, done), partial(_refuse, done))
        with self._changed:
            taken = len(self._queue) + self._busy
            if self._closed or taken >= self._threads_max + self._waiting_max:
                return False
            if taken >= len(self._threads) and len(self._threads) < self._threads_max:
                self._start_thread()
            if not self._threads:
                return False
            self._queue.append(job)
            self._changed.notify()
        return True

    def close(self) -> None:
        """Refuse new work, finish what is queued, and return within a second; idempotent.

        A thread that is stuck in its work stays behind as a daemon.
        """
        end_s = time.monotonic() + _CLOSE_S
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end_s - time.monotonic()))
        with self._changed:
            left = list(self._queue)
            self._queue.clear()
        for context, _, refuse in left:
            context.run(refuse)

    def renew(self) -> None:
        """Start empty in a forked child; called by ``forked``."""
        closed = self._closed
        self._start_empty()
        self._closed = closed

    def _start_empty(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._queue: deque[tuple[Context, Callable[[], None], Callable[[], None]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._busy = 0
        self._closed = False

    def _start_thread(self) -> None:
        number = len(self._threads) + 1
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{number}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            # The process is out of threads, or ending: the living workers take the work.
            self._threads.discard(thread)

    def _serve(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._queue:
                        if self._closed:
                            return
                        self._changed.wait()
                    context, perform, _ = self._queue.popleft()
                    self._busy += 1
                try:
                    context.run(perform)
                finally:
                    # Dropped before the wait: an idle worker must not keep a caller's values alive.
                    del context, perform, _
                    with self._changed:
                        self._busy -= 1
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())


def _perform(work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        done(None, error)
        return
    done(result, None)


def _refuse(done: Callable[[T | None, BaseException | None], None]) -> None:
    done(None, WorkersClosedError("the worker pool was closed before the work began"))
