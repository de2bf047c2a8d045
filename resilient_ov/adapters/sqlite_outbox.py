"""Secondary adapter (owned persistence): what waits to be stored, in one SQLite database.

Rule: nothing stays open between two operations. An open database must not pass through a fork, and
whoever closes it last empties the log, so that no text outlives its delivery. Every write is
durable when it returns.

    <storage_path>/openviking/
      outbox/outbox.sqlite3          mode 0600; *.corrupt-<n> = kept aside, at most 4
      outbox/outbox.sqlite3-wal,-shm only during an operation
      outbox/repair.lock             while a broken file is put aside
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from resilient_ov.adapters import sqlite_outbox_schema as schema
from resilient_ov.adapters.durable_files import make_directory, problem_of, sync_directory
from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.lock_file import LockFiles
from resilient_ov.adapters.outbox_parcel import UnreadableParcelError, pack, unpack
from resilient_ov.domain.ports import OutboxError, StateUnwritableError
from resilient_ov.domain.waiting import NOTHING_KEPT, Kept, OutboxDepth, Parcel

_PATIENCE_S: Final = 0.25
_AT_ONCE: Final = 64
_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
_KEPT_ASIDE: Final = 4
_SUFFIXES: Final = ("", "-wal")


class SqliteOutbox:
    """Implements ``Outbox`` under ``<storage_path>/openviking``.

    Nothing is touched before a method that blocks, and reading makes no file. A file that turns
    out to be broken is kept aside and a new one begun at the next ``keep``.

    Args:
        place: the folder ``<storage_path>/openviking``.
        owner: gives this process's token (blocks; may raise ``StateUnwritableError``).
        lives: tells whether the owner of a token lives (blocks).
    """

    durable = True

    def __init__(
        self, place: Path, *, owner: Callable[[], str], lives: Callable[[str], bool]
    ) -> None:
        self.file = place / "outbox" / "outbox.sqlite3"
        self._owner = owner
        self._lives = lives
        self._locks = LockFiles(lambda: None)
        self._mutex = threading.Lock()
        self._inside = False
        self._useless = False
        renew_after_fork(self)

    def keep(
        self, session_ids: Collection[str], waiting: Callable[[str], Parcel | None]
    ) -> OutboxDepth:
        """Make durable what waits of these sessions, all or none; see the port."""
        with self._turn():
            owner = self._me()
            with self._opened(make=True) as database, _change(database):
                for session_id in session_ids:
                    parcel = waiting(session_id)
                    packed = None if parcel is None else pack(parcel)
                    schema.put(database, owner, session_id, packed)
                return schema.depth(database)

    def adopt(self, take: Callable[[Parcel], Parcel | None]) -> int:
        """Take over some of what dead owners left, the longest waiting first; see the port."""
        with self._turn():
            if not self.file.exists():
                return 0
            owner = self._me()
            with self._opened() as database:
                dead = [
                    token
                    for token in schema.owners(database)
                    if token not in (owner, schema.NOBODY) and not self._lives(token)
                ]
                return self._adopted(database, owner, dead, take) if dead else 0

    def depth(self) -> OutboxDepth:
        """Return how much is kept in the whole place."""
        with self._turn():
            if not self.file.exists():
                return NOTHING_KEPT
            with self._opened() as database:
                return schema.depth(database)

    def entries(self) -> tuple[Kept, ...]:
        """Return every parcel without its text, the longest waiting first."""
        with self._turn():
            if not self.file.exists():
                return ()
            with self._opened() as database:
                return schema.entries(database)

    def erase(self, user: str) -> int:
        """Remove what dead owners left for a user of the server; return how many messages."""
        with self._turn():
            if not self.file.exists():
                return 0
            with self._opened() as database, _change(database):
                return sum(
                    schema.remove(database, parcel)
                    for parcel, owner in schema.of_user(database, user)
                    if owner == schema.NOBODY or not self._lives(owner)
                )

    def close(self) -> None:
        """Release nothing: nothing is held between two operations."""

    def renew(self) -> None:
        """Be ready in a forked child; called by ``forked``.

        A child that was forked in the middle of an operation has half an open database, and any
        other it opened would share its locks: it does without.
        """
        self._mutex = threading.Lock()
        self._useless = self._useless or self._inside
        self._inside = False

    def _me(self) -> str:
        try:
            return self._owner()
        except StateUnwritableError as error:
            raise OutboxError(error.problem) from error

    def _adopted(
        self,
        database: sqlite3.Connection,
        owner: str,
        dead: Sequence[str],
        take: Callable[[Parcel], Parcel | None],
    ) -> int:
        taken = taken_bytes = broken = 0
        with _change(database):
            for number, packed in schema.left_by(database, dead, _AT_ONCE):
                try:
                    left = unpack(packed)
                except UnreadableParcelError:
                    schema.disown(database, number)
                    broken += 1
                    continue
                parcel = take(left)
                if parcel is None:
                    break
                schema.remove(database, number)
                schema.put(database, owner, packed.session_id, pack(parcel))
                taken += 1
                taken_bytes += packed.text_bytes
                if taken_bytes > _AT_ONCE_BYTES:
                    break
        if broken and not taken:
            raise OutboxError("unreadable")
        return taken

    @contextmanager
    def _turn(self) -> Generator[None]:
        if self._useless:
            raise OutboxError("forked")
        mutex = self._mutex
        if not mutex.acquire(timeout=_PATIENCE_S):
            raise OutboxError("busy")
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            mutex.release()

    @contextmanager
    def _opened(self, *, make: bool = False) -> Generator[sqlite3.Connection]:
        opened: int | None = None
        try:
            if make:
                self._make()
            opened = os.stat(self.file).st_ino
            with closing(schema.connect(self.file, _PATIENCE_S)) as database:
                if not schema.prepare(database):
                    raise OutboxError("unreadable")
                yield database
        except OSError as error:
            raise OutboxError(problem_of(error)) from error
        except sqlite3.Error as error:
            problem = schema.problem_of(error)
            if problem == "unreadable" and opened is not None:
                self._keep_aside(opened)
            raise OutboxError(problem) from error

    def _make(self) -> None:
        """Make the file before the database does, because nobody else may read it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        if self.file.exists():
            return
        make_directory(self.file.parent)
        os.close(os.open(self.file, flags, 0o600))
        sync_directory(self.file.parent)

    def _keep_aside(self, opened: int) -> None:
        """Rename the broken file, unless somebody has done so already."""
        with suppress(OSError):
            lock = self._locks.take(self.file.with_name("repair.lock"))
            if lock is None:
                return
            try:
                if os.stat(self.file).st_ino == opened:
                    self._rename()
            finally:
                lock.release()

    def _rename(self) -> None:
        names = [self.file.with_name(f"{self.file.name}.corrupt-{n}") for n in range(_KEPT_ASIDE)]
        aside = next((name for name in names if not name.exists()), names[-1])
        # The log first: a new database must never meet the log of the old one.
        for suffix in reversed(_SUFFIXES):
            with suppress(FileNotFoundError):
                os.replace(f"{self.file}{suffix}", f"{aside}{suffix}")
        with suppress(FileNotFoundError):
            os.unlink(f"{self.file}-shm")


@contextmanager
def _change(database: sqlite3.Connection) -> Generator[None]:
    """Make one durable change of it all, and leave nothing of the old content in the log."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # a failed statement may have ended it already
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
    schema.empty_log(database)
