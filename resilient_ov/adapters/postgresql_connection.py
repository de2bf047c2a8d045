"""One connection to PostgreSQL through psycopg, whose waits end at our time.

Rule: the only module that knows the driver. An error of it is never chained to ours: its text may
show the address, the user or, when the DSN is malformed, the DSN itself.
"""

import select
import time
from collections.abc import Generator
from typing import Any, cast

import psycopg
from psycopg import conninfo

from resilient_ov.adapters.postgresql_database import DatabaseError, Dsn, Row, Values, word_of

_CONNECT_S = 2
"""The driver takes whole seconds, from two on."""
_LOCK_SHARE = 0.5
_READ, _WRITE = 1, 2


class _TimeUpError(psycopg.OperationalError):
    """A wait reached its time."""


class _DeadlineConnection(psycopg.Connection[Row]):
    """The driver's connection, waiting for its socket until ``until_s`` at the longest."""

    until_s: float = float("inf")

    def wait(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:  # noqa: ARG002 - the driver's signature
        """Drive the driver's generator; it yields what it waits for, as bits."""
        steps = cast("Generator[int, int, Any]", gen)
        try:
            need = next(steps)
            while True:
                need = steps.send(self._ready(need))
        except StopIteration as done:
            return done.value

    def _ready(self, need: int) -> int:
        poller = select.poll()
        events = (select.POLLIN if need & _READ else 0) | (select.POLLOUT if need & _WRITE else 0)
        poller.register(self.pgconn.socket, events)
        left_s = self.until_s - time.monotonic()
        found = poller.poll(min(left_s, 3600.0) * 1000) if left_s > 0 else []
        if not found:
            # What the server still answers belongs to nobody: this connection is over.
            self.pgconn.finish()
            raise _TimeUpError("time is up")
        told = found[0][1]
        writable = told & select.POLLOUT
        readable = told & ~select.POLLOUT
        return (_READ if readable else 0) | (_WRITE if writable else 0)


class PsycopgConnection:
    """Implements ``Connection``; each statement is its own transaction."""

    def __init__(self, inner: _DeadlineConnection) -> None:
        self._inner = inner

    def execute(self, statement: str, values: Values | None, until_s: float) -> list[Row]:
        """Run one statement; see ``Connection``."""
        self._inner.until_s = until_s
        problem, broken = "io", True
        try:
            cursor = self._inner.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []
        except _TimeUpError:
            problem = "late"
        except psycopg.Error as error:
            broken = self._inner.closed
            problem = "unreachable" if broken else word_of(error.sqlstate or "", "")
        raise DatabaseError(problem, broken=broken)

    def close(self) -> None:
        """Close it without a word to the server that could block."""
        self._inner.close()


def connected(dsn: Dsn, limit_s: float) -> PsycopgConnection:
    """Connect and let the server end what runs longer than ``limit_s``.

    Raises:
        DatabaseError: there is no connection.
    """
    try:
        parameters = conninfo.conninfo_to_dict(dsn.reveal())
    except psycopg.Error:
        parameters = None
    if parameters is None:
        raise DatabaseError("dsn", broken=True)
    limit_ms = max(1, int(limit_s * 1000))
    options = (
        f"{parameters.pop('options', None) or ''} -c statement_timeout={limit_ms}"
        f" -c lock_timeout={max(1, int(limit_ms * _LOCK_SHARE))}"
    )
    ours: dict[str, Any] = {
        "application_name": "resilient-ov",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": max(limit_ms, 1000),
        "keepalives_idle": 15,
        "connect_timeout": _CONNECT_S,
        **parameters,
        "options": options.strip(),
    }
    try:
        inner = _DeadlineConnection.connect(autocommit=True, prepare_threshold=None, **ours)
        return PsycopgConnection(inner)
    except psycopg.Error as error:
        problem = word_of(error.sqlstate, str(error))
    raise DatabaseError(problem, broken=True)
