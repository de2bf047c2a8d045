"""Secondary adapter (owned persistence): what is known to be stored, in one file per session.

Rule: a file is replaced, never changed; a decision never rests on a clock, a file's age or a
process id.

    <storage_path>/openviking/
      sessions/<session_id>.json            the state; *.corrupt-<n> = kept aside, at most 4
      sessions/<session_id>.json.<token>.tmp  only during a save
      pending/<session_id>                  empty; something to settle or commit
      locks/<session_id>.lock               only during a visit
      owners/<token>.lock                   while that process lives
      sweeper.lock                          while somebody leads
"""

import os
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from resilient_ov.adapters import lock_file
from resilient_ov.adapters.durable_files import create_empty, problem_of, replace_file
from resilient_ov.adapters.lock_file import LockFile, LockFiles
from resilient_ov.adapters.owners import Owners, is_token
from resilient_ov.adapters.session_lock import SessionLock, SessionLocks
from resilient_ov.adapters.watermark_file import UnreadableStateError, decode, encode
from resilient_ov.domain.ports import Dice, Loaded, StateUnwritableError, Workers
from resilient_ov.domain.watermark import Watermark

_SESSION_ID = re.compile(r"[a-z0-9_]{1,64}")
_KEPT_ASIDE = 4
_CLOSE_S = 0.5


class FileWatermarkStore:
    """Implements ``WatermarkStore`` under ``<storage_path>/openviking``.

    Nothing is touched before a method that blocks. Directories (mode 0700) and files (0600) are
    made when they are missing, at any time; a place that becomes writable again is used again.

    Args:
        storage_path: folder of the host, absolute; may not exist yet.
        dice: makes owner tokens.
        workers: where locks are dropped, so that leaving a visit never blocks.
        on_lock_missing: called once when the file system has no locks; then only the visits
            inside this process exclude each other, and every other owner counts as alive.

    Raises:
        ValueError: ``storage_path`` is relative.
    """

    def __init__(
        self,
        storage_path: Path,
        *,
        dice: Dice,
        workers: Workers,
        on_lock_missing: Callable[[], None],
    ) -> None:
        if not storage_path.is_absolute():
            # The state would move when the host changes its directory.
            raise ValueError("storage_path: must be absolute")
        self.place = storage_path / "openviking"
        self._lock_files = LockFiles(on_lock_missing)
        self.owners = Owners(self.place, self._lock_files, dice.token)
        self._locks = SessionLocks(self.place / "locks", self._lock_files, workers)
        self._persistent = True

    @property
    def lock_missing(self) -> bool:
        """True once the file system turned out to have no locks."""
        return self._lock_files.missing

    def session(self, session_id: str) -> AbstractContextManager["FileSessionUnit"]:
        """Return a visit; nothing is done before its ``open``.

        Raises:
            ValueError: the id is not ``[a-z0-9_]{1,64}``.
        """
        if not _SESSION_ID.fullmatch(session_id):
            raise ValueError("a session id is 1 to 64 characters of a-z, 0-9 and _")
        return FileSessionUnit(self, self._locks, session_id)

    def owner(self) -> str:
        """Return this process's token; its life is visible to others (blocks).

        Raises:
            StateUnwritableError: the mark of life cannot be made.
        """
        try:
            return self.owners.token()
        except OSError as error:
            raise self.failed(error) from error

    def owner_lives(self, token: str) -> bool:
        """Tell whether the process with that token lives (blocks)."""
        return self.owners.lives(token)

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of sessions with something to settle or commit, sorted (blocks).

        Raises:
            StateUnwritableError: the markers cannot be read.
        """
        try:
            names = os.listdir(self.place / "pending")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self.failed(error) from error
        return tuple(sorted(filter(_SESSION_ID.fullmatch, names)))

    def lead(self) -> bool:
        """Be, or stay, the one sweeper of this place (blocks, never waits)."""
        return self.owners.lead()

    def persistent(self) -> bool:
        """Tell whether the last attempt to write succeeded."""
        return self._persistent

    def lock_works(self) -> bool:
        """Tell whether a lock here keeps another process out, by starting one (blocks).

        Raises:
            OSError: the file or the child process could not be made.
        """
        return lock_file.lock_works(self.place)

    def probe(self) -> None:
        """Write, replace and remove a file as a save does (blocks).

        Raises:
            StateUnwritableError: a save would fail now.
        """
        target = self.place / "sessions" / f"probe.{self.owner()}"
        try:
            replace_file(target, target.with_suffix(".tmp"), b"{}", durable=True)
            os.unlink(target)
        except OSError as error:
            raise self.failed(error) from error
        self.succeeded()

    def close(self) -> None:
        """Release the owner's marks, within half a second; idempotent.

        Visits that are open keep their locks. A blocked disk keeps the marks until the process
        ends, and with it their locks do.
        """
        closer = threading.Thread(target=self.owners.close, name="resilient-ov-close", daemon=True)
        try:
            closer.start()
        except RuntimeError:
            # No thread starts any more while the interpreter ends.
            self.owners.close()
        else:
            closer.join(_CLOSE_S)

    def failed(self, error: OSError) -> StateUnwritableError:
        """Remember a failed attempt and return the error to raise."""
        self._persistent = False
        return StateUnwritableError(problem_of(error))

    def succeeded(self) -> None:
        """Remember a successful write."""
        self._persistent = True


class FileSessionUnit:
    """One visit; see ``SessionUnit``. A visit that was left while a method runs ends with it."""

    def __init__(self, store: FileWatermarkStore, locks: SessionLocks, session_id: str) -> None:
        self._store = store
        self._locks = locks
        self._session_id = session_id
        self._path = store.place / "sessions" / f"{session_id}.json"
        self._marker = store.place / "pending" / session_id
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._running = False
        self._left = False
        self._lock: SessionLock | None = None
        self._last: Watermark | None = None

    def __enter__(self) -> "FileSessionUnit":
        """Return the visit; nothing is done."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the visit; never blocks."""
        # The mutex of a visit that was forked away may be held by a thread that does not exist.
        if os.getpid() != self._process:
            return
        with self._mutex:
            self._left = True
            lock = None if self._running else self._lock
            if lock is not None:
                self._lock = None
        if lock is not None:
            self._locks.leave(lock)

    def open(self) -> Loaded | None:
        """Take the session's lock without waiting and load the state; None = held by another.

        Raises:
            StateUnwritableError: the place of the state cannot be used.
            NewerStateError: the state belongs to a newer version.
        """
        if self._lock is not None:
            raise RuntimeError("the visit is open already")
        if not self._begin():
            return None
        loaded: Loaded | None = None
        try:
            token = self._store.owner()
            self._lock = self._locks.take(self._session_id)
            if self._lock is not None:
                self._clean_after_the_dead(self._lock.taken, token)
                loaded = self._load()
        except OSError as error:
            raise self._store.failed(error) from error
        finally:
            self._end(keep=loaded is not None)
        return loaded

    def save(self, watermark: Watermark) -> None:
        """Make the state durable before returning; the marker of unfinished work with it.

        One revision higher than the last; nothing is written if only the revision differs.

        Raises:
            StateUnwritableError: nothing changed; after a failed sync of the directory, the
                last step, the new state may be seen by a later load.
        """
        if not self._begin():
            raise RuntimeError("a save needs a visit that was not left")
        try:
            if self._lock is None or not self._locks.holds(self._lock):
                raise RuntimeError("a save needs a visit whose open returned a state")
            self._save(self._lock, watermark)
        except OSError as error:
            raise self._store.failed(error) from error
        finally:
            self._end(keep=True)

    def _begin(self) -> bool:
        if os.getpid() != self._process:
            raise RuntimeError("a visit does not survive a fork")
        with self._mutex:
            if self._left:
                return False
            if self._running:
                raise RuntimeError("the methods of a visit run one at a time")
            self._running = True
            return True

    def _end(self, *, keep: bool) -> None:
        with self._mutex:
            self._running = False
            lock = None if keep and not self._left else self._lock
            if lock is not None:
                self._lock = None
        if lock is not None:
            self._locks.leave_and_drop(lock)

    def _load(self) -> Loaded:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._last = None
        else:
            try:
                self._last = decode(data, self._session_id)
            except UnreadableStateError:
                self._keep_aside()
                self._last = None
                return Loaded(watermark=None, repaired=True)
        if self._last is None or not self._last.unfinished:
            # A kill may have come between the last save and the removal.
            self._remove_marker()
        return Loaded(watermark=self._last)

    def _clean_after_the_dead(self, file: LockFile, token: str) -> None:
        # A full disk or an old file system may refuse the note; then only a leftover stays unseen.
        with suppress(OSError):
            previous = file.note().decode("ascii", "replace")
            if is_token(previous) and previous != token and not self._store.owner_lives(previous):
                os.unlink(self._temporary(previous))
        with suppress(OSError):
            file.write_note(token.encode())

    def _keep_aside(self) -> None:
        names = [self._path.with_name(f"{self._path.name}.corrupt-{n}") for n in range(_KEPT_ASIDE)]
        free = (name for name in names if not name.exists())
        os.replace(self._path, next(free, names[-1]))

    def _save(self, lock: SessionLock, watermark: Watermark) -> None:
        last = self._last
        if last is not None and watermark == replace(last, revision=watermark.revision):
            return
        if not self._locks.confirm(lock):
            raise BlockingIOError("the lock was removed from outside and taken by another")
        saved = replace(watermark, revision=1 if last is None else last.revision + 1)
        if saved.unfinished and not self._marker.exists():
            create_empty(self._marker)
        temporary = self._temporary(self._store.owner())
        replace_file(self._path, temporary, encode(saved), durable=True)
        self._last = saved
        self._store.succeeded()
        if not saved.unfinished:
            self._remove_marker()

    def _remove_marker(self) -> None:
        # A marker that stays costs one more look at the session, nothing else.
        with suppress(OSError):
            os.unlink(self._marker)

    def _temporary(self, token: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{token}.tmp")
