"""The lock of one session: inside this process, and across the processes on one place.

Rule: taking and dropping block and run on a worker; leaving never blocks. Between leaving and
dropping, this process may take the lock over; other processes have it after the drop.

Lock files lie in ``locks/<session_id>.lock``, not beside the states: they are made and removed at
each visit, and cost an inode only while a visit lasts.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.lock_file import LockFile, LockFiles
from resilient_ov.domain.ports import Workers

_DROP_WAIT_S = 0.05


@dataclass(slots=True, eq=False)
class SessionLock:
    """The lock of one session as this process has it; made by ``SessionLocks``."""

    path: Path
    file: LockFile | None = None
    visited: bool = True
    dropping: bool = False

    @property
    def taken(self) -> LockFile:
        """The lock file of a lock that was taken."""
        if self.file is None:
            raise AssertionError("the lock was not taken")
        return self.file


class _Held:
    """What this process holds, whatever store took it: locks are by place, not by object."""

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the parent's locks; their files are closed by ``LockFile``."""
        self.changed = threading.Condition(threading.Lock())
        self.locks: dict[Path, SessionLock] = {}


_held = _Held()


class SessionLocks:
    """Gives out the session locks of one directory. Safe from any thread."""

    def __init__(self, directory: Path, files: LockFiles, workers: Workers) -> None:
        self._directory = directory
        self._files = files
        self._workers = workers

    def take(self, session_id: str) -> SessionLock | None:
        """Take a session's lock without waiting; None = held by another. Raises ``OSError``.

        Blocks on the disk, and for the moment a drop in this process takes.
        """
        path = self._directory / f"{session_id}.lock"
        with _held.changed:
            _held.changed.wait_for(lambda: not _being_dropped(path), _DROP_WAIT_S)
            lock = _held.locks.get(path)
            if lock is not None and (lock.visited or lock.dropping):
                return None
            if lock is None:
                lock = _held.locks[path] = SessionLock(path)
            lock.visited = True
        try:
            held = self.confirm(lock)
        except BaseException:
            _forget(lock)
            raise
        if held:
            return lock
        _forget(lock)
        return None

    def confirm(self, lock: SessionLock) -> bool:
        """Make sure the lock still counts; its file may have been removed with its directory.

        False = another took the session meanwhile. Raises ``OSError``. Blocks.
        """
        if lock.file is not None and lock.file.is_current():
            return True
        if lock.file is not None:
            lock.file.abandon()
        lock.file = self._files.take(lock.path)
        return lock.file is not None

    def holds(self, lock: SessionLock) -> bool:
        """Tell whether this process still holds ``lock`` in a visit; a forked child does not."""
        return lock.visited and _held.locks.get(lock.path) is lock

    def leave(self, lock: SessionLock) -> None:
        """End the visit; the lock is dropped on a worker. Never blocks."""
        self._end_visit(lock)
        drop = partial(self.drop, lock)

        def dropped(_: None, error: BaseException | None) -> None:
            if error is not None:
                _drop_aside(drop)

        if not self._workers.submit(drop, dropped):
            _drop_aside(drop)

    def leave_and_drop(self, lock: SessionLock) -> None:
        """End the visit and drop the lock on this thread. Blocks."""
        self._end_visit(lock)
        self.drop(lock)

    def drop(self, lock: SessionLock) -> None:
        """Give the lock back unless it was taken over in the meantime. Blocks."""
        with _held.changed:
            if lock.visited or lock.dropping or _held.locks.get(lock.path) is not lock:
                return
            lock.dropping = True
        try:
            if lock.file is not None:
                lock.file.release()
        finally:
            _forget(lock)

    def _end_visit(self, lock: SessionLock) -> None:
        with _held.changed:
            lock.visited = False


def _being_dropped(path: Path) -> bool:
    lock = _held.locks.get(path)
    return lock is not None and lock.dropping


def _forget(lock: SessionLock) -> None:
    with _held.changed:
        del _held.locks[lock.path]
        _held.changed.notify_all()


def _drop_aside(drop: Callable[[], None]) -> None:
    # The workers have no place or are closed, and a lock must not wait behind a blocked disk.
    try:
        threading.Thread(target=drop, name="resilient-ov-release", daemon=True).start()
    except RuntimeError:
        drop()
