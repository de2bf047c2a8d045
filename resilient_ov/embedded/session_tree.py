"""Sessions as directories: live messages, archives and, where sessions are shared, tools and meta.

Functions take the open connection and run inside the caller's transaction.
"""

import json
import sqlite3
from dataclasses import dataclass

from resilient_ov.domain.namespace import (
    HISTORY,
    MESSAGES_FILE,
    META_FILE,
    TOOLS,
    InvalidUriError,
    VikingUri,
    archive_name,
    archive_number,
)
from resilient_ov.embedded import archives, session_views, sessions
from resilient_ov.embedded.auth import Caller
from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.files import Entry, listing_order
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.lines import tool_calls
from resilient_ov.embedded.sessions import LIVE, SessionKey


@dataclass(frozen=True, slots=True)
class SessionTree:
    """The sessions one caller sees under one layout; `inside` is what follows their directory."""

    layout: Layout
    caller: Caller

    def children(
        self, db: sqlite3.Connection, uri: VikingUri, inside: tuple[str, ...]
    ) -> list[Entry]:
        """What a directory among the sessions shows; nothing for what is none."""
        if not inside:
            return self._sessions(db, uri)
        row = self._find(db, inside[0])
        if row is None:
            return []
        match inside[1:]:
            case ():
                return self._session(db, uri, row)
            case ("history",):
                return [
                    _directory(uri.child(archive_name(each["number"])), each["created_at"])
                    for each in archives.listing(db, row["id"])
                ]
            case ("history", name):
                number = _existing_archive(db, row, name)
                return [] if number is None else [_messages(db, uri, row, number)]
            case ("tools",) if self.layout.shares_sessions:
                changed_at = row["updated_at"]
                return [
                    _file(uri.child(tool_id), _tool_text(part), changed_at)
                    for tool_id, part in sorted(self._tools(db, row).items())
                ]
            case _:
                return []

    def read(
        self, db: sqlite3.Connection, inside: tuple[str, ...], offset: int, limit: int
    ) -> str | None:
        """Lines of a file among the sessions, or None; `limit` -1 = to the end."""
        row = self._find(db, inside[0]) if inside else None
        if row is None:
            return None
        match inside[1:]:
            case ("messages.jsonl",):
                number: int | None = LIVE
            case ("history", name, "messages.jsonl"):
                number = _existing_archive(db, row, name)
            case (".meta.json",) if self.layout.shares_sessions:
                return cut(session_views.meta_file(db, row), offset, limit)
            case ("tools", tool_id) if self.layout.shares_sessions:
                part = self._tools(db, row).get(tool_id)
                return None if part is None else cut(_tool_text(part), offset, limit)
            case _:
                number = None
        if number is None:
            return None
        lines = sessions.message_lines(db, row["id"], number, offset, limit)
        return "".join(f"{line['line']}\n" for line in lines)

    def _find(self, db: sqlite3.Connection, session_id: str) -> sqlite3.Row | None:
        owner = self.layout.session_owner(self.caller)
        key = SessionKey(self.caller.account, owner, session_id, self.caller.user)
        return sessions.find(db, key)

    def _sessions(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        owner = self.layout.session_owner(self.caller)
        rows = sessions.list_all(db, self.caller.account, owner)
        found = [
            _directory(child, row["updated_at"])
            for row in rows
            if (child := _child_or_none(uri, row["session_id"])) is not None
        ]
        return sorted(found, key=listing_order)

    def _session(self, db: sqlite3.Connection, uri: VikingUri, row: sqlite3.Row) -> list[Entry]:
        changed_at = row["updated_at"]
        found = [_directory(uri.child(HISTORY), changed_at), _messages(db, uri, row, LIVE)]
        if self.layout.shares_sessions:
            found.append(_directory(uri.child(TOOLS), changed_at))
            found.append(_file(uri.child(META_FILE), session_views.meta_file(db, row), changed_at))
        return sorted(found, key=listing_order)

    def _tools(self, db: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Json]:
        """The last part of each tool call of the session."""
        lines = db.execute(
            "SELECT line FROM messages WHERE session = ? ORDER BY seq", (row["id"],)
        ).fetchall()
        found: dict[str, Json] = {}
        for line in lines:
            found |= tool_calls(json.loads(line["line"]))
        return found


def cut(text: str, offset: int, limit: int) -> str:
    """Lines of a text from `offset` on, at most `limit` (-1: all)."""
    if offset == 0 and limit == -1:
        return text
    lines = text.splitlines(keepends=True)
    return "".join(lines[offset:] if limit == -1 else lines[offset : offset + limit])


def _directory(uri: VikingUri, changed_at: str) -> Entry:
    return Entry(uri, is_directory=True, size=0, changed_at=changed_at)


def _file(uri: VikingUri, text: str, changed_at: str) -> Entry:
    return Entry(uri, is_directory=False, size=len(text.encode()), changed_at=changed_at)


def _messages(db: sqlite3.Connection, directory: VikingUri, row: sqlite3.Row, number: int) -> Entry:
    size = sessions.stored_bytes(db, row["id"], number)
    uri = directory.child(MESSAGES_FILE)
    return Entry(uri, is_directory=False, size=size, changed_at=row["updated_at"])


def _tool_text(part: Json) -> str:
    return json.dumps(part, ensure_ascii=False, indent=2)


def _existing_archive(db: sqlite3.Connection, row: sqlite3.Row, name: str) -> int | None:
    number = archive_number(name)
    known = {each["number"] for each in archives.listing(db, row["id"])}
    return number if number in known else None


def _child_or_none(uri: VikingUri, name: str) -> VikingUri | None:
    """An id that no address can hold is not shown in a listing."""
    try:
        return uri.child(name)
    except InvalidUriError:
        return None
