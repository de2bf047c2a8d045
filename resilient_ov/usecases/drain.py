"""``shutdown_flush``: delivers what waits, inside a hard time, and says whether all of it went.

Rule: intake stops first; four fifths of the time are for delivering. What stays is counted once.
"""

from collections.abc import Callable

from resilient_ov import events
from resilient_ov.domain.ports import Clock
from resilient_ov.usecases.backlog import Backlog
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.delivery import NOTHING
from resilient_ov.usecases.steps import Flow, wait
from resilient_ov.usecases.writer import Writer

_POLL_S = 0.01
_DRAIN_SHARE = 0.8


class Drain:
    """Drains the writer. One per process."""

    def __init__(
        self,
        *,
        backlog: Backlog,
        writer: Writer,
        deliver: Deliver,
        sink: events.EventSink,
        clock: Clock,
        calls_in_flight: Callable[[], int],
    ) -> None:
        self._backlog = backlog
        self._writer = writer
        self._deliver = deliver
        self._sink = sink
        self._clock = clock
        self._calls_in_flight = calls_in_flight

    def drain(self, timeout_s: float) -> Flow[bool]:
        """Deliver and commit what waits; True = nothing of this process is left.

        Ends at the latest after ``timeout_s``. A second call finds nothing to do.
        """
        until_s = self._clock.monotonic_s() + timeout_s * _DRAIN_SHARE
        self._writer.finish()
        for target in self._deliver.uncommitted():
            self._writer.put(target, NOTHING, trace_id=None)
        self._writer.hurry()
        while not self._quiet() and self._clock.monotonic_s() < until_s:
            yield from wait(_POLL_S)
        self._writer.closed = True
        waiting, in_doubt = self._writer.waiting_messages()
        left = self._backlog.clear()
        lost = max(0, left - in_doubt)
        if lost:
            self._sink.emit(events.MessagesDropped(reason=events.DropReason.SHUTDOWN, count=lost))
        return waiting == 0 and left == 0 and in_doubt == 0 and self._quiet()

    def _quiet(self) -> bool:
        return self._writer.idle() and self._calls_in_flight() == 0
