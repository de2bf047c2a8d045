"""The file tree a caller sees: files, and sessions with their messages and archives.

Functions take the open connection and run inside the caller's transaction.
"""

import hashlib
import sqlite3
from dataclasses import dataclass

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller
from resilient_ov.embedded.errors import Json, invalid_argument, not_found
from resilient_ov.embedded.files import Entry, listing_order
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.session_tree import SessionTree, cut


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
            text = self._sessions.read(db, inside, offset, limit)
        else:
            row = files.read(db, self.layout.shelf(self.caller), uri)
            text = None if row is None else cut(row["content"], offset, limit)
        if text is not None:
            return text
        if self.is_directory(db, uri):
            raise invalid_argument(
                f"Directory URI is not readable as a file: {uri}. "
                "List it first, then read a file URI.",
                {"resource": str(uri), "expected": "file", "actual": "directory"},
            )
        raise not_found("file", str(uri))

    def entries(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        """The children of a directory, directories first; 404 when there is none."""
        entries = self._children(db, uri)
        if not entries and not self.is_directory(db, uri):
            raise not_found("directory", str(uri))
        return entries

    def descendants(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        """Everything below a directory, each directory before what is in it; 404 as `entries`."""
        found: list[Entry] = []
        waiting = self.entries(db, uri)[::-1]
        while waiting:
            entry = waiting.pop()
            found.append(entry)
            if entry.is_directory:
                waiting += self._children(db, entry.uri)[::-1]
        return found

    def stat(self, db: sqlite3.Connection, uri: VikingUri) -> Entry:
        """The entry at an address; 404 when there is none."""
        parent = VikingUri(uri.segments[:-1])
        for entry in self._children(db, parent):
            if entry.uri == uri:
                return entry
        if self.is_directory(db, uri):
            return Entry(uri, is_directory=True, size=0, changed_at="")
        raise not_found("file", str(uri))

    def is_directory(self, db: sqlite3.Connection, uri: VikingUri) -> bool:
        """Whether there is a directory at an address."""
        if any(preset.is_within(uri) for preset in self.layout.presets(self.caller)):
            return True
        return bool(self._children(db, uri))

    def _children(self, db: sqlite3.Connection, uri: VikingUri) -> list[Entry]:
        inside = self.layout.session_path(uri)
        if inside is not None:
            return self._sessions.children(db, uri, inside)
        shelf = self.layout.shelf(self.caller)
        entries = {entry.uri: entry for entry in files.children(db, shelf, uri)}
        for preset in self.layout.presets(self.caller):
            if preset.is_within(uri) and preset != uri:
                child = VikingUri(preset.segments[: len(uri.segments) + 1])
                entries.setdefault(child, Entry(child, is_directory=True, size=0, changed_at=""))
        return sorted(entries.values(), key=listing_order)

    @property
    def _sessions(self) -> SessionTree:
        return SessionTree(self.layout, self.caller)


def check_writable(db: sqlite3.Connection, tree: Tree, uri: VikingUri) -> None:
    """Raise 400 where a file would take the place of a directory, or lie below a file."""
    shelf = tree.layout.shelf(tree.caller)
    above = [VikingUri(uri.segments[:depth]) for depth in range(1, len(uri.segments))]
    if tree.is_directory(db, uri):
        raise invalid_argument(f"There is a directory: {uri}", {"resource": str(uri)})
    for each in above:
        if files.read(db, shelf, each) is not None:
            raise invalid_argument(f"There is a file: {each}", {"resource": str(each)})


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
