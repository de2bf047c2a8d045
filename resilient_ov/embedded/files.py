"""Memory files: the tree of texts below a caller's memories, and its search index.

Functions take the open connection and run inside the caller's transaction. A path is a canonical
address without scheme (`user/<user>/memories/...`).
"""

import json
import sqlite3
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded.clock import now_millis
from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.terms import terms

OVERVIEW = ".overview.md"
ABSTRACT = ".abstract.md"
LEVEL_ABSTRACT, LEVEL_OVERVIEW, LEVEL_MEMORY = 0, 1, 2

_MAX_NOTE_LINES = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """One child of a directory."""

    uri: VikingUri
    is_directory: bool
    size: int
    changed_at: str


def listing_order(entry: Entry) -> tuple[bool, tuple[str, ...]]:
    """Sort key of a listing: directories before files, then by name."""
    return not entry.is_directory, entry.uri.segments


def path_of(uri: VikingUri) -> str:
    """The key of a file in the database."""
    return "/".join(uri.segments)


def uri_of(path: str) -> VikingUri:
    """The address of a stored path."""
    return VikingUri(tuple(path.split("/")))


def read(db: sqlite3.Connection, account: str, uri: VikingUri) -> sqlite3.Row | None:
    """The file at an address, or None."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM files WHERE account = ? AND path = ?", (account, path_of(uri))
    ).fetchone()
    return row


def write(
    db: sqlite3.Connection, account: str, uri: VikingUri, content: str, tags: list[str]
) -> None:
    """Put a memory file, replacing an older one; `renew_notes` is to follow."""
    _put(db, account, uri, content, tags, LEVEL_MEMORY)


def delete(db: sqlite3.Connection, account: str, uri: VikingUri) -> int:
    """Delete a file or everything below a directory; returns how many files that were."""
    rows = below(db, account, uri)
    for row in rows:
        db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
        db.execute("DELETE FROM files WHERE id = ?", (row["id"],))
    if "memories" in uri.segments[:-1]:
        renew_notes(db, account, [uri])
    return len(rows)


def renew_notes(db: sqlite3.Connection, account: str, changed: Iterable[VikingUri]) -> None:
    """Bring the notes up to date: the overviews of directories, the abstracts of `memories/`."""
    notes: dict[VikingUri, int] = {}
    for uri in changed:
        notes[VikingUri((*uri.segments[:-1], OVERVIEW))] = LEVEL_OVERVIEW
        memories = uri.segments[: uri.segments.index("memories") + 1]
        notes[VikingUri((*memories, ABSTRACT))] = LEVEL_ABSTRACT
    for note, level in notes.items():
        directory = VikingUri(note.segments[:-1])
        entries = children(db, account, directory)
        if not entries:
            _remove(db, account, note)
            continue
        names = [f"- {entry.uri.segments[-1]}" for entry in entries[:_MAX_NOTE_LINES]]
        _put(db, account, note, "\n".join([f"# {directory.segments[-1]}", *names]), [], level)


def below(db: sqlite3.Connection, account: str, uri: VikingUri) -> list[sqlite3.Row]:
    """The file at an address and all files below it, ordered by path."""
    path = path_of(uri)
    low, high = _range(path)
    return db.execute(
        """SELECT * FROM files WHERE account = ? AND (path = ? OR (path >= ? AND path < ?))
           ORDER BY path""",
        (account, path, low, high),
    ).fetchall()


def matching(
    db: sqlite3.Connection, account: str, uri: VikingUri, words: AbstractSet[str]
) -> list[sqlite3.Row]:
    """The files of a subtree that hold at least one of the terms."""
    if not words:
        return []
    path = path_of(uri)
    low, high = _range(path)
    # Terms are letters and digits only, so quoting them is enough.
    expression = " OR ".join(f'"{word}"' for word in words)
    return db.execute(
        """SELECT * FROM files
           WHERE id IN (SELECT rowid FROM files_index WHERE tokens MATCH ?) AND account = ?
             AND (path = ? OR (path >= ? AND path < ?))""",
        (expression, account, path, low, high),
    ).fetchall()


def children(db: sqlite3.Connection, account: str, uri: VikingUri) -> list[Entry]:
    """What a directory shows: directories, then files; its own notes are hidden."""
    depth = len(uri.segments)
    entries: dict[str, Entry] = {}
    low, high = _range(path_of(uri))
    rows = db.execute(
        """SELECT path, updated_at, length(CAST(content AS BLOB)) AS size FROM files
           WHERE account = ? AND path >= ? AND path < ?""",
        (account, low, high),
    )
    for row in rows:
        segments = row["path"].split("/")
        if segments[-1] in {OVERVIEW, ABSTRACT}:
            continue
        name = segments[depth]
        is_directory = len(segments) > depth + 1
        size = 0 if is_directory else row["size"]
        earlier = entries.get(name)
        changed_at = max(row["updated_at"], earlier.changed_at if earlier else "")
        entries[name] = Entry(uri.child(name), is_directory, size, changed_at)
    return sorted(entries.values(), key=listing_order)


def reindex(db: sqlite3.Connection, account: str, uri: VikingUri) -> int:
    """Build the search index of a subtree anew; returns how many files that were."""
    rows = below(db, account, uri)
    for row in rows:
        db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
        db.execute(
            "INSERT INTO files_index (rowid, tokens) VALUES (?, ?)", (row["id"], row["tokens"])
        )
    return len(rows)


def missing_from_index(db: sqlite3.Connection, account: str, uri: VikingUri) -> list[str]:
    """Paths of a subtree that a search cannot find."""
    indexed = {row["rowid"] for row in db.execute("SELECT rowid FROM files_index")}
    return [row["path"] for row in below(db, account, uri) if row["id"] not in indexed]


def view(row: sqlite3.Row) -> Json:
    """A file as search shows it, without its score."""
    return {
        "context_type": "memory",
        "uri": str(uri_of(row["path"])),
        "level": row["level"],
        "abstract": row["content"],
        "tags": json.loads(row["tags"]),
    }


def _put(
    db: sqlite3.Connection,
    account: str,
    uri: VikingUri,
    content: str,
    tags: list[str],
    level: int,
) -> None:
    words = " ".join(sorted(terms(content)))
    row = db.execute(
        """INSERT INTO files (account, path, level, content, tags, tokens, updated_at)
           VALUES (?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (account, path) DO UPDATE SET level = excluded.level,
             content = excluded.content, tags = excluded.tags, tokens = excluded.tokens,
             updated_at = excluded.updated_at
           RETURNING id""",
        (account, path_of(uri), level, content, json.dumps(tags), words, now_millis()),
    ).fetchone()
    db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
    db.execute("INSERT INTO files_index (rowid, tokens) VALUES (?, ?)", (row["id"], words))


def _remove(db: sqlite3.Connection, account: str, uri: VikingUri) -> None:
    row = read(db, account, uri)
    if row is not None:
        db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
        db.execute("DELETE FROM files WHERE id = ?", (row["id"],))


def _range(path: str) -> tuple[str, str]:
    """Bounds of all paths below a directory: "0" is the character after "/"."""
    return (f"{path}/", f"{path}0") if path else ("", "\U0010ffff")
