"""The one SQLite database of an embedded server and the one thread that touches it.

Every unit of work is one transaction on that thread, so units never interleave: a batch or a
commit is all there or not at all. Write-ahead logging survives a killed process (not a power cut).
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from resilient_ov.settings.server import ServerProfile

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS server (profile TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS accounts (
  account TEXT PRIMARY KEY, created_at TEXT NOT NULL, deleting_task TEXT);
CREATE TABLE IF NOT EXISTS users (
  account TEXT NOT NULL, user TEXT NOT NULL, role TEXT NOT NULL, key TEXT UNIQUE,
  deleting_task TEXT, PRIMARY KEY (account, user));
CREATE TABLE IF NOT EXISTS sessions (
  id INTEGER PRIMARY KEY, account TEXT NOT NULL, owner TEXT NOT NULL, session_id TEXT NOT NULL,
  deleted INTEGER NOT NULL DEFAULT 0, created_by TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, last_message_at TEXT NOT NULL DEFAULT '',
  last_commit_at TEXT NOT NULL DEFAULT '', total_messages INTEGER NOT NULL DEFAULT 0,
  commits INTEGER NOT NULL DEFAULT 0, memories INTEGER NOT NULL DEFAULT 0,
  pending_tokens INTEGER NOT NULL DEFAULT 0, keep_recent INTEGER NOT NULL DEFAULT 0,
  policy TEXT NOT NULL DEFAULT 'null', extraction_config TEXT NOT NULL,
  user_ids TEXT NOT NULL DEFAULT '[]', agent_ids TEXT NOT NULL DEFAULT '[]');
CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_name
  ON sessions (account, owner, session_id) WHERE deleted = 0;
CREATE TABLE IF NOT EXISTS messages (
  seq INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  archive INTEGER NOT NULL DEFAULT 0, line TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS messages_by_archive ON messages (session, archive, seq);
CREATE TABLE IF NOT EXISTS archives (
  session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, number INTEGER NOT NULL,
  state TEXT NOT NULL, task_id TEXT NOT NULL, created_at TEXT NOT NULL,
  user TEXT NOT NULL, agent TEXT NOT NULL,
  PRIMARY KEY (session, number));
CREATE TABLE IF NOT EXISTS tasks (
  seq INTEGER PRIMARY KEY, task_id TEXT UNIQUE NOT NULL, account TEXT NOT NULL,
  user TEXT NOT NULL, task_type TEXT NOT NULL, status TEXT NOT NULL, resource_id TEXT NOT NULL,
  session INTEGER, archive INTEGER, created_at REAL NOT NULL, updated_at REAL NOT NULL,
  started_at REAL, result TEXT, error TEXT, events TEXT NOT NULL DEFAULT '[]');
CREATE INDEX IF NOT EXISTS tasks_by_resource ON tasks (account, resource_id, seq);
CREATE INDEX IF NOT EXISTS tasks_open ON tasks (status, seq);
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, account TEXT NOT NULL, path TEXT NOT NULL, owner_user TEXT,
  owner_agent TEXT, level INTEGER NOT NULL,
  content TEXT NOT NULL, tags TEXT NOT NULL, tokens TEXT NOT NULL, updated_at TEXT NOT NULL,
  UNIQUE (account, path));
CREATE VIRTUAL TABLE IF NOT EXISTS files_index
  USING fts5 (tokens, tokenize = "unicode61 remove_diacritics 0");
"""


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection to the database at a path (":memory:" for none), with the tables made."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _profile_of(connection: sqlite3.Connection, wanted: str) -> str:
    """The profile a database was made with; a new one takes the wanted one."""
    row = connection.execute("SELECT profile FROM server").fetchone()
    if row is None:
        connection.execute("INSERT INTO server (profile) VALUES (?)", (wanted,))
        return wanted
    return str(row["profile"])


class Database:
    """Opens, owns and closes the database; `call` may be used from any event loop or thread."""

    def __init__(self, data_dir: Path, profile: ServerProfile) -> None:
        """Open or make the database.

        Raises:
            RuntimeError: another server, alive, uses the folder, or it was made with another
                profile.
            OSError: the folder cannot be made or written.
            sqlite3.Error: the file in it is damaged or no database.

        """
        data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(data_dir / "embedded.lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RuntimeError(
                "data_dir: another embedded server uses it; stop it or name another folder"
            ) from None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-db")
        try:
            self._connection = self._thread.submit(connect, data_dir / "embedded.sqlite3").result()
        except BaseException:
            self._thread.shutdown()
            self._lock.release()
            raise
        made_with = self._thread.submit(_profile_of, self._connection, profile.value).result()
        if made_with != profile.value:
            self.close()
            raise RuntimeError(
                f"data_dir: it was made with profile {made_with}, and the profiles store sessions"
                f" and memories differently; serve profile {made_with} or name another folder"
            )

    async def call(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run one unit of work as one transaction.

        A unit that began runs to its end even when the caller is cancelled: like a server whose
        client went away.
        """
        future = self._thread.submit(self._transaction, unit)
        return await asyncio.wrap_future(future)

    def _transaction(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = unit(self._connection)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return result

    def close(self) -> None:
        """Finish the units that were handed in and close; call it once."""
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()
        self._lock.release()
