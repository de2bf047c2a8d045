import sqlite3

import pytest

from resilient_ov.embedded import tasks
from resilient_ov.embedded.bodies import TaskQuery
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.tasks import NewTask, Status

ALICE = ("acme", "alice")


def _new(db: sqlite3.Connection, session: int | None = 1, user: str = "alice") -> str:
    return tasks.create(db, NewTask("acme", user, "session_commit", f"s{session}", session, 1))


def _status(db: sqlite3.Connection, task_id: str) -> str:
    status: str = tasks.get(db, task_id, None)["status"]
    return status


def test_tasks_of_one_session_start_in_order_and_of_others_side_by_side(
    db: sqlite3.Connection,
) -> None:
    first, second, other = _new(db), _new(db), _new(db, session=2)
    assert [row["task_id"] for row in tasks.claim_ready(db)] == [first, other]
    assert tasks.claim_ready(db) == []
    tasks.set_status(db, first, Status.COMPLETED, result={})
    assert [row["task_id"] for row in tasks.claim_ready(db)] == [second]


def test_tasks_without_session_do_not_wait_for_each_other(db: sqlite3.Connection) -> None:
    made = [_new(db, session=None), _new(db, session=None)]
    assert [row["task_id"] for row in tasks.claim_ready(db)] == made


def test_after_a_restart_running_is_pending_and_cancelling_cancelled(
    db: sqlite3.Connection,
) -> None:
    running, cancelling, done = _new(db), _new(db, 2), _new(db, 3)
    tasks.set_status(db, running, Status.RUNNING)
    tasks.set_status(db, cancelling, Status.CANCELLING)
    tasks.set_status(db, done, Status.COMPLETED)
    tasks.recover(db)
    assert [_status(db, each) for each in (running, cancelling, done)] == [
        "pending",
        "cancelled",
        "completed",
    ]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
def test_an_ended_task_cannot_be_cancelled(db: sqlite3.Connection, status: Status) -> None:
    task_id = _new(db)
    tasks.set_status(db, task_id, status)
    with pytest.raises(ApiError) as caught:
        tasks.cancel(db, tasks.get(db, task_id, ALICE))
    assert caught.value.status == 412


def test_a_task_belongs_to_its_user(db: sqlite3.Connection) -> None:
    task_id = _new(db)
    assert tasks.get(db, task_id, ALICE)["task_id"] == task_id
    with pytest.raises(ApiError) as caught:
        tasks.get(db, task_id, ("acme", "bob"))
    assert caught.value.status == 404


def test_listing_filters_newest_first_and_pages(db: sqlite3.Connection) -> None:
    made = [_new(db) for _ in range(3)] + [_new(db, user="bob"), _new(db, session=2)]
    query = TaskQuery(resource_id="s1", limit=2)
    page, cursor = tasks.search(db, query, ALICE)
    assert [task["task_id"] for task in page] == [made[2], made[1]]
    rest, end = tasks.search(db, query.model_copy(update={"cursor": cursor}), ALICE)
    assert ([task["task_id"] for task in rest], end) == ([made[0]], None)
    assert len(tasks.search(db, TaskQuery(), None)[0]) == 5
    assert tasks.search(db, TaskQuery(status="zzz"), None) == ([], None)
    with pytest.raises(ApiError):
        tasks.search(db, TaskQuery(cursor="-1"), None)


def test_a_task_tells_its_life(db: sqlite3.Connection) -> None:
    task_id = _new(db)
    waiting = tasks.view(tasks.get(db, task_id, None))
    assert (waiting["processing_seconds"], waiting["stage"]) == (None, None)
    tasks.set_status(db, task_id, Status.RUNNING)
    assert tasks.view(tasks.get(db, task_id, None))["processing_seconds"] >= 0
    tasks.set_status(db, task_id, Status.FAILED, error="why")
    row = tasks.get(db, task_id, None)
    assert (tasks.view(row)["error"], tasks.view(row)["stage"]) == ("why", "failed")
    events = [event["status"] for event in tasks.history(row)["items"]]
    assert events == ["pending", "running", "failed"]
