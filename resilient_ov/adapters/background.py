"""Secondary adapter (owned persistence): the one background thread, and the workers of its jobs.

Rule: the thread only asks the sources what to start and when to ask again; every job runs on a
worker. A wake-up that comes while it is looking is never lost.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from resilient_ov.domain.ports import Clock, Workers
from resilient_ov.drivers import SyncDriver
from resilient_ov.usecases.steps import Flow, JobSource

_LOG = logging.getLogger("resilient_ov")
_LONGEST_REST_S = 30.0
_NO_WORKER_RETRY_S = 0.05


class Background:
    """Runs the jobs of its sources. ``wake`` and ``start`` are safe from any thread, and quick."""

    def __init__(self, driver: SyncDriver, workers: Workers, clock: Clock) -> None:
        self._driver = driver
        self._workers = workers
        self._clock = clock
        self._sources: Sequence[JobSource] = ()
        self._changed = threading.Condition()
        self._woken = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def serve(self, sources: Sequence[JobSource]) -> None:
        """Name the sources; before ``start``."""
        self._sources = sources

    def start(self) -> None:
        """Start the thread unless it runs; idempotent."""
        if self._thread is not None:
            return
        with self._changed:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=self._loop, name="resilient-ov-background", daemon=True
                )
                self._thread.start()

    def wake(self) -> None:
        """Have the sources asked again now."""
        self.start()
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> None:
        """Start no further job and wait for the thread; jobs under way go on. Idempotent."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _loop(self) -> None:
        waiting: list[Flow[None]] = []
        while True:
            with self._changed:
                if self._stopped:
                    break
                self._woken = False
            now_s = self._clock.monotonic_s()
            for source in self._sources:
                waiting += source.jobs(now_s)
            waiting = [flow for flow in waiting if not self._started(flow)]
            rest_s = _NO_WORKER_RETRY_S if waiting else self._rest_s()
            with self._changed:
                if not self._woken and not self._stopped:
                    self._changed.wait(rest_s)
        for flow in waiting:
            flow.close()

    def _rest_s(self) -> float:
        now_s = self._clock.monotonic_s()
        times = (source.next_s(now_s) for source in self._sources)
        soonest_s = min((t for t in times if t is not None), default=now_s + _LONGEST_REST_S)
        return min(_LONGEST_REST_S, max(0.0, soonest_s - now_s))

    def _started(self, flow: Flow[None]) -> bool:
        run: Callable[[], None] = partial(self._driver.run, flow)
        return self._workers.submit(run, _report)


def _report(_: object, error: BaseException | None) -> None:
    if error is not None:
        # A fault of our own: told by its class alone, because a text could hold anything.
        _LOG.error("a background job ended with %s", type(error).__name__)
