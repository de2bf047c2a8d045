"""Tasks of the embedded server while they run: cancelled, stopped, their session deleted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings

IDENTITY = {
    "X-API-Key": "root-key",
    "X-OpenViking-Account": "acme",
    "X-OpenViking-User": "alice",
}


@contextmanager
def _running(data_dir: Path, delay_s: float = 0.0) -> Iterator[httpx.Client]:
    settings = EmbeddedSettings(data_dir=data_dir, root_key="root-key", extraction_delay_s=delay_s)
    with (
        EmbeddedServer(settings) as server,
        httpx.Client(base_url=f"{server.url}/api/v1", headers=IDENTITY) as client,
    ):
        yield client


def _commit(client: httpx.Client, text: str) -> str:
    said = {"messages": [{"role": "user", "content": text}]}
    client.post("/sessions/s1/messages/batch", json=said).raise_for_status()
    task_id: str = client.post("/sessions/s1/commit").json()["result"]["task_id"]
    return task_id


def _ended(client: httpx.Client, task_id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        task: dict[str, Any] = client.get(f"/tasks/{task_id}").json()["result"]
        if task["status"] in {"completed", "failed", "cancelled"}:
            return task
        time.sleep(0.005)
    pytest.fail("the task did not end")


def _found(client: httpx.Client, query: str) -> list[str]:
    found = client.post("/search/find", json={"query": query, "level": 2, "score_threshold": 0.55})
    return [hit["abstract"] for hit in found.json()["result"]["memories"]]


def test_a_task_is_cancelled_before_its_end(tmp_path: Path) -> None:
    with _running(tmp_path, delay_s=600) as client:
        first, waiting = _commit(client, "I like tea."), _commit(client, "I like oak.")
        for task_id in (waiting, first):
            asked = client.post(f"/tasks/{task_id}/cancel")
            assert asked.json()["result"]["status"] == "cancelling"
            assert _ended(client, task_id)["status"] == "cancelled"
        context = client.get("/sessions/s1/context").json()["result"]
        assert context["stats"]["failedArchives"] == 2
        assert client.get("/sessions/s1/archives/archive_001").status_code == 404


def test_the_next_task_of_a_session_runs_after_a_cancelled_one(tmp_path: Path) -> None:
    with _running(tmp_path, delay_s=0.05) as client:
        first, second = _commit(client, "I like tea."), _commit(client, "I like oak.")
        client.post(f"/tasks/{first}/cancel")
        assert _ended(client, second)["status"] == "completed"
        assert _found(client, "preferences") == ["User likes oak."]


def test_a_stopped_server_finishes_its_tasks_after_the_next_start(tmp_path: Path) -> None:
    with _running(tmp_path, delay_s=600) as client:
        task_id = _commit(client, "I like tea.")
    with _running(tmp_path) as client:
        assert _ended(client, task_id)["status"] == "completed"
        assert _found(client, "tea") == ["User likes tea."]


def test_a_session_deleted_meanwhile_is_still_remembered(tmp_path: Path) -> None:
    with _running(tmp_path, delay_s=0.05) as client:
        task_id = _commit(client, "I like tea.")
        client.delete("/sessions/s1")
        assert _ended(client, task_id)["status"] == "completed"
        assert _found(client, "tea") == ["User likes tea."]
        assert client.get("/sessions/s1").status_code == 404


def test_archives_of_a_session_are_extracted_in_order(tmp_path: Path) -> None:
    with _running(tmp_path, delay_s=0.02) as client:
        ids = [_commit(client, f"I like tea{number}.") for number in range(4)]
        ended = [_ended(client, task_id) for task_id in ids]
        times = [task["updated_at"] for task in ended]
        assert times == sorted(times)
        assert len(_found(client, "preferences")) == 4
