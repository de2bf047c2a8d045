import sqlite3

import pytest

from resilient_ov.domain.namespace import VikingUri, parse_uri
from resilient_ov.embedded import archives, sessions
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.bodies import Message
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.layout_home import HomeLayout
from resilient_ov.embedded.lines import Said
from resilient_ov.embedded.sessions import SessionKey
from resilient_ov.embedded.tree import Tree

TREE = Tree(HomeLayout(), Caller(Role.USER, "acme", "alice"))
SESSION = parse_uri("viking://user/alice/sessions/s1")


@pytest.fixture
def session(db: sqlite3.Connection) -> sqlite3.Connection:
    """Session s1: one archive with "one", live "two" and "three"."""
    key = SessionKey("acme", "alice", "s1", "alice")
    sessions.add_messages(db, key, [Said(Message(role="user", content="one"))])
    archives.commit(db, key, 0, str)
    later = [Said(Message(role="user", content=text)) for text in ("two", "three")]
    sessions.add_messages(db, key, later)
    return db


def _read(db: sqlite3.Connection, *below: str, offset: int = 0, limit: int = -1) -> str:
    return TREE.read(db, SESSION.child(*below), offset, limit)


def test_live_and_archived_messages_are_files(session: sqlite3.Connection) -> None:
    assert [word in _read(session, "messages.jsonl") for word in ("one", "two")] == [False, True]
    archived = _read(session, "history", "archive_001", "messages.jsonl")
    assert [word in archived for word in ("one", "two")] == [True, False]


def test_pages_count_lines_and_end_empty(session: sqlite3.Connection) -> None:
    assert "three" in _read(session, "messages.jsonl", offset=1, limit=1)
    assert _read(session, "messages.jsonl", offset=2, limit=1) == ""
    assert _read(session, "messages.jsonl", offset=0, limit=0) == ""


def test_the_size_is_that_of_the_file(session: sqlite3.Connection) -> None:
    entry = TREE.stat(session, SESSION.child("messages.jsonl"))
    assert entry.size == len(_read(session, "messages.jsonl").encode())


@pytest.mark.parametrize(
    ("below", "status"),
    [
        ((), 400),
        (("history",), 400),
        (("history", "archive_001"), 400),
        (("history", "archive_002", "messages.jsonl"), 404),
        (("history", "archive_1", "messages.jsonl"), 404),
        (("nope.jsonl",), 404),
        (("history", "archive_001", "messages.jsonl", "x"), 404),
    ],
)
def test_directories_and_gaps_are_no_files(
    session: sqlite3.Connection, below: tuple[str, ...], status: int
) -> None:
    with pytest.raises(ApiError) as caught:
        _read(session, *below)
    assert caught.value.status == status


def test_another_user_sees_nothing_of_it(session: sqlite3.Connection) -> None:
    bobs = Tree(HomeLayout(), Caller(Role.USER, "acme", "bob"))
    assert bobs.entries(session, VikingUri(("user", "bob", "sessions"))) == []
    with pytest.raises(ApiError):
        bobs.read(session, parse_uri("viking://user/bob/sessions/s1/messages.jsonl"), 0, -1)


def test_a_session_without_commit_has_no_history_to_list(db: sqlite3.Connection) -> None:
    sessions.ensure(db, SessionKey("acme", "alice", "s1", "alice"))
    with pytest.raises(ApiError) as caught:
        TREE.entries(db, SESSION.child("history"))
    assert caught.value.status == 404
