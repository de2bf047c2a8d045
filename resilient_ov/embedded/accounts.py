"""Accounts, users and their keys.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import secrets
import sqlite3
from dataclasses import asdict, dataclass

from resilient_ov.domain.namespace import NamespacePolicy, settings_path
from resilient_ov.embedded.clock import now_iso, now_millis
from resilient_ov.embedded.errors import Json, already_exists, not_found

DEFAULT_ACCOUNT = "default"

_LEVEL_SETTINGS = -1
"""No level of a search: settings lie in the store and are never found or listed."""


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """Who a user key belongs to."""

    account: str
    user: str
    role: str


def create_account(
    db: sqlite3.Connection,
    account: str,
    admin_user: str,
    *,
    with_key: bool,
    policy: NamespacePolicy | None = None,
) -> str | None:
    """Create an account with its first admin; returns the admin's key, or None without keys."""
    if _account_row(db, account) is not None:
        raise already_exists("account", account, f"Account already exists: {account}")
    _insert(db, account, policy)
    return create_user(db, account, admin_user, "admin", with_key=with_key)


def create_user(
    db: sqlite3.Connection, account: str, user: str, role: str, *, with_key: bool
) -> str | None:
    """Create a user of an existing account; returns the key, or None without keys."""
    require_account(db, account)
    if _user_row(db, account, user) is not None:
        raise already_exists("user", user, f"User already exists: {user}")
    key = secrets.token_urlsafe(48) if with_key else None
    db.execute(
        "INSERT INTO users (account, user, role, key) VALUES (?, ?, ?, ?)",
        (account, user, role, key),
    )
    return key


def register(
    db: sqlite3.Connection,
    account: str,
    user: str | None,
    policy: NamespacePolicy | None = None,
) -> None:
    """Note an account and user that were vouched for; known ones stay as they are."""
    if _account_row(db, account) is None:
        _insert(db, account, policy)
    if user is not None:
        db.execute(
            "INSERT OR IGNORE INTO users (account, user, role) VALUES (?, ?, 'user')",
            (account, user),
        )


def _insert(db: sqlite3.Connection, account: str, policy: NamespacePolicy | None) -> None:
    """Add an account; on profile namespace with the settings it keeps for ever."""
    db.execute("INSERT INTO accounts (account, created_at) VALUES (?, ?)", (account, now_iso()))
    if policy is not None:
        settings = json.dumps({"namespace": asdict(policy)}, indent=2)
        db.execute(
            """INSERT INTO files (account, path, level, content, tags, tokens, updated_at)
               VALUES (?, ?, ?, ?, '[]', '', ?)""",
            (account, settings_path(account), _LEVEL_SETTINGS, settings, now_millis()),
        )


def policy_of(db: sqlite3.Connection, account: str) -> NamespacePolicy | None:
    """The policy in an account's settings, its only source; None = no account, or profile 0.5."""
    row = db.execute(
        "SELECT content FROM files WHERE account = ? AND path = ?",
        (account, settings_path(account)),
    ).fetchone()
    return None if row is None else NamespacePolicy(**json.loads(row["content"])["namespace"])


def owner_of_key(db: sqlite3.Connection, key: str) -> KeyOwner | None:
    """The user a key belongs to."""
    row = db.execute("SELECT account, user, role FROM users WHERE key = ?", (key,)).fetchone()
    return None if row is None else KeyOwner(row["account"], row["user"], row["role"])


def deletion_task(db: sqlite3.Connection, account: str, user: str) -> str | None:
    """The task that is deleting this identity or its account, if one is."""
    row = db.execute(
        """SELECT coalesce(a.deleting_task, u.deleting_task) AS task FROM accounts a
           LEFT JOIN users u ON u.account = a.account AND u.user = ? WHERE a.account = ?""",
        (user, account),
    ).fetchone()
    return None if row is None else row["task"]


def list_accounts(db: sqlite3.Connection) -> list[Json]:
    """Every account with its number of users, oldest first."""
    rows = db.execute(
        """SELECT account, created_at, deleting_task,
             (SELECT count(*) FROM users u WHERE u.account = a.account) AS users
           FROM accounts a ORDER BY created_at, account"""
    )
    return [_account_view(row) | policy_view(policy_of(db, row["account"])) for row in rows]


def policy_view(policy: NamespacePolicy | None) -> Json:
    """A policy as replies show it; nothing on profile 0.5, which has none."""
    return {} if policy is None else asdict(policy)


def get_account(db: sqlite3.Connection, account: str) -> Json:
    """One account in the form of the list."""
    require_account(db, account)
    return next(entry for entry in list_accounts(db) if entry["account_id"] == account)


def list_users(db: sqlite3.Connection, account: str) -> list[Json]:
    """The users of an account; their keys are shown where there are keys."""
    require_account(db, account)
    rows = db.execute(
        "SELECT user, role, key FROM users WHERE account = ? ORDER BY rowid", (account,)
    )
    return [
        {"user_id": row["user"], "role": row["role"]}
        | ({} if row["key"] is None else {"api_key": row["key"]})
        for row in rows
    ]


def require_account(db: sqlite3.Connection, account: str) -> None:
    """Raise 404 unless the account exists."""
    if _account_row(db, account) is None:
        raise not_found("account", account)


def require_user(db: sqlite3.Connection, account: str, user: str) -> None:
    """Raise 404 unless account and user exist."""
    require_account(db, account)
    if _user_row(db, account, user) is None:
        raise not_found("user", user)


def mark_deleting(db: sqlite3.Connection, account: str, user: str | None, task_id: str) -> None:
    """From now on the identity (with None: the whole account) is refused."""
    if user is None:
        db.execute("UPDATE accounts SET deleting_task = ? WHERE account = ?", (task_id, account))
    else:
        db.execute(
            "UPDATE users SET deleting_task = ? WHERE account = ? AND user = ?",
            (task_id, account, user),
        )


def remove(db: sqlite3.Connection, account: str, user: str | None) -> None:
    """Remove the user (with None: the account and all its users)."""
    if user is None:
        db.execute("DELETE FROM users WHERE account = ?", (account,))
        db.execute("DELETE FROM accounts WHERE account = ?", (account,))
    else:
        db.execute("DELETE FROM users WHERE account = ? AND user = ?", (account, user))


def _account_row(db: sqlite3.Connection, account: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM accounts WHERE account = ?", (account,)
    ).fetchone()
    return row


def _user_row(db: sqlite3.Connection, account: str, user: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM users WHERE account = ? AND user = ?", (account, user)
    ).fetchone()
    return row


def _account_view(row: sqlite3.Row) -> Json:
    return {
        "account_id": row["account"],
        "created_at": row["created_at"],
        "user_count": row["users"],
        "status": "active" if row["deleting_task"] is None else "deleting",
    }
