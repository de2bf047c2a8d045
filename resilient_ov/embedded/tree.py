"""The file tree a caller sees: memory files, and sessions with their messages and archives.

Functions take the open connection and run inside the caller's transaction.
"""

import hashlib
import sqlite3
from dataclasses import dataclass

from resilient_ov.domain.namespace import VikingUri, archive_name, archive_number
from resilient_ov.embedded import archives, files, sessions
from resilient_ov.embedded.auth import Caller
from resilient_ov.embedded.errors import Json, invalid_argument, not_found
from resilient_ov.embedded.files import Entry, listing_order
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.sessions import LIVE, SessionKey

MESSAGES = "messages.jsonl"
HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of one caller under one layout."""

    layout: Layout
    caller: Caller

    def read(self, db: sqlite3.Connection, uri: VikingUri, offset: int, limit: int) -> str:
        """Lines of a file from `offset` on, at most `limit` (-1: all); past the end empty.

        400 for a directory, 404 when there is nothing.
        """
        inside = self.layout.session_path(uri)
        if inside is not None:
            text = self._read_session(db, inside, offset, limit)
        else:
            row = files.read(db, self.caller.account, uri)
            text = None if row is None else _cut(row["content"], offset, limit)
        if text is not None:
            return text
        if self._is_directory(db, uri):
            raise invalid_argument(
                f"Directory URI is not readable as a file: {uri}. "
                "List it first, then read a file URI.",
                {"resource": str(uri), "expected": "file", "actual": "directory"},
            )
        raise not_found("file", str(uri))

    def entries(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        """The children of a directory, directories first; 404 when there is none."""
        entries = self._children(db, uri)
        if not entries and not self._is_directory(db, uri):
            raise not_found("directory", str(uri))
        return entries

    def stat(self, db: sqlite3.Connection, uri: VikingUri) -> Entry:
        """The entry at an address; 404 when there is none."""
        parent = VikingUri(uri.segments[:-1])
        for entry in self._children(db, parent):
            if entry.uri == uri:
                return entry
        if self._is_directory(db, uri):
            return Entry(uri, is_directory=True, size=0, changed_at="")
        raise not_found("file", str(uri))

    def _is_directory(self, db: sqlite3.Connection, uri: VikingUri) -> bool:
        home = self.layout.memory_root(self.caller, None)
        sessions_root = self.layout.sessions_root(self.caller)
        if home.is_within(uri) or sessions_root.is_within(uri):
            return True
        return bool(self._children(db, uri))

    def _children(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        inside = self.layout.session_path(uri)
        if inside is not None:
            return self._session_children(db, uri, inside)
        entries = {
            entry.uri: entry
            for entry in files.children(db, self.caller.account, uri)
            if self.layout.is_visible(self.caller, entry.uri)
        }
        for root in (
            self.layout.memory_root(self.caller, None),
            self.layout.sessions_root(self.caller),
        ):
            if root.is_within(uri) and root != uri:
                child = VikingUri(root.segments[: len(uri.segments) + 1])
                entries.setdefault(child, Entry(child, is_directory=True, size=0, changed_at=""))
        return sorted(entries.values(), key=listing_order)

    def _session(self, db: sqlite3.Connection, session_id: str) -> sqlite3.Row | None:
        owner = self.layout.session_owner(self.caller)
        return sessions.find(
            db, SessionKey(self.caller.account, owner, session_id, self.caller.user)
        )

    def _session_children(
        self, db: sqlite3.Connection, uri: VikingUri, inside: tuple[str, ...]
    ) -> list[Entry]:
        owner = self.layout.session_owner(self.caller)
        if not inside:
            rows = sessions.list_all(db, self.caller.account, owner)
            return sorted(
                (
                    Entry(child, is_directory=True, size=0, changed_at=row["updated_at"])
                    for row in rows
                    if (child := _child_or_none(uri, row["session_id"])) is not None
                ),
                key=listing_order,
            )
        row = self._session(db, inside[0])
        if row is None:
            return []
        match inside[1:]:
            case ():
                return [
                    Entry(
                        uri.child(HISTORY), is_directory=True, size=0, changed_at=row["updated_at"]
                    ),
                    _messages_entry(db, uri, row, LIVE),
                ]
            case ("history",):
                return [
                    Entry(
                        uri.child(archive_name(each["number"])),
                        is_directory=True,
                        size=0,
                        changed_at=each["created_at"],
                    )
                    for each in archives.listing(db, row["id"])
                ]
            case ("history", name):
                number = _existing_archive(db, row, name)
                return [] if number is None else [_messages_entry(db, uri, row, number)]
            case _:
                return []

    def _read_session(
        self,
        db: sqlite3.Connection,
        inside: tuple[str, ...],
        offset: int,
        limit: int,
    ) -> str | None:
        row = self._session(db, inside[0]) if inside else None
        if row is None:
            return None
        match inside[1:]:
            case ("messages.jsonl",):
                number: int | None = LIVE
            case ("history", name, "messages.jsonl"):
                number = _existing_archive(db, row, name)
            case _:
                number = None
        if number is None:
            return None
        lines = sessions.message_lines(db, row["id"], number, offset, limit)
        return "".join(f"{line['line']}\n" for line in lines)


def entry_view(entry: Entry, abstract: str) -> Json:
    """An entry as a listing shows it."""
    return {
        "uri": str(entry.uri),
        "size": entry.size,
        "isDir": entry.is_directory,
        "modTime": entry.changed_at,
        "abstract": abstract,
    }


def stat_view(entry: Entry) -> Json:
    """An entry as `stat` shows it."""
    return {
        "name": entry.uri.segments[-1] if entry.uri.segments else "",
        "size": entry.size,
        "mode": 0o755 if entry.is_directory else 0o644,
        "modTime": f"{entry.changed_at[:19]}Z" if entry.changed_at else "",
        "isDir": entry.is_directory,
        "uri": str(entry.uri),
        "isLocked": False,
        "id": hashlib.md5(str(entry.uri).encode(), usedforsecurity=False).hexdigest(),
    }


def _existing_archive(db: sqlite3.Connection, row: sqlite3.Row, name: str) -> int | None:
    number = archive_number(name)
    known = {each["number"] for each in archives.listing(db, row["id"])}
    return number if number in known else None


def _messages_entry(
    db: sqlite3.Connection, directory: VikingUri, row: sqlite3.Row, number: int
) -> Entry:
    size = sessions.stored_bytes(db, row["id"], number)
    return Entry(
        directory.child(MESSAGES), is_directory=False, size=size, changed_at=row["updated_at"]
    )


def _child_or_none(uri: VikingUri, name: str) -> VikingUri | None:
    """An id that no address can hold is not shown in a listing."""
    try:
        return uri.child(name)
    except ValueError:
        return None


def _cut(text: str, offset: int, limit: int) -> str:
    if offset == 0 and limit == -1:
        return text
    lines = text.splitlines(keepends=True)
    return "".join(lines[offset:] if limit == -1 else lines[offset : offset + limit])
