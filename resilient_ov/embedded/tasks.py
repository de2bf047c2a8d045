"""The durable task list: what the server still has to do, and what became of it.

Functions take the open connection and run inside the caller's transaction. A task keeps its id
over a restart; one that was running when the process died is pending again.
"""

import json
import sqlite3
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.embedded.bodies import TaskQuery
from resilient_ov.embedded.clock import to_iso
from resilient_ov.embedded.errors import ApiError, Json, failed_precondition, invalid_argument


class Status(StrEnum):
    """The states of the wire."""

    PENDING = "pending"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to do; session and archive only for `session_commit`."""

    account: str
    user: str
    task_type: str
    resource_id: str
    session: int | None = None
    archive: int | None = None


def create(db: sqlite3.Connection, new: NewTask) -> str:
    """Add a pending task; returns its id."""
    task_id = str(uuid.uuid4())
    now = time.time()
    db.execute(
        """INSERT INTO tasks (task_id, account, user, task_type, status, resource_id, session,
             archive, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            task_id,
            new.account,
            new.user,
            new.task_type,
            Status.PENDING.value,
            new.resource_id,
            new.session,
            new.archive,
            now,
            now,
        ),
    )
    _note_event(db, task_id, "created", Status.PENDING, now)
    return task_id


def set_status(
    db: sqlite3.Connection,
    task_id: str,
    status: Status,
    *,
    result: Json | None = None,
    error: str | None = None,
) -> None:
    """Move a task to a state."""
    now = time.time()
    db.execute(
        """UPDATE tasks SET status = ?, updated_at = ?, result = ?, error = ?,
             started_at = CASE WHEN ? = 'running' THEN ? ELSE started_at END WHERE task_id = ?""",
        (
            status.value,
            now,
            None if result is None else json.dumps(result),
            error,
            status.value,
            now,
            task_id,
        ),
    )
    _note_event(db, task_id, "status_changed", status, now)


def recover(db: sqlite3.Connection) -> None:
    """After a start: running tasks are pending again, those being cancelled are cancelled."""
    for before, after in (
        (Status.RUNNING, Status.PENDING),
        (Status.CANCELLING, Status.CANCELLED),
    ):
        rows = db.execute("SELECT task_id FROM tasks WHERE status = ?", (before.value,)).fetchall()
        for row in rows:
            set_status(db, row["task_id"], after)


def claim_ready(db: sqlite3.Connection) -> list[sqlite3.Row]:
    """Set tasks running that may start now: of one session only the oldest open one."""
    ready = db.execute(
        """SELECT * FROM tasks t WHERE status = 'pending' AND NOT EXISTS (
             SELECT 1 FROM tasks o WHERE o.session = t.session AND o.seq < t.seq
               AND o.status IN ('pending', 'running', 'cancelling')) ORDER BY seq"""
    ).fetchall()
    for row in ready:
        set_status(db, row["task_id"], Status.RUNNING)
    return ready


def get(db: sqlite3.Connection, task_id: str, owner: tuple[str, str] | None) -> sqlite3.Row:
    """A task of this (account, user), of anyone for None; 404 for everything else."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM tasks WHERE task_id = ?", (task_id,)
    ).fetchone()
    if row is None or (owner is not None and (row["account"], row["user"]) != owner):
        details = {"resource": task_id, "type": "task"}
        raise ApiError(404, "NOT_FOUND", "Task not found or expired", details)
    return row


def cancel(db: sqlite3.Connection, row: sqlite3.Row) -> Json:
    """Ask for the end of a task; 412 when it has ended."""
    status = Status(row["status"])
    if status in _ENDED:
        raise failed_precondition(f"Task is already {status.value}")
    set_status(db, row["task_id"], Status.CANCELLING)
    return view(get(db, row["task_id"], None))


def search(
    db: sqlite3.Connection, query: TaskQuery, owner: tuple[str, str] | None
) -> tuple[list[Json], str | None]:
    """The newest tasks that match, and the cursor of the next page if there is one."""
    filters = {
        "task_type": query.task_type,
        "resource_id": query.resource_id,
        "status": query.status,
        "account": owner[0] if owner else None,
        "user": owner[1] if owner else None,
    }
    used = {name: value for name, value in filters.items() if value is not None}
    below = _cursor_position(query.cursor)
    where = "".join(f" AND {name} = :{name}" for name in used)
    rows = db.execute(
        # Only the fixed column names above enter the text.
        f"SELECT * FROM tasks WHERE seq < :below{where} ORDER BY seq DESC LIMIT :limit",  # noqa: S608
        used | {"below": below, "limit": query.limit + 1},
    ).fetchall()
    page = rows[: query.limit]
    cursor = str(page[-1]["seq"]) if len(rows) > query.limit else None
    return [view(row) for row in page], cursor


def view(row: sqlite3.Row) -> Json:
    """A task as replies show it."""
    status = Status(row["status"])
    started = row["started_at"]
    until = row["updated_at"] if status in _ENDED else time.time()
    return {
        "task_id": row["task_id"],
        "task_type": row["task_type"],
        "status": status.value,
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "processing_seconds": None if started is None else until - started,
        "resource_id": row["resource_id"],
        "meta": {},
        "stage": status.value if status in _ENDED else None,
        "result": None if row["result"] is None else json.loads(row["result"]),
        "error": row["error"],
        "created_at_iso": to_iso(row["created_at"]),
        "updated_at_iso": to_iso(row["updated_at"]),
    }


def history(row: sqlite3.Row) -> Json:
    """The changes of state of a task, for `include_events`."""
    items = [
        {"seq": number, "stage": None, "operation": None, "error": None} | event
        for number, event in enumerate(json.loads(row["events"]), start=1)
    ]
    return {"items": items, "dropped_count": 0, "started_mid_task": False}


def _note_event(
    db: sqlite3.Connection, task_id: str, kind: str, status: Status, now: float
) -> None:
    event = {"recorded_at": to_iso(now), "kind": kind, "status": status.value}
    db.execute(
        "UPDATE tasks SET events = json_insert(events, '$[#]', json(?)) WHERE task_id = ?",
        (json.dumps(event), task_id),
    )


def _cursor_position(cursor: str | None) -> int:
    if cursor is None:
        return 2**62
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise invalid_argument("Invalid task cursor; reload the list")
    return int(cursor)
