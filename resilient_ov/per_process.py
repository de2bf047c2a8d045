"""The backend of this very process: made at first use, made anew in a forked child.

Rule: what a parent process built is never used, closed or drained by its child.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable

from resilient_ov import events
from resilient_ov.composition import Backend, Surroundings, compose
from resilient_ov.settings import Settings

_ATEXIT_DRAIN_S = 2.0


class BackendOfProcess:
    """Gives the backend of the calling process. Safe from any thread and after ``fork``.

    Args:
        settings: of the backend.
        around: makes what surrounds the backend; called once in each process.
        close_around: releases that; called by ``close``.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        around: Callable[[], Surroundings],
        close_around: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._around = around
        self._close_around = close_around
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._backend: Backend | None = None
        self._abandoned: list[Backend] = []
        self._closed = False

    def backend(self) -> Backend:
        """Return the backend of this process."""
        backend = self._backend
        if backend is not None and self._pid == os.getpid():
            return backend
        if self._pid != os.getpid():
            self._begin_in_child()
        with self._lock:
            if self._backend is None:
                self._backend = compose(self._settings, self._around())
                self._backend.memory.closed = self._closed
                self._backend.background.start()
                if self._settings.shutdown.atexit:
                    atexit.register(_drain_at_exit, weakref.ref(self))
            return self._backend

    def flush(self, timeout_s: float) -> bool:
        """Stop intake and deliver what waits; True = nothing is left."""
        if self._backend is None or self._pid != os.getpid():
            self._closed = True
            return True
        backend = self._backend
        with backend.memory.surroundings(events.Call.FLUSH):
            return backend.sync.run(backend.memory.flushed(backend.drain, timeout_s))

    def close(self) -> None:
        """Close the backend of this process, if there is one; idempotent."""
        self._closed = True
        backend = self._backend
        if backend is not None and backend.pid == os.getpid():
            if not backend.memory.closed:
                # Nobody asked for a flush: what is left is counted, not lost in silence.
                backend.sync.run(backend.memory.flushed(backend.drain, 0.0))
            backend.close()
        self._close_around()

    def drain_at_exit(self) -> None:
        """Deliver what waits when the host ends without saying so, for at most two seconds."""
        backend = self._backend
        if backend is None or backend.pid != os.getpid() or backend.memory.closed:
            return
        if not backend.writer.idle():
            backend.sync.run(backend.memory.flushed(backend.drain, _ATEXIT_DRAIN_S))
        self.close()

    def _begin_in_child(self) -> None:
        # A lock of the parent may be held for ever here by a thread that does not exist; the
        # parent's backend is kept so that no destructor of it runs in the child.
        if self._backend is not None:
            self._abandoned.append(self._backend)
        self._backend = None
        self._lock = threading.Lock()
        self._pid = os.getpid()


def _drain_at_exit(process: "weakref.ref[BackendOfProcess]") -> None:
    alive = process()
    if alive is not None:
        alive.drain_at_exit()
