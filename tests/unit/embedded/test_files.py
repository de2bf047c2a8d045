import sqlite3

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.layout_home import HomeLayout

SHELF = HomeLayout().shelf(Caller(Role.ROOT, "acme", "alice"))
HOME = VikingUri(("user", "alice", "memories"))
TEA = HOME.child("preferences", "user", "tea.md")


def _write(db: sqlite3.Connection, uri: VikingUri, text: str) -> None:
    files.write(db, SHELF, uri, text, ["memory_type=preferences"])
    files.renew_notes(db, SHELF, [uri])


def _paths(db: sqlite3.Connection, uri: VikingUri) -> list[str]:
    return [
        str(files.uri_of(row)).removeprefix("viking://user/alice/")
        for row in files.below(db, SHELF, uri)
    ]


def test_a_written_file_is_read_listed_and_found(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    row = files.read(db, SHELF, TEA)
    assert row is not None
    assert row["content"] == "User likes tea."
    assert [str(entry.uri) for entry in files.children(db, SHELF, HOME)] == [
        "viking://user/alice/memories/preferences"
    ]
    found = files.matching(db, SHELF, HOME, frozenset({"tea"}))
    assert TEA.segments[-1] in {row["path"].split("/")[-1] for row in found}


def test_writing_again_replaces(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    _write(db, TEA, "User likes coffee.")
    assert not files.matching(db, SHELF, TEA, frozenset({"tea"}))
    assert len(files.matching(db, SHELF, TEA, frozenset({"coffee"}))) == 1


def test_directories_keep_notes_that_listings_hide(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    assert _paths(db, HOME) == [
        "memories/.abstract.md",
        "memories/preferences/user/.overview.md",
        "memories/preferences/user/tea.md",
    ]
    assert [e.uri for e in files.children(db, SHELF, HOME.child("preferences", "user"))] == [TEA]


def test_deleting_the_last_file_leaves_nothing(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    assert files.delete(db, SHELF, TEA) == 1
    assert _paths(db, HOME) == []
    assert files.delete(db, SHELF, TEA) == 0
    assert db.execute("SELECT count(*) FROM files_index").fetchone()[0] == 0


def test_a_subtree_is_bounded_by_segments(db: sqlite3.Connection) -> None:
    for user in ("alice", "alice2", "alic", "alice.x"):
        _write(db, VikingUri(("user", user, "memories", "x.md")), "x")
    below = {
        files.uri_of(row).segments[1]
        for row in files.below(db, SHELF, VikingUri(("user", "alice")))
    }
    assert below == {"alice"}
    everything = files.below(db, SHELF, VikingUri())
    assert {files.uri_of(row).segments[1] for row in everything} == {
        "alice",
        "alice2",
        "alic",
        "alice.x",
    }
    other = HomeLayout().shelf(Caller(Role.ROOT, "other", "alice"))
    assert files.below(db, other, VikingUri()) == []


def test_a_lost_index_entry_is_told_and_repaired(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    db.execute("DELETE FROM files_index")
    assert len(files.missing_from_index(db, SHELF, HOME)) == 3
    assert files.reindex(db, SHELF, HOME) == 3
    assert files.missing_from_index(db, SHELF, HOME) == []


def test_no_words_match_nothing(db: sqlite3.Connection) -> None:
    _write(db, TEA, "User likes tea.")
    assert files.matching(db, SHELF, HOME, frozenset()) == []
