"""Whether the state can be written: told once when that stops, and once when it is so again.

Rule: the store knows; this only tells. While state cannot be written nothing is sent.
"""

import threading

from resilient_ov import events
from resilient_ov.domain.ports import Clock, StateUnwritableError, WatermarkStore
from resilient_ov.usecases.steps import Flow, WorkLateError, work


class Persistence:
    """One per process; safe from many threads and tasks."""

    def __init__(self, store: WatermarkStore, sink: events.EventSink, clock: Clock) -> None:
        self._store = store
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._told = True

    def look(self) -> None:
        """Tell it if the store's last attempt to write went otherwise than the one told last."""
        persistent = self._store.persistent()
        if persistent is self._told:
            return
        with self._lock:
            changed, self._told = persistent is not self._told, persistent
        if changed:
            self._sink.emit(events.StatePersistence(persistent=persistent))

    def failed(self) -> None:
        """Tell that state could not be read or saved."""
        self._sink.emit(events.StateError(reason=events.StateErrorReason.UNWRITABLE))
        self.look()

    def probe(self, deadline_s: float) -> Flow[str | None]:
        """Write as a save does; return None, or the closed word for what is in the way."""
        try:
            yield from work(self._store.probe, deadline_s)
        except StateUnwritableError as error:
            self.failed()
            return error.problem
        except WorkLateError:
            self.failed()
            return "late"
        self.look()
        return None
