"""A few connections to one PostgreSQL database, shared by the threads of one process.

Rule: every statement is one transaction, may be run again, and ends at its time. What goes wrong
is a closed word; no text of the driver, which may show the address or the DSN, leaves this file.

A pool of our own, because a caller must hear at once, and in a word, why there is no connection:
psycopg_pool tries again behind its back and lets it wait. The driver is loaded by the first
statement, on the thread that runs it: that takes a third of a second.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from resilient_ov.adapters.forked import renew_after_fork

Row = tuple[object, ...]
Values = Mapping[str, object]

_IDLE_MAX = 4
_IDLE_S = 60.0

# SQLSTATE, whole or its class, in the order of the look -> the closed word for the operator.
_WORDS = {
    "42P01": "schema_missing",
    "42501": "denied",
    "25006": "read_only",
    "53100": "no_space",
    "55P03": "locked",
    "57014": "late",
    "08": "unreachable",
    "28": "denied",
    "53": "unreachable",
    "57": "unreachable",
}
# The connection's own words: no state is told before it stands.
_REFUSED = re.compile(
    r"authentication failed|no pg_hba\.conf entry|no password supplied"
    r"|role \"[^\"]*\" (does not exist|is not permitted)|permission denied",
)


class DatabaseError(Exception):
    """A statement failed; ``problem`` is a closed word, ``broken`` = its connection is lost."""

    def __init__(self, problem: str, *, broken: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.broken = broken


class Dsn:
    """The address of a database with its credentials; does not show itself."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return it for the one place that connects."""
        return self._text

    def __repr__(self) -> str:
        return "Dsn(<set>)"


class Connection(Protocol):
    """One connection; used by one thread at a time."""

    def execute(self, statement: str, values: Values | None, until_s: float) -> list[Row]:
        """Run one statement and return its rows.

        Raises:
            DatabaseError: it failed, or ``until_s`` (monotonic) passed.
        """
        ...

    def close(self) -> None:
        """Close it; never raises."""
        ...


Connect = Callable[[Dsn, float], Connection]


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: Connection
    since_s: float


def word_of(sqlstate: str | None, text: str) -> str:
    """Return the closed word for what the database or the driver said."""
    if sqlstate is None:
        return "denied" if _REFUSED.search(text) else "unreachable"
    return _WORDS.get(sqlstate) or _WORDS.get(sqlstate[:2], "io")


def _connect(dsn: Dsn, limit_s: float) -> Connection:
    from resilient_ov.adapters.postgresql_connection import connected

    return connected(dsn, limit_s)


class Database:
    """Runs statements. Safe from any thread and in a forked child; all methods but ``close`` block.

    Args:
        dsn: where it is.
        limit_s: bound of one statement; a new connection may need two seconds more.
        on_connected: run with each new connection before its first use; may raise.
        connect: makes a connection.
    """

    def __init__(
        self,
        dsn: Dsn,
        *,
        limit_s: float,
        on_connected: Callable[[Connection, float], None] = lambda _connection, _until_s: None,
        connect: Connect = _connect,
    ) -> None:
        self.limit_s = limit_s
        self._dsn = dsn
        self._on_connected = on_connected
        self._connect = connect
        self._parents: list[_Idle] = []
        self._idle: list[_Idle] = []
        self._start_anew()
        renew_after_fork(self)

    def run(self, statement: str, values: Values | None = None) -> list[Row]:
        """Run a statement that may be run twice; return its rows.

        A connection that turns out to be lost is replaced once.

        Raises:
            DatabaseError: it failed, or did not end in time; it may still end on the server.
        """
        until_s = time.monotonic() + self.limit_s
        connection = self._from_idle()
        if connection is not None:
            try:
                return self._run_on(connection, statement, values, until_s)
            except DatabaseError as error:
                if not error.broken or time.monotonic() >= until_s:
                    raise
            # Whatever cut one connection has cut those that rest beside it.
            self.close()
        return self._run_on(self._new(until_s), statement, values, until_s)

    def close(self) -> None:
        """Close the connections that rest; the next statement opens new ones."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for rest in idle:
            rest.connection.close()

    def renew(self) -> None:
        """Leave the parent's connections alone in a forked child; called by ``forked``."""
        self._parents += self._idle
        self._start_anew()

    def _start_anew(self) -> None:
        self._mutex = threading.Lock()
        self._connecting = threading.Lock()
        self._idle = []
        self._tried = 0
        self._failed: str | None = None

    def _run_on(
        self, connection: Connection, statement: str, values: Values | None, until_s: float
    ) -> list[Row]:
        try:
            rows = connection.execute(statement, values, until_s)
        except DatabaseError as error:
            if error.broken:
                connection.close()
            else:
                self._to_idle(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._to_idle(connection)
        return rows

    def _from_idle(self) -> Connection | None:
        while True:
            with self._mutex:
                rest = self._idle.pop() if self._idle else None
            if rest is None:
                return None
            if time.monotonic() - rest.since_s < _IDLE_S:
                return rest.connection
            # What rests for long may have been forgotten by a firewall, which is not told.
            rest.connection.close()

    def _to_idle(self, connection: Connection) -> None:
        with self._mutex:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append(_Idle(connection, time.monotonic()))
                return
        connection.close()

    def _new(self, until_s: float) -> Connection:
        """Connect, one thread at a time; those that waited share the failure of the one."""
        tried = self._tried
        if not self._connecting.acquire(timeout=max(0.0, until_s - time.monotonic())):
            raise DatabaseError("unreachable", broken=True)
        try:
            if self._tried != tried and self._failed is not None:
                raise DatabaseError(self._failed, broken=True)
            self._failed = "unreachable"
            try:
                connection = self._connect(self._dsn, self.limit_s)
                self._prepared(connection)
            except DatabaseError as error:
                self._failed = error.problem
                raise
            finally:
                self._tried += 1
            self._failed = None
            return connection
        finally:
            self._connecting.release()

    def _prepared(self, connection: Connection) -> None:
        try:
            self._on_connected(connection, time.monotonic() + self.limit_s)
        except BaseException:
            connection.close()
            raise
