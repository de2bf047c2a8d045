"""Sessions and their live messages.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import secrets
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from resilient_ov.domain.namespace import Participants
from resilient_ov.embedded.clock import now_millis
from resilient_ov.embedded.errors import Json, already_exists, invalid_argument, not_found
from resilient_ov.embedded.lines import Said, store_form

MEMORY_TYPES = ("entities", "events", "identity", "preferences", "profile", "soul")
LIVE = 0
"""The archive number of messages that no commit has taken yet."""

_POLICY_KEYS = ("memory_types", "peer", "self", "working_memory")
_DEFAULT_EXTRACTION: Json = {"events": {"tags": []}}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What a session is found by: tenant, owner (by the layout), name; and who asks for it."""

    account: str
    owner: str
    session_id: str
    user: str
    agent: str = ""


def new_session_id() -> str:
    """An id for a session that the caller did not name."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(8)}"


def find(db: sqlite3.Connection, key: SessionKey) -> sqlite3.Row | None:
    """The session's row, or None."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM sessions WHERE account = ? AND owner = ? AND session_id = ? AND deleted = 0",
        (key.account, key.owner, key.session_id),
    ).fetchone()
    return row


def require(db: sqlite3.Connection, key: SessionKey) -> sqlite3.Row:
    """The session's row, or 404 in the form of commit and delete."""
    row = find(db, key)
    if row is None:
        raise not_found("session", key.session_id)
    return row


def ensure(db: sqlite3.Connection, key: SessionKey) -> sqlite3.Row:
    """The session's row, made when it is missing."""
    row = find(db, key)
    if row is None:
        create(db, key, policy=None, extraction=None)
        row = require(db, key)
    return row


def create(
    db: sqlite3.Connection, key: SessionKey, *, policy: Json | None, extraction: Json | None
) -> None:
    """Create a session; 409 when it exists."""
    if find(db, key) is not None:
        text = f"Session '{key.session_id}' already exists"
        raise already_exists("resource", text, f"Resource already exists: {text}")
    now = now_millis()
    db.execute(
        """INSERT INTO sessions (account, owner, session_id, created_by, created_at, updated_at,
             policy, extraction_config) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            key.account,
            key.owner,
            key.session_id,
            key.user,
            now,
            now,
            json.dumps(policy),
            json.dumps(extraction or _DEFAULT_EXTRACTION),
        ),
    )


def configure(db: sqlite3.Connection, key: SessionKey, extraction: Json) -> sqlite3.Row:
    """Replace the extraction settings; returns the new row, 404 when there is no session."""
    row = require(db, key)
    db.execute(
        "UPDATE sessions SET extraction_config = ?, updated_at = ? WHERE id = ?",
        (json.dumps(extraction), now_millis(), row["id"]),
    )
    return require(db, key)


def delete(db: sqlite3.Connection, key: SessionKey) -> None:
    """Delete a session; 404 when there is none.

    Messages of an archive whose extraction has not ended stay until it has: what was committed
    is still remembered.
    """
    row = require(db, key)
    db.execute("UPDATE sessions SET deleted = 1 WHERE id = ?", (row["id"],))
    purge_deleted(db, row["id"])


def purge_deleted(db: sqlite3.Connection, session: int) -> None:
    """Remove a deleted session once no extraction of it is open."""
    db.execute(
        """DELETE FROM sessions WHERE id = ? AND deleted = 1 AND NOT EXISTS (
             SELECT 1 FROM tasks t WHERE t.session = sessions.id
               AND t.status IN ('pending', 'running', 'cancelling'))""",
        (session,),
    )


def list_all(db: sqlite3.Connection, account: str, owner: str) -> list[sqlite3.Row]:
    """The owner's sessions, the last changed first."""
    return db.execute(
        """SELECT session_id, updated_at FROM sessions
           WHERE account = ? AND owner = ? AND deleted = 0 ORDER BY updated_at DESC, id DESC""",
        (account, owner),
    ).fetchall()


def add_messages(db: sqlite3.Connection, key: SessionKey, messages: list[Said]) -> Json:
    """Append messages, making the session when it is missing; nothing is deduplicated."""
    row = ensure(db, key)
    stored = [store_form(message, key.session_id) for message in messages]
    joined = participants(row)
    for said in messages:
        joined = joined.joined_by(said.message.role, said.actor)
    db.executemany(
        "INSERT INTO messages (session, line, tokens) VALUES (?, ?, ?)",
        [(row["id"], line, tokens) for line, tokens in stored],
    )
    if stored:
        now = now_millis()
        db.execute(
            """UPDATE sessions SET total_messages = total_messages + ?, updated_at = ?,
                 pending_tokens = pending_tokens + ?, last_message_at = ?, user_ids = ?,
                 agent_ids = ? WHERE id = ?""",
            (
                len(stored),
                now,
                sum(tokens for _, tokens in stored),
                now,
                json.dumps(joined.user_ids),
                json.dumps(joined.agent_ids),
                row["id"],
            ),
        )
    return {
        "session_id": key.session_id,
        "message_count": live_count(db, row["id"]),
        "added": len(stored),
        "pending_tokens": require(db, key)["pending_tokens"],
    }


def participants(row: sqlite3.Row) -> Participants:
    """Who said something in the session so far."""
    return Participants(
        user_ids=tuple(json.loads(row["user_ids"])), agent_ids=tuple(json.loads(row["agent_ids"]))
    )


def live_count(db: sqlite3.Connection, session: int) -> int:
    """How many messages no commit has taken."""
    count: int = db.execute(
        "SELECT count(*) FROM messages WHERE session = ? AND archive = ?", (session, LIVE)
    ).fetchone()[0]
    return count


def message_lines(
    db: sqlite3.Connection, session: int, archive: int, offset: int = 0, limit: int = -1
) -> list[sqlite3.Row]:
    """Lines and tokens of the live messages or of one archive, in order."""
    return db.execute(
        """SELECT line, tokens FROM messages WHERE session = ? AND archive = ?
           ORDER BY seq LIMIT ? OFFSET ?""",
        (session, archive, limit, offset),
    ).fetchall()


def stored_bytes(db: sqlite3.Connection, session: int, archive: int) -> int:
    """Size of the live messages or of one archive as a JSON-lines file."""
    size: int = db.execute(
        """SELECT coalesce(sum(length(CAST(line AS BLOB)) + 1), 0) FROM messages
           WHERE session = ? AND archive = ?""",
        (session, archive),
    ).fetchone()[0]
    return size


def check_policy(policy: Json | None) -> Json | None:
    """The memory policy with its defaults filled in; 400 for unknown keys and types."""
    if policy is None:
        return None
    if set(policy) - set(_POLICY_KEYS):
        raise invalid_argument(f"memory_policy supports only: {', '.join(_POLICY_KEYS)}")
    sent_types: Any = policy.get("memory_types", list(MEMORY_TYPES))
    if not isinstance(sent_types, list):
        raise invalid_argument("memory_policy.memory_types must be a list")
    types = [str(name) for name in cast(list[object], sent_types)]
    unknown = sorted(set(types) - set(MEMORY_TYPES))
    if unknown:
        raise invalid_argument(f"Unknown memory_policy.memory_types: {', '.join(unknown)}")
    return {
        "self": {"enabled": _enabled(policy, "self", default=True)},
        "peer": {"enabled": _enabled(policy, "peer", default=True)},
        "working_memory": {"enabled": _enabled(policy, "working_memory", default=False)},
        "memory_types": sorted(types),
    }


def _enabled(policy: Json, name: str, *, default: bool) -> bool:
    section: Any = policy.get(name, {})
    fields = cast(Json, section) if isinstance(section, dict) else {"enabled": None}
    value: Any = fields.get("enabled", default)
    if not isinstance(value, bool):
        raise invalid_argument(f'memory_policy.{name} must be {{"enabled": true|false}}')
    return value
