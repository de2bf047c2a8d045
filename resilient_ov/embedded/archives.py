"""Commits: live messages become an archive with an extraction task, all in one transaction.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Callable
from enum import StrEnum

from resilient_ov.domain.namespace import archive_name, archive_number
from resilient_ov.embedded import sessions, tasks
from resilient_ov.embedded.clock import now_millis
from resilient_ov.embedded.errors import Json, not_found_short, unimplemented
from resilient_ov.embedded.lines import keep_newest
from resilient_ov.embedded.sessions import LIVE, SessionKey


class ArchiveState(StrEnum):
    """How far the extraction of an archive is."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


def commit(
    db: sqlite3.Connection, key: SessionKey, keep_recent: int, uri_of: Callable[[str], str]
) -> Json:
    """Archive all live messages but the newest `keep_recent`; 404 when there is no session.

    Safe to repeat: with nothing left to archive the answer is `skipped`. A session with several
    users or agents is 501 and stays as it is: whose memory it becomes is not defined. `uri_of`
    gives the address of the archive of a name.
    """
    row = sessions.require(db, key)
    owners = sessions.participants(row)
    if owners.is_mixed:
        raise unimplemented("Commit of a session with more than one participant user or agent")
    live = sessions.live_count(db, row["id"])
    if live == 0:
        return _skipped(key.session_id, "no_messages")
    if live <= keep_recent:
        budget = {"estimated_active_tokens": 0, "budget_exceeded": False}
        return _skipped(key.session_id, "all_within_keep_window") | budget
    number = _newest_number(db, row["id"]) + 1
    task_id = tasks.create(
        db,
        tasks.NewTask(key.account, key.user, "session_commit", key.session_id, row["id"], number),
    )
    now = now_millis()
    db.execute(
        """UPDATE messages SET archive = ? WHERE session = ? AND archive = ? AND seq IN (
             SELECT seq FROM messages WHERE session = ? AND archive = ? ORDER BY seq LIMIT ?)""",
        (number, row["id"], LIVE, row["id"], LIVE, live - keep_recent),
    )
    db.execute(
        """INSERT INTO archives (session, number, state, task_id, created_at, user, agent)
           VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (
            row["id"],
            number,
            ArchiveState.PENDING.value,
            task_id,
            now,
            next(iter(owners.user_ids), key.user),
            next(iter(owners.agent_ids), key.agent),
        ),
    )
    db.execute(
        """UPDATE sessions SET commits = commits + 1, last_commit_at = ?, updated_at = ?,
             pending_tokens = 0, keep_recent = ? WHERE id = ?""",
        (now, now, keep_recent, row["id"]),
    )
    return {
        "session_id": key.session_id,
        "status": "accepted",
        "task_id": task_id,
        "archive_uri": uri_of(archive_name(number)),
        "archived": True,
        "effective_enable_working_memory": False,
        "trace_id": "",
        "estimated_active_tokens": 0,
        "budget_exceeded": False,
    }


def listing(db: sqlite3.Connection, session: int) -> list[sqlite3.Row]:
    """The archives of a session, oldest first."""
    return db.execute(
        "SELECT number, state, created_at FROM archives WHERE session = ? ORDER BY number",
        (session,),
    ).fetchall()


def memory_owner(db: sqlite3.Connection, session: int, number: int) -> tuple[str, str]:
    """User and agent whose memory an archive becomes; they were fixed by its commit."""
    row = db.execute(
        "SELECT user, agent FROM archives WHERE session = ? AND number = ?", (session, number)
    ).fetchone()
    return row["user"], row["agent"]


def set_state(db: sqlite3.Connection, session: int, number: int, state: ArchiveState) -> None:
    """Note how the extraction ended."""
    db.execute(
        "UPDATE archives SET state = ? WHERE session = ? AND number = ?",
        (state.value, session, number),
    )


def read(db: sqlite3.Connection, key: SessionKey, archive_id: str) -> Json:
    """One archive whose extraction is done; every other state is 404."""
    row = sessions.find(db, key)
    number = archive_number(archive_id)
    states = (
        {} if row is None else {each["number"]: each["state"] for each in listing(db, row["id"])}
    )
    if row is None or number is None or states.get(number) != ArchiveState.DONE:
        raise not_found_short(f"Archive {archive_id} not found")
    lines = sessions.message_lines(db, row["id"], number)
    return {
        "archive_id": archive_id,
        "abstract": "",
        "overview": "",
        "messages": [json.loads(line["line"]) for line in lines],
    }


def context(db: sqlite3.Connection, row: sqlite3.Row, budget_tokens: int) -> Json:
    """Messages of archives that are not extracted yet, then the live ones, cut to the budget.

    No proof of absence: what does not fit is left out.
    """
    archives = listing(db, row["id"])
    states = [archive["state"] for archive in archives]
    open_numbers = [a["number"] for a in archives if a["state"] == ArchiveState.PENDING]
    messages = [
        (json.loads(line["line"]), line["tokens"])
        for number in [*open_numbers, LIVE]
        for line in sessions.message_lines(db, row["id"], number)
    ]
    kept = keep_newest(messages, budget_tokens)
    kept_ids = {message["id"] for message in kept}
    used = sum(tokens for message, tokens in messages if message["id"] in kept_ids)
    active = min(used, budget_tokens)
    failed = states.count(ArchiveState.FAILED)
    return {
        "latest_archive_overview": "",
        "pre_archive_abstracts": [],
        "messages": kept,
        "estimatedTokens": active,
        "stats": {
            "totalArchives": len(states),
            "includedArchives": 0,
            "droppedArchives": len(states) - failed,
            "failedArchives": failed,
            "activeTokens": active,
            "archiveTokens": 0,
        },
    }


def _newest_number(db: sqlite3.Connection, session: int) -> int:
    number: int = db.execute(
        "SELECT coalesce(max(number), 0) FROM archives WHERE session = ?", (session,)
    ).fetchone()[0]
    return number


def _skipped(session_id: str, reason: str) -> Json:
    return {
        "session_id": session_id,
        "status": "skipped",
        "task_id": None,
        "archive_uri": None,
        "archived": False,
        "effective_enable_working_memory": False,
        "reason": reason,
        "trace_id": "",
    }
