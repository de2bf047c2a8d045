"""Secondary adapter (owned persistence): what is known to be stored, in PostgreSQL.

Rule: a visit is a row that names its holder and a fence that grows at each visit; it counts while
the holder's lease runs, by the database's clock. Every save checks the fence, the lease and the
revision in the statement that writes, so whoever wakes up late changes nothing. Nothing is held
on a connection: a broken one, a pooler or a failover costs a retry and no lock.
"""

import os
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

from resilient_ov.adapters import postgresql_schema
from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.postgresql_database import Database, DatabaseError, Dsn, Row
from resilient_ov.adapters.postgresql_lease import Lease
from resilient_ov.adapters.watermark_file import UnreadableStateError, decode, encode
from resilient_ov.domain.ports import Dice, Loaded, StateUnwritableError, Workers
from resilient_ov.domain.watermark import Watermark

_T = TypeVar("_T")

_SESSION_ID = re.compile(r"[a-z0-9_]{1,64}")
_CLOSE_S = 0.5
_SPARE_S = 12.0
_LEAST_LIMIT_S, _MOST_LIMIT_S = 0.25, 5.0

# A row that names ourselves is free: who has it in this process is known here, not there.
_TAKE = """
    WITH mine AS (SELECT 1 FROM resilient_ov_owners
        WHERE token = %(me)s AND lease_until > clock_timestamp()), taken AS (
        INSERT INTO resilient_ov_sessions AS s (session_id, fence, holder)
        SELECT %(id)s, 1, %(me)s FROM mine
        ON CONFLICT (session_id) DO UPDATE SET fence = s.fence + 1, holder = %(me)s
        WHERE s.holder IS NULL OR s.holder = %(me)s OR NOT EXISTS (
            SELECT 1 FROM resilient_ov_owners o
            WHERE o.token = s.holder AND o.lease_until > clock_timestamp())
        RETURNING s.fence, s.revision, s.state)
    SELECT EXISTS (SELECT 1 FROM mine), taken.*
    FROM (SELECT 1) AS always LEFT JOIN taken ON true"""
# The second form of the revision is a save that is run again and had happened already.
_SAVE = """
    UPDATE resilient_ov_sessions
    SET state = %(state)s, revision = %(revision)s, unfinished = %(unfinished)s
    WHERE session_id = %(id)s AND fence = %(fence)s AND holder = %(me)s
        AND (revision = %(before)s OR (revision = %(revision)s AND state = %(state)s))
        AND EXISTS (SELECT 1 FROM resilient_ov_owners
        WHERE token = %(me)s AND lease_until > clock_timestamp())
    RETURNING 1"""
_SET_ASIDE = """
    WITH aside AS (
        INSERT INTO resilient_ov_kept_aside (session_id, state)
        SELECT session_id, state FROM resilient_ov_sessions
        WHERE session_id = %(id)s AND fence = %(fence)s AND state IS NOT NULL
            AND (SELECT count(*) FROM resilient_ov_kept_aside k WHERE k.session_id = %(id)s) < 4)
    UPDATE resilient_ov_sessions SET state = NULL, revision = 0, unfinished = false
    WHERE session_id = %(id)s AND fence = %(fence)s"""
_LEAVE = """
    UPDATE resilient_ov_sessions SET holder = NULL
    WHERE session_id = %(id)s AND fence = %(fence)s AND holder = %(me)s"""
_UNFINISHED = "SELECT session_id FROM resilient_ov_sessions WHERE unfinished"
_LEAD = """
    INSERT INTO resilient_ov_leader AS l (token)
    SELECT token FROM resilient_ov_owners
    WHERE token = %(me)s AND lease_until > clock_timestamp()
    ON CONFLICT (one) DO UPDATE SET token = %(me)s
    WHERE l.token = %(me)s OR NOT EXISTS (
        SELECT 1 FROM resilient_ov_owners o
        WHERE o.token = l.token AND o.lease_until > clock_timestamp())
    RETURNING 1"""
# No state has this name, for it has a dot in it; the removal is a statement of its own.
_PROBE = """
    INSERT INTO resilient_ov_sessions (session_id, fence, state) VALUES (%(id)s, 1, '{}')
    ON CONFLICT (session_id) DO UPDATE SET fence = resilient_ov_sessions.fence + 1"""
_PROBED = "DELETE FROM resilient_ov_sessions WHERE session_id = %(id)s"


@dataclass(frozen=True, slots=True)
class _Visit:
    """One visit as the database knows it."""

    session_id: str
    fence: int
    owner: str


class PostgresqlWatermarkStore:
    """Implements ``WatermarkStore`` on the tables of ``postgresql_schema``.

    Nothing is connected before a method that blocks.

    Args:
        dsn: where the database is.
        dice: makes owner tokens.
        workers: where visits are given back, so that leaving one never blocks.
        write_s: the longest deadline of a write.
        settle_s: the time between two looks that prove a batch absent.
        spare_s: how much longer than both a lease is.
        database: in the place of one that connects to ``dsn``.
    """

    def __init__(
        self,
        dsn: Dsn,
        *,
        dice: Dice,
        workers: Workers,
        write_s: float,
        settle_s: float,
        spare_s: float = _SPARE_S,
        database: Database | None = None,
    ) -> None:
        # Half of a write, so that the reason of a failure is known before the write is over.
        limit_s = min(_MOST_LIMIT_S, max(_LEAST_LIMIT_S, write_s / 2))
        self.database = database or Database(
            dsn, limit_s=limit_s, on_connected=postgresql_schema.check
        )
        self.lease = Lease(
            self.database,
            dice.token,
            needed_s=write_s + settle_s,
            spare_s=spare_s,
            on_beat=self._give_back_owed,
        )
        self._workers = workers
        self._persistent = True
        self.renew()
        renew_after_fork(self)

    def session(self, session_id: str) -> AbstractContextManager["PostgresqlSessionUnit"]:
        """Return a visit; nothing is done before its ``open``.

        Raises:
            ValueError: the id is not ``[a-z0-9_]{1,64}``.
        """
        if not _SESSION_ID.fullmatch(session_id):
            raise ValueError("a session id is 1 to 64 characters of a-z, 0-9 and _")
        return PostgresqlSessionUnit(self, session_id)

    def owner(self) -> str:
        """Return this process's token; its life is visible to others (blocks).

        Raises:
            StateUnwritableError: the lease cannot be had.
        """
        return self.tried(self.lease.token)

    def owner_lives(self, token: str) -> bool:
        """Tell whether the lease of the process with that token runs (blocks).

        Raises:
            StateUnwritableError: it cannot be told.
        """
        return self.tried(lambda: self.lease.lives(token))

    def owned_until_s(self) -> float:
        """Return until when (monotonic) what is held is certainly ours; never blocks."""
        return self.lease.end_s(self.lease.current)

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of sessions with something to settle or commit, sorted (blocks).

        Raises:
            StateUnwritableError: they cannot be read.
        """
        rows = self.tried(lambda: self.database.run(_UNFINISHED))
        return tuple(sorted(str(row[0]) for row in rows))

    def lead(self) -> bool:
        """Be, or stay, the one sweeper of this database; False also when it cannot be reached."""
        try:
            return bool(self.database.run(_LEAD, {"me": self.lease.token()}))
        except DatabaseError:
            # Without a database there is no sweeper; every save says why.
            return False

    def persistent(self) -> bool:
        """Tell whether the last attempt to write succeeded."""
        return self._persistent

    def probe(self) -> None:
        """Write and remove a row as a save does (blocks).

        Raises:
            StateUnwritableError: a save would fail now.
        """
        row = {"id": f"probe.{self.owner()}"}
        self.tried(lambda: self.database.run(_PROBE, row))
        self.tried(lambda: self.database.run(_PROBED, row))
        self._persistent = True

    def close(self) -> None:
        """End the owner's life, within half a second; idempotent.

        Visits that are open keep their sessions until they are left, at most for a lease.
        """
        closer = threading.Thread(target=self._close, name="resilient-ov-close", daemon=True)
        try:
            closer.start()
        except RuntimeError:
            # No thread starts any more while the interpreter ends.
            self._close()
        else:
            closer.join(_CLOSE_S)

    def renew(self) -> None:
        """Hold nothing in a forked child; called by ``forked``."""
        self._mutex = threading.Lock()
        self._open: dict[str, PostgresqlSessionUnit] = {}
        self._owed: list[_Visit] = []
        self._closing = False

    def tried(self, run: Callable[[], _T]) -> _T:
        """Run what asks the database; its failure is told in the words of the port."""
        try:
            return run()
        except DatabaseError as error:
            self._persistent = False
            # A row is locked for the moment of a statement only: whose takes longer hangs.
            problem = "late" if error.problem == "locked" else error.problem
        # Outside of the handler, so that nothing of the driver hangs on to it.
        raise StateUnwritableError(problem)

    # -- for the visits --------------------------------------------------------------------

    def enter(self, unit: "PostgresqlSessionUnit", session_id: str) -> bool:
        """Be the one visit of a session in this process; False = there is one."""
        with self._mutex:
            return self._open.setdefault(session_id, unit) is unit

    def take(self, session_id: str) -> tuple[_Visit, int, str | None] | None:
        """Take a session; return the visit, the revision and the state. None = held by another."""
        for _ in range(2):
            me = self.lease.token()
            try:
                (row,) = self.database.run(_TAKE, {"id": session_id, "me": me})
            except DatabaseError as error:
                if error.problem == "locked":
                    return None
                raise
            if row[0]:
                return _taken(row, session_id, me)
            self.lease.lost(me)
        raise DatabaseError("lease")

    def write(self, visit: _Visit, before: int, watermark: Watermark) -> None:
        """Save a state under the fence of its visit."""
        written = self.database.run(
            _SAVE,
            {
                "id": visit.session_id,
                "fence": visit.fence,
                "me": visit.owner,
                "before": before,
                "revision": watermark.revision,
                "state": encode(watermark).decode("ascii"),
                "unfinished": watermark.unfinished,
            },
        )
        if not written:
            raise DatabaseError("taken_over")
        self._persistent = True

    def set_aside(self, visit: _Visit) -> None:
        """Keep a state that cannot be read where nobody uses it."""
        self.database.run(_SET_ASIDE, {"id": visit.session_id, "fence": visit.fence})

    def leave(self, unit: "PostgresqlSessionUnit", session_id: str, visit: _Visit | None) -> None:
        """End a visit; what is held is given back on a worker. Never blocks."""
        with self._mutex:
            if self._open.get(session_id) is unit:
                del self._open[session_id]
            if visit is None:
                return
            self._owed.append(visit)
        if not self._workers.submit(self._give_back_owed, lambda _result, _error: None):
            self.lease.hurry()

    def _give_back_owed(self) -> None:
        """Give back every session that was left; what cannot be, at the next beat."""
        with self._mutex:
            owed, self._owed = self._owed, []
        failed: list[_Visit] = []
        for visit in owed:
            try:
                self.database.run(
                    _LEAVE, {"id": visit.session_id, "fence": visit.fence, "me": visit.owner}
                )
            except DatabaseError:
                failed.append(visit)
        with self._mutex:
            # A lease that ended gave its sessions back already.
            self._owed += [visit for visit in failed if visit.owner == self.lease.current]
            last = self._closing and not self._open
        if last:
            self._end_lease()

    def _close(self) -> None:
        with self._mutex:
            self._closing = True
            visited = bool(self._open)
        self._give_back_owed()
        if not visited:
            self._end_lease()
        self.database.close()

    def _end_lease(self) -> None:
        with self._mutex:
            self._closing = False
        with suppress(DatabaseError):  # it runs out by itself
            self.lease.end()
        self.database.close()


class PostgresqlSessionUnit:
    """One visit; see ``SessionUnit``. A visit that was left while a method runs ends with it."""

    def __init__(self, store: PostgresqlWatermarkStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._running = False
        self._left = False
        self._visit: _Visit | None = None
        self._last: Watermark | None = None
        self._revision = 0

    def __enter__(self) -> "PostgresqlSessionUnit":
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
            if self._running:
                return
            visit, self._visit = self._visit, None
        if visit is not None:
            self._store.leave(self, self._session_id, visit)

    def open(self) -> Loaded | None:
        """Take the session without waiting and load the state; None = held by another.

        Raises:
            StateUnwritableError: the database cannot be used.
            NewerStateError: the state belongs to a newer version.
        """
        if self._visit is not None:
            raise RuntimeError("the visit is open already")
        if not self._begin():
            return None
        loaded: Loaded | None = None
        entered = False
        try:
            entered = self._store.enter(self, self._session_id)
            if entered:
                loaded = self._store.tried(self._load)
        finally:
            self._end(keep=loaded is not None, entered=entered)
        return loaded

    def save(self, watermark: Watermark) -> None:
        """Make the state durable before returning; the mark of unfinished work with it.

        One revision higher than the last; nothing is written if only the revision differs.

        Raises:
            StateUnwritableError: nothing changed; after ``late`` and ``unreachable`` the new state
                may be seen by a later load. ``taken_over``: the session is another owner's.
        """
        if not self._begin():
            raise RuntimeError("a save needs a visit that was not left")
        try:
            visit = self._visit
            if visit is None:
                raise RuntimeError("a save needs a visit whose open returned a state")
            last = self._last
            if last is not None and watermark == replace(last, revision=watermark.revision):
                return
            saved = replace(watermark, revision=self._revision + 1)
            self._store.tried(lambda: self._store.write(visit, self._revision, saved))
            self._last, self._revision = saved, saved.revision
        finally:
            self._end(keep=True, entered=True)

    def _load(self) -> Loaded | None:
        taken = self._store.take(self._session_id)
        if taken is None:
            return None
        self._visit, self._revision, state = taken
        if state is None:
            self._last = None
            return Loaded(watermark=None)
        try:
            self._last = decode(state.encode(), self._session_id)
        except UnreadableStateError:
            self._store.set_aside(self._visit)
            self._last, self._revision = None, 0
            return Loaded(watermark=None, repaired=True)
        return Loaded(watermark=self._last)

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

    def _end(self, *, keep: bool, entered: bool) -> None:
        with self._mutex:
            self._running = False
            if keep and not self._left:
                return
            visit, self._visit = self._visit, None
        if entered:
            self._store.leave(self, self._session_id, visit)


def _taken(row: Row, session_id: str, me: str) -> tuple[_Visit, int, str | None] | None:
    _, fence, revision, state = row
    if fence is None:
        return None
    if not (isinstance(fence, int) and isinstance(revision, int)):
        raise DatabaseError("io")
    visit = _Visit(session_id=session_id, fence=fence, owner=me)
    return visit, revision, state if isinstance(state, str) else None
