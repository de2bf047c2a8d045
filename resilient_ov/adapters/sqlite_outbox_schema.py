"""What the outbox's database looks like, and the statements on it.

Rule: a text is in ``message`` only and exactly once per owner; ``parcel`` may be shown to anybody.
What is deleted is overwritten.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from resilient_ov.adapters.outbox_parcel import Packed
from resilient_ov.domain.waiting import Kept, OutboxDepth

_VERSION: Final = 1
NOBODY: Final = "unreadable"
"""The owner of what nobody can read."""
_LOG_PATIENCE_MS: Final = 20
_TABLES: Final = """
CREATE TABLE life (generation TEXT NOT NULL);
CREATE TABLE parcel (
  number INTEGER PRIMARY KEY, owner TEXT NOT NULL, session TEXT NOT NULL, user TEXT NOT NULL,
  since TEXT NOT NULL, messages INTEGER NOT NULL, bytes INTEGER NOT NULL, shape BLOB NOT NULL
);
CREATE INDEX parcel_by_owner ON parcel (owner, session);
CREATE TABLE message (
  parcel INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (parcel, name)
);
"""
_PROBLEMS: Final = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_FULL: "no_space",
    sqlite3.SQLITE_READONLY: "denied",
    sqlite3.SQLITE_PERM: "denied",
    sqlite3.SQLITE_CANTOPEN: "denied",
    sqlite3.SQLITE_CORRUPT: "unreadable",
    sqlite3.SQLITE_NOTADB: "unreadable",
    sqlite3.SQLITE_ERROR: "unreadable",  # a table is missing: our own statements are right
}


def problem_of(error: sqlite3.Error) -> str:
    """Return the closed word for the operator."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR)
    return _PROBLEMS.get(code & 0xFF, "io")


def connect(file: Path, patience_s: float) -> sqlite3.Connection:
    """Open the database, which exists."""
    return sqlite3.connect(
        f"file:{_quoted(file)}?mode=rw",
        uri=True,
        timeout=patience_s,
        isolation_level=None,
        cached_statements=0,
    )


def prepare(database: sqlite3.Connection) -> bool:
    """Make it durable, silent about what is gone, and of our shape; False = a newer version's."""
    for pragma in ("synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY"):
        database.execute(f"PRAGMA {pragma}")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        _create(database)
    return int(version) <= _VERSION


def empty_log(database: sqlite3.Connection) -> None:
    """Bring everything from the log into the database and cut the log to nothing.

    Another process that is just reading may prevent the cut; then whoever comes next does it.
    """
    database.execute(f"PRAGMA busy_timeout = {_LOG_PATIENCE_MS}")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def put(database: sqlite3.Connection, owner: str, session_id: str, packed: Packed | None) -> None:
    """Replace what an owner keeps of a session; only texts that are new are written."""
    numbers = [
        number
        for (number,) in database.execute(
            "SELECT number FROM parcel WHERE owner = ? AND session = ? ORDER BY number",
            (owner, session_id),
        )
    ]
    for number in numbers if packed is None else numbers[1:]:
        remove(database, number)
    if packed is None:
        return
    content = (packed.user, packed.since_utc, len(packed.texts), packed.text_bytes, packed.order)
    if numbers:
        number = numbers[0]
        database.execute(
            "UPDATE parcel SET user = ?, since = ?, messages = ?, bytes = ?, shape = ?"
            " WHERE number = ?",
            (*content, number),
        )
    else:
        number = database.execute(
            "INSERT INTO parcel (user, since, messages, bytes, shape, owner, session)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*content, owner, session_id),
        ).lastrowid
    held = {
        name for (name,) in database.execute("SELECT name FROM message WHERE parcel = ?", (number,))
    }
    database.executemany(
        "DELETE FROM message WHERE parcel = ? AND name = ?",
        [(number, name) for name in held - packed.texts.keys()],
    )
    database.executemany(
        "INSERT INTO message (parcel, name, body) VALUES (?, ?, ?)",
        [(number, name, body) for name, body in packed.texts.items() if name not in held],
    )


def remove(database: sqlite3.Connection, number: int) -> int:
    """Remove a parcel; return how many messages it had."""
    database.execute("DELETE FROM parcel WHERE number = ?", (number,))
    return database.execute("DELETE FROM message WHERE parcel = ?", (number,)).rowcount


def disown(database: sqlite3.Connection, number: int) -> None:
    """Leave a parcel to nobody: it cannot be read."""
    database.execute("UPDATE parcel SET owner = ? WHERE number = ?", (NOBODY, number))


def owners(database: sqlite3.Connection) -> tuple[str, ...]:
    """Return whose parcels there are."""
    return tuple(owner for (owner,) in database.execute("SELECT DISTINCT owner FROM parcel"))


def left_by(
    database: sqlite3.Connection, dead: Sequence[str], most: int
) -> Iterator[tuple[int, Packed]]:
    """Give the parcels of these owners with their numbers, the longest waiting first."""
    marks = ", ".join("?" * len(dead))
    found = database.execute(
        "SELECT number, session, user, since, shape FROM parcel"  # noqa: S608 - question marks
        f" WHERE owner IN ({marks}) ORDER BY since, number LIMIT ?",
        (*dead, most),
    ).fetchall()
    for number, session_id, user, since, shape in found:
        texts = database.execute("SELECT name, body FROM message WHERE parcel = ?", (number,))
        yield (
            number,
            Packed(
                session_id=session_id,
                user=user,
                since_utc=since,
                order=shape,
                texts=dict(texts.fetchall()),
            ),
        )


def of_user(database: sqlite3.Connection, user: str) -> list[tuple[int, str]]:
    """Return number and owner of every parcel of a user."""
    return database.execute("SELECT number, owner FROM parcel WHERE user = ?", (user,)).fetchall()


def entries(database: sqlite3.Connection) -> tuple[Kept, ...]:
    """Return every parcel without its text, the longest waiting first."""
    return tuple(
        Kept(
            owner=owner,
            session_id=session_id,
            messages=messages,
            text_bytes=text_bytes,
            since_utc=since,
        )
        for owner, session_id, messages, text_bytes, since in database.execute(
            "SELECT owner, session, messages, bytes, since FROM parcel ORDER BY since, number"
        )
    )


def depth(database: sqlite3.Connection) -> OutboxDepth:
    """Return how much there is."""
    sessions, messages, text_bytes, since = database.execute(
        "SELECT count(*), total(messages), total(bytes), min(since) FROM parcel"
    ).fetchone()
    (generation,) = database.execute("SELECT generation FROM life").fetchone()
    return OutboxDepth(
        sessions=sessions,
        messages=int(messages),
        text_bytes=int(text_bytes),
        since_utc=since,
        generation=generation,
    )


def _create(database: sqlite3.Connection) -> None:
    # Before the first table, or it has no effect.
    database.execute("PRAGMA auto_vacuum = FULL")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    if database.execute("PRAGMA user_version").fetchone() == (0,):
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute("INSERT INTO life VALUES (?)", (os.urandom(8).hex(),))
        database.execute(f"PRAGMA user_version = {_VERSION}")
    database.execute("COMMIT")


def _quoted(file: Path) -> str:
    return str(file).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
