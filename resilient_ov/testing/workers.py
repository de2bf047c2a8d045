"""Workers whose work runs when a test says so, on the thread that says so.

Rule: nothing runs by itself, so a test decides every order.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


class ManualWorkers:
    """``Workers`` with ``places`` works that may wait; a test runs them. Safe from any thread."""

    def __init__(self, *, places: int = 64) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> bool:
        """Keep ``work`` until ``run_one``; False = no place, not run."""
        context = copy_context()

        def perform() -> None:
            try:
                result = context.run(work)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                context.run(done, None, error)
                return
            context.run(done, result, None)

        with self._lock:
            if len(self._waiting) >= self.places:
                return False
            self._waiting.append(perform)
            return True

    def waiting(self) -> int:
        """Return how many works have not run yet."""
        with self._lock:
            return len(self._waiting)

    def run_one(self) -> bool:
        """Run the oldest work and report to its ``done``; False = nothing waited."""
        with self._lock:
            perform = self._waiting.popleft() if self._waiting else None
        if perform is None:
            return False
        perform()
        return True

    def run_all(self) -> None:
        """Run everything that waits, and what that submits."""
        while self.run_one():
            pass
