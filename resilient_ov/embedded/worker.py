"""Does the tasks: extraction of committed archives and deletion of identities.

One loop starts every task that may run; tasks of one session run in order, of different sessions
side by side. The end of a task and its effect are one transaction, so a killed process neither
loses nor repeats an effect.
"""

import asyncio
import json
import logging
import sqlite3
from contextlib import suppress

from resilient_ov.domain.namespace import NamespacePolicy, VikingUri, archive_name
from resilient_ov.embedded import accounts, archives, extraction, files, sessions, tasks
from resilient_ov.embedded.archives import ArchiveState
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.database import Database
from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.tasks import Status

_log = logging.getLogger(__name__)


class Worker:
    """Runs tasks on one event loop, from `start` to `stop`."""

    def __init__(self, database: Database, layout: Layout, *, delay_s: float) -> None:
        self._database = database
        self._layout = layout
        self._delay_s = delay_s
        self._wake = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up what an earlier process left and begin."""
        await self._database.call(tasks.recover)
        self._wake.set()
        self._loop = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End at once; unfinished tasks are taken up at the next start."""
        own = [self._loop, *self._running.values()]
        for task in own:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in own if task is not None), return_exceptions=True)

    def notify(self) -> None:
        """There may be a new task."""
        self._wake.set()

    async def cancel(self, task_id: str) -> None:
        """End a task that was set to cancelling, running or not."""
        running = self._running.pop(task_id, None)
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        await self._database.call(lambda db: _end_cancelled(db, task_id))
        self.notify()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for row in await self._database.call(tasks.claim_ready):
                self._running[row["task_id"]] = asyncio.create_task(self._do(row))

    async def _do(self, row: sqlite3.Row) -> None:
        task_id = row["task_id"]
        await asyncio.sleep(self._delay_s)
        try:
            await self._database.call(lambda db: self._finish(db, row))
        except Exception as error:  # noqa: BLE001 -- a task that fails is told, whatever it was
            _log.warning("task of type %s failed: %s", row["task_type"], type(error).__name__)
            reason = str(error)
            await self._database.call(lambda db: _end_failed(db, row, reason))
        self._running.pop(task_id, None)
        self.notify()

    def _finish(self, db: sqlite3.Connection, row: sqlite3.Row) -> None:
        if row["task_type"] == "session_commit":
            result = self._extract(db, row)
        else:
            result = _delete_identity(db, row)
        tasks.set_status(db, row["task_id"], Status.COMPLETED, result=result)
        if row["session"] is not None:
            sessions.purge_deleted(db, row["session"])

    def _extract(self, db: sqlite3.Connection, row: sqlite3.Row) -> Json:
        session = db.execute("SELECT * FROM sessions WHERE id = ?", (row["session"],)).fetchone()
        policy: Json = json.loads(session["policy"]) or {}
        types = policy.get("memory_types", list(sessions.MEMORY_TYPES))
        lines = sessions.message_lines(db, row["session"], row["archive"])
        found = extraction.extract((json.loads(line["line"]) for line in lines), types=types)
        kept = [memory for memory in found if _is_enabled(policy, memory)]
        caller = self._owner(db, row)
        event_tags = json.loads(session["extraction_config"]).get("events", {}).get("tags", [])
        written = [self._remember(db, caller, memory, event_tags) for memory in kept]
        if written:
            files.renew_notes(db, self._layout.shelf(caller), written)
        archives.set_state(db, row["session"], row["archive"], ArchiveState.DONE)
        db.execute(
            "UPDATE sessions SET memories = memories + ? WHERE id = ?", (len(kept), session["id"])
        )
        name, archive = session["session_id"], archive_name(row["archive"])
        archive_uri = self._layout.session_uri(caller, name, "history", archive)
        diff_uri = self._layout.session_uri(caller, name, "history", archive, "memory_diff.json")
        where = {"session_id": name, "archive_uri": archive_uri, "memory_diff_uri": diff_uri}
        return where | _extraction_result(len(kept), types)

    def _owner(self, db: sqlite3.Connection, row: sqlite3.Row) -> Caller:
        """Whose memory the archive of a task becomes."""
        user, agent = archives.memory_owner(db, row["session"], row["archive"])
        policy = accounts.policy_of(db, row["account"]) or NamespacePolicy()
        return Caller(Role.USER, row["account"], user, agent=agent, policy=policy)

    def _remember(
        self, db: sqlite3.Connection, caller: Caller, memory: Memory, event_tags: list[str]
    ) -> VikingUri:
        """Put one memory; returns where."""
        uri = self._layout.memory_uri(caller, memory)
        shelf = self._layout.shelf(caller)
        text = memory.text
        if memory.category == "profile":
            old = files.read(db, shelf, uri)
            text = extraction.merge_profile("" if old is None else old["content"], text)
        tags = [f"memory_type={memory.category}"]
        if memory.category == "events":
            tags += event_tags
        files.write(db, shelf, uri, text, tags)
        return uri


def _is_enabled(policy: Json, memory: Memory) -> bool:
    section = "self" if memory.peer is None else "peer"
    enabled: bool = policy.get(section, {}).get("enabled", True)
    return enabled


def _extraction_result(written: int, types: list[str]) -> Json:
    none_used = {"total_tokens": 0, "cached_tokens": 0, "reasoning_tokens": 0}
    llm_used = {"prompt_tokens": 0, "completion_tokens": 0} | none_used
    return {
        "memories_extracted": {"memory_write": written} if written else {},
        "session_skills_extracted": 0,
        "session_skill_uris": [],
        "memory_extraction": {"skipped": 0, "skipped_operations": []},
        "usage_events_extracted": 0,
        "effective_memory_types": sorted(types),
        "agent_evolution_enabled": False,
        "agent_memory_skip_reason": "agent_evolution_disabled",
        "token_usage": {
            "llm": llm_used,
            "embedding": {"total_tokens": 0},
            "total": none_used,
        },
    }


def _delete_identity(db: sqlite3.Connection, row: sqlite3.Row) -> Json:
    account, user = row["account"], row["user"]
    if row["task_type"] == "user_delete":
        files.delete_owned(db, account, user)
        db.execute("DELETE FROM sessions WHERE account = ? AND owner = ?", (account, user))
        accounts.remove(db, account, user)
        return {"account_id": account, "user_id": user}
    files.delete_owned(db, account, None)
    db.execute("DELETE FROM sessions WHERE account = ?", (account,))
    accounts.remove(db, account, None)
    return {"account_id": account}


def _end_failed(db: sqlite3.Connection, row: sqlite3.Row, reason: str) -> None:
    tasks.set_status(db, row["task_id"], Status.FAILED, error=reason)
    _close_archive(db, row)


def _end_cancelled(db: sqlite3.Connection, task_id: str) -> None:
    row = tasks.get(db, task_id, None)
    if Status(row["status"]) is Status.CANCELLING:
        tasks.set_status(db, task_id, Status.CANCELLED)
        _close_archive(db, row)


def _close_archive(db: sqlite3.Connection, row: sqlite3.Row) -> None:
    if row["session"] is not None:
        archives.set_state(db, row["session"], row["archive"], ArchiveState.FAILED)
        sessions.purge_deleted(db, row["session"])
