import sqlite3

import pytest

from resilient_ov.embedded import sessions
from resilient_ov.embedded.bodies import Message
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.lines import Said
from resilient_ov.embedded.sessions import SessionKey, check_policy

KEY = SessionKey("acme", "alice", "s1", "alice")


def _add(db: sqlite3.Connection, *texts: str) -> dict[str, object]:
    messages = [Said(Message(role="user", content=text)) for text in texts]
    return sessions.add_messages(db, KEY, messages)


def test_the_first_message_makes_the_session(db: sqlite3.Connection) -> None:
    assert sessions.find(db, KEY) is None
    assert _add(db, "one", "two")["message_count"] == 2
    assert sessions.require(db, KEY)["total_messages"] == 2


def test_an_empty_batch_adds_nothing(db: sqlite3.Connection) -> None:
    answer = {"session_id": "s1", "message_count": 0, "added": 0, "pending_tokens": 0}
    assert _add(db) == answer
    assert sessions.require(db, KEY)["last_message_at"] == ""


def test_the_same_message_twice_is_stored_twice_and_in_order(db: sqlite3.Connection) -> None:
    _add(db, "a", "b")
    _add(db, "a")
    lines = sessions.message_lines(db, sessions.require(db, KEY)["id"], sessions.LIVE)
    assert [line["line"].split('"text": "')[1][0] for line in lines] == ["a", "b", "a"]


def test_owners_and_accounts_are_apart(db: sqlite3.Connection) -> None:
    _add(db, "a")
    assert sessions.find(db, SessionKey("acme", "bob", "s1", "bob")) is None
    assert sessions.find(db, SessionKey("other", "alice", "s1", "alice")) is None
    assert len(sessions.list_all(db, "acme", "alice")) == 1
    assert sessions.list_all(db, "acme", "bob") == []


def test_a_deleted_session_may_be_made_again_empty(db: sqlite3.Connection) -> None:
    _add(db, "a")
    sessions.delete(db, KEY)
    with pytest.raises(ApiError):
        sessions.require(db, KEY)
    assert _add(db, "b")["message_count"] == 1
    assert db.execute("SELECT count(*) FROM messages").fetchone()[0] == 1


def test_a_policy_is_filled_in() -> None:
    assert check_policy(None) is None
    policy = check_policy({"memory_types": ["profile", "events"], "peer": {"enabled": False}})
    assert policy == {
        "self": {"enabled": True},
        "peer": {"enabled": False},
        "working_memory": {"enabled": False},
        "memory_types": ["events", "profile"],
    }


@pytest.mark.parametrize(
    "policy",
    [
        {"bogus": 1},
        {"memory_types": "events"},
        {"memory_types": ["nope"]},
        {"memory_types": [1]},
        {"self": True},
        {"self": {"enabled": "yes"}},
    ],
)
def test_a_bad_policy_is_refused(policy: dict[str, object]) -> None:
    with pytest.raises(ApiError) as caught:
        check_policy(policy)
    assert caught.value.status == 400
