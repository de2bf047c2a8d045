"""Small things that are done now and then: look at the key, at the switches, tell the status.

Rule: each runs as blocking work with a bound; a failure is left for the next time.
"""

from collections.abc import Callable

from resilient_ov.domain.ports import Clock
from resilient_ov.usecases.steps import Flow, WorkLateError, work

_WORK_S = 5.0


class Tick:
    """A source of one job, due every ``every_s`` seconds. Safe from any thread; never blocks.

    ``run`` may block and may raise ``expected``; anything else is a fault and is reported.
    """

    def __init__(
        self,
        run: Callable[[], object],
        *,
        every_s: float,
        clock: Clock,
        expected: tuple[type[Exception], ...] = (OSError,),
    ) -> None:
        self._run = run
        self._every_s = every_s
        self._clock = clock
        self._expected = expected
        self._running = False
        self._next_s = clock.monotonic_s() + every_s

    def hurry(self) -> None:
        """Make it due now."""
        self._next_s = self._clock.monotonic_s()

    def jobs(self, now_s: float) -> list[Flow[None]]:
        """Return the run to start now, if it is due."""
        if self._running or now_s < self._next_s:
            return []
        self._running = True
        return [self._once()]

    def next_s(self, now_s: float) -> float | None:
        """Return when ``jobs`` is worth asking again."""
        return None if self._running else max(now_s, self._next_s)

    def _once(self) -> Flow[None]:
        try:
            yield from work(self._run, self._clock.monotonic_s() + _WORK_S)
        except WorkLateError:
            return
        except self._expected:
            return
        finally:
            self._running = False
            self._next_s = self._clock.monotonic_s() + self._every_s
