import sqlite3

import pytest

from resilient_ov.embedded import archives, sessions, tasks
from resilient_ov.embedded.archives import ArchiveState
from resilient_ov.embedded.bodies import Message
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.lines import Said
from resilient_ov.embedded.sessions import SessionKey

KEY = SessionKey("acme", "alice", "s1", "alice")


def _add(db: sqlite3.Connection, count: int) -> sqlite3.Row:
    sessions.add_messages(
        db, KEY, [Said(Message(role="user", content=f"message {n}")) for n in range(count)]
    )
    return sessions.require(db, KEY)


def _commit(db: sqlite3.Connection, keep: int = 0) -> dict[str, object]:
    return archives.commit(db, KEY, keep, lambda name: f"base/{name}")


def test_a_commit_moves_the_live_messages_once(db: sqlite3.Connection) -> None:
    row = _add(db, 3)
    assert _commit(db)["archive_uri"] == "base/archive_001"
    assert _commit(db)["reason"] == "no_messages"
    assert sessions.live_count(db, row["id"]) == 0
    assert len(sessions.message_lines(db, row["id"], 1)) == 3
    assert len(archives.listing(db, row["id"])) == 1


def test_the_newest_messages_may_stay(db: sqlite3.Connection) -> None:
    row = _add(db, 5)
    assert _commit(db, keep=5)["reason"] == "all_within_keep_window"
    assert _commit(db, keep=2)["status"] == "accepted"
    kept = [line["line"] for line in sessions.message_lines(db, row["id"], sessions.LIVE)]
    assert ["message 3" in kept[0], "message 4" in kept[1], len(kept)] == [True, True, 2]


def test_a_missing_session_is_404(db: sqlite3.Connection) -> None:
    with pytest.raises(ApiError) as caught:
        _commit(db)
    assert caught.value.status == 404


@pytest.mark.parametrize("state", list(ArchiveState))
def test_an_archive_is_shown_when_it_is_done(db: sqlite3.Connection, state: ArchiveState) -> None:
    row = _add(db, 1)
    _commit(db)
    archives.set_state(db, row["id"], 1, state)
    if state is ArchiveState.DONE:
        assert len(archives.read(db, KEY, "archive_001")["messages"]) == 1
        return
    with pytest.raises(ApiError) as caught:
        archives.read(db, KEY, "archive_001")
    assert caught.value.status == 404


def test_context_lists_open_archives_before_live_messages(db: sqlite3.Connection) -> None:
    for state in (ArchiveState.DONE, ArchiveState.FAILED, ArchiveState.PENDING):
        row = _add(db, 1)
        _commit(db)
        archives.set_state(db, row["id"], len(archives.listing(db, row["id"])), state)
    _add(db, 2)
    context = archives.context(db, row, 1000)
    assert len(context["messages"]) == 3
    assert context["stats"]["failedArchives"] == 1
    assert context["stats"]["totalArchives"] == 3


def test_context_is_cut_to_its_budget(db: sqlite3.Connection) -> None:
    row = _add(db, 10)
    context = archives.context(db, row, 7)
    assert (len(context["messages"]), context["estimatedTokens"]) == (2, 6)


def test_a_deleted_session_stays_for_its_open_extraction(db: sqlite3.Connection) -> None:
    row = _add(db, 1)
    task_id = _commit(db)["task_id"]
    sessions.delete(db, KEY)
    assert len(sessions.message_lines(db, row["id"], 1)) == 1
    tasks.set_status(db, str(task_id), tasks.Status.COMPLETED)
    sessions.purge_deleted(db, row["id"])
    assert db.execute("SELECT count(*) FROM sessions").fetchone()[0] == 0
