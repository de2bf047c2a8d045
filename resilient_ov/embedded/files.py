"""Files: the tree of texts of an account, and its search index.

Functions take the open connection and run inside the caller's transaction. A file is stored under
its account and canonical address with the owners that the address names; every reading function
leaves out what the shelf's one rule of visibility hides, so a listing and a search cannot differ.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from resilient_ov.domain.namespace import VikingUri, from_storage_path, storage_path
from resilient_ov.embedded.clock import now_millis
from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.terms import terms

OVERVIEW = ".overview.md"
ABSTRACT = ".abstract.md"
LEVEL_ABSTRACT, LEVEL_OVERVIEW, LEVEL_MEMORY = 0, 1, 2

_MAX_NOTE_LINES = 50


Owners = tuple[str | None, str | None]
"""User and agent that a file is bound to; None = to none."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files of one account as one caller may use them.

    Attributes:
        owners_of: the owners of what lies at a canonical address.
        has_notes: whether a directory keeps an overview.
        sees: whether the caller may see a stored file; asked for every row.

    """

    account: str
    owners_of: Callable[[VikingUri], Owners]
    has_notes: Callable[[VikingUri], bool]
    sees: Callable[[sqlite3.Row], bool]


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


def uri_of(row: sqlite3.Row) -> VikingUri:
    """The address of a stored file."""
    return from_storage_path(row["path"])[1]


def read(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> sqlite3.Row | None:
    """The file at an address, or None."""
    row = _row(db, shelf, uri)
    return row if row is not None and shelf.sees(row) else None


def write(
    db: sqlite3.Connection, shelf: Shelf, uri: VikingUri, content: str, tags: list[str]
) -> None:
    """Put a file, replacing an older one; `renew_notes` is to follow."""
    _put(db, shelf, uri, content, tags, LEVEL_MEMORY)


def write_note(
    db: sqlite3.Connection, shelf: Shelf, directory: VikingUri, name: str, text: str
) -> None:
    """Put one of the two notes of a directory, `OVERVIEW` or `ABSTRACT`."""
    level = LEVEL_OVERVIEW if name == OVERVIEW else LEVEL_ABSTRACT
    _put(db, shelf, directory.child(name), text, [], level)


def delete(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> int:
    """Delete a file or everything below a directory; returns how many files that were."""
    rows = below(db, shelf, uri)
    for row in rows:
        _remove(db, row)
    renew_notes(db, shelf, [uri])
    return len(rows)


def delete_owned(db: sqlite3.Connection, account: str, user: str | None) -> None:
    """Delete what is a user's own or bound to it (with None: all of the account)."""
    own = storage_path(account, VikingUri(() if user is None else ("user", user)))
    for row in db.execute(
        """SELECT * FROM files
           WHERE account = ? AND (owner_user = ? OR (path >= ? AND path < ?))""",
        (account, user, f"{own}/", f"{own}0"),
    ).fetchall():
        _remove(db, row)


def renew_notes(db: sqlite3.Connection, shelf: Shelf, changed: Iterable[VikingUri]) -> None:
    """Bring the notes up to date: the overviews of directories, the abstracts of `memories/`."""
    notes: dict[VikingUri, str] = {}
    for uri in changed:
        directory = VikingUri(uri.segments[:-1])
        if shelf.has_notes(directory):
            notes[directory.child(OVERVIEW)] = OVERVIEW
        if "memories" in uri.segments[:-1]:
            memories = uri.segments[: uri.segments.index("memories") + 1]
            notes[VikingUri((*memories, ABSTRACT))] = ABSTRACT
    for note, name in notes.items():
        directory = VikingUri(note.segments[:-1])
        entries = children(db, shelf, directory)
        if not entries:
            old = _row(db, shelf, note)
            if old is not None:
                _remove(db, old)
            continue
        names = [f"- {entry.uri.segments[-1]}" for entry in entries[:_MAX_NOTE_LINES]]
        write_note(db, shelf, directory, name, "\n".join([f"# {directory.segments[-1]}", *names]))


def below(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> list[sqlite3.Row]:
    """The file at an address and all files below it, ordered by path."""
    rows = db.execute(
        """SELECT * FROM files WHERE account = ? AND (path = ? OR (path >= ? AND path < ?))
           ORDER BY path""",
        (shelf.account, *_bounds(shelf, uri)),
    )
    return [row for row in rows if shelf.sees(row)]


def matching(
    db: sqlite3.Connection, shelf: Shelf, root: VikingUri, words: AbstractSet[str]
) -> list[sqlite3.Row]:
    """The files of a subtree with the root's owners that hold at least one of the terms."""
    if not words:
        return []
    # Terms are letters and digits only, so quoting them is enough.
    expression = " OR ".join(f'"{word}"' for word in words)
    rows = db.execute(
        """SELECT * FROM files
           WHERE id IN (SELECT rowid FROM files_index WHERE tokens MATCH ?) AND account = ?
             AND (path = ? OR (path >= ? AND path < ?))
             AND owner_user IS ? AND owner_agent IS ?""",
        (expression, shelf.account, *_bounds(shelf, root), *shelf.owners_of(root)),
    )
    return [row for row in rows if shelf.sees(row)]


def everything(db: sqlite3.Connection, shelf: Shelf, root: VikingUri) -> list[sqlite3.Row]:
    """The files of a subtree with the root's owners, whatever they hold."""
    owners = shelf.owners_of(root)
    rows = below(db, shelf, root)
    return [row for row in rows if (row["owner_user"], row["owner_agent"]) == owners]


def children(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> list[Entry]:
    """What a directory shows: directories, then files; its own notes are hidden."""
    depth = len(uri.segments)
    entries: dict[str, Entry] = {}
    _, low, high = _bounds(shelf, uri)
    rows = db.execute(
        """SELECT account, path, owner_user, owner_agent, updated_at,
             length(CAST(content AS BLOB)) AS size
           FROM files WHERE account = ? AND path >= ? AND path < ?""",
        (shelf.account, low, high),
    )
    for row in filter(shelf.sees, rows):
        segments = uri_of(row).segments
        if segments[-1] in {OVERVIEW, ABSTRACT}:
            continue
        name = segments[depth]
        is_directory = len(segments) > depth + 1
        size = 0 if is_directory else row["size"]
        earlier = entries.get(name)
        changed_at = max(row["updated_at"], earlier.changed_at if earlier else "")
        entries[name] = Entry(uri.child(name), is_directory, size, changed_at)
    return sorted(entries.values(), key=listing_order)


def reindex(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> int:
    """Build the search index of a subtree anew; returns how many files that were."""
    rows = below(db, shelf, uri)
    for row in rows:
        db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
        db.execute(
            "INSERT INTO files_index (rowid, tokens) VALUES (?, ?)", (row["id"], row["tokens"])
        )
    return len(rows)


def missing_from_index(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> list[VikingUri]:
    """Addresses of a subtree that a search cannot find."""
    indexed = {row["rowid"] for row in db.execute("SELECT rowid FROM files_index")}
    return [uri_of(row) for row in below(db, shelf, uri) if row["id"] not in indexed]


def view(row: sqlite3.Row, context_type: str) -> Json:
    """A file as search shows it, without its score."""
    return {
        "context_type": context_type,
        "uri": str(uri_of(row)),
        "level": row["level"],
        "abstract": row["content"],
        "tags": json.loads(row["tags"]),
    }


def _row(db: sqlite3.Connection, shelf: Shelf, uri: VikingUri) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM files WHERE account = ? AND path = ?",
        (shelf.account, storage_path(shelf.account, uri)),
    ).fetchone()
    return row


def _put(
    db: sqlite3.Connection,
    shelf: Shelf,
    uri: VikingUri,
    content: str,
    tags: list[str],
    level: int,
) -> None:
    words = " ".join(sorted(terms(content)))
    row = db.execute(
        """INSERT INTO files (account, path, owner_user, owner_agent, level, content, tags, tokens,
             updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (account, path) DO UPDATE SET owner_user = excluded.owner_user,
             owner_agent = excluded.owner_agent, level = excluded.level,
             content = excluded.content, tags = excluded.tags, tokens = excluded.tokens,
             updated_at = excluded.updated_at
           RETURNING id""",
        (
            shelf.account,
            storage_path(shelf.account, uri),
            *shelf.owners_of(uri),
            level,
            content,
            json.dumps(tags),
            words,
            now_millis(),
        ),
    ).fetchone()
    db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
    db.execute("INSERT INTO files_index (rowid, tokens) VALUES (?, ?)", (row["id"], words))


def _remove(db: sqlite3.Connection, row: sqlite3.Row) -> None:
    db.execute("DELETE FROM files_index WHERE rowid = ?", (row["id"],))
    db.execute("DELETE FROM files WHERE id = ?", (row["id"],))


def _bounds(shelf: Shelf, uri: VikingUri) -> tuple[str, str, str]:
    """The path of an address and the bounds of all below: "0" is the character after "/"."""
    path = storage_path(shelf.account, uri)
    return path, f"{path}/", f"{path}0"
