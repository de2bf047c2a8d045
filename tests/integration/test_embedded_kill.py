"""The embedded server killed with SIGKILL: what was answered is there after the next start."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

IDENTITY = {
    "X-API-Key": "root-key",
    "X-OpenViking-Account": "acme",
    "X-OpenViking-User": "alice",
}
_PROGRAM = """
import sys
from pathlib import Path
from resilient_ov.embedded import serve
serve(
    port=int(sys.argv[1]), data_dir=Path(sys.argv[2]), root_key="root-key",
    extraction_delay_s=float(sys.argv[3]),
)
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Process:
    """One server process; `kill` is SIGKILL."""

    def __init__(self, data_dir: Path, port: int, delay_s: float) -> None:
        arguments = [sys.executable, "-c", _PROGRAM, str(port), str(data_dir), str(delay_s)]
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.url = f"http://127.0.0.1:{port}"

    def wait_until_up(self) -> None:
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            time.sleep(0.02)
        pytest.fail("the server did not come up")

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> str:
        self.process.kill()
        _, told = self.process.communicate(timeout=10)
        return told


@contextmanager
def _served(data_dir: Path, port: int, delay_s: float = 0.0) -> Iterator[_Process]:
    server = _Process(data_dir, port, delay_s)
    try:
        server.wait_until_up()
        yield server
    finally:
        server.end()


def _client(server: _Process) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api/v1", headers=IDENTITY)


def _batch(number: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": f"text {number}", "source_message_ids": [f"m{number}-0"]},
            {"role": "assistant", "content": "ok", "source_message_ids": [f"m{number}-1"]},
        ]
    }


def _stored_ids(client: httpx.Client) -> list[str]:
    """Marks of the live messages and of all archives."""
    meta = client.get("/sessions/s1").json()["result"]
    home = "viking://~/sessions/s1"
    uris = [
        f"{home}/history/archive_{number:03d}/messages.jsonl"
        for number in range(1, meta["commit_count"] + 1)
    ]
    ids: list[str] = []
    for uri in [*uris, f"{home}/messages.jsonl"]:
        text = client.get("/content/read", params={"uri": uri}).json()["result"]
        ids += [
            line.split('"source_message_ids": ["')[1].split('"')[0] for line in text.splitlines()
        ]
    return ids


@pytest.mark.parametrize("kill_after_s", [0.05, 0.15, 0.3])
def test_answered_batches_survive_and_none_is_halved(tmp_path: Path, kill_after_s: float) -> None:
    port = _free_port()
    answered: list[int] = []
    with _served(tmp_path, port) as server, _client(server) as client:
        killer = threading.Timer(kill_after_s, server.kill)
        with suppress(httpx.TransportError):
            for number in range(100_000):
                client.post("/sessions/s1/messages/batch", json=_batch(number)).raise_for_status()
                answered.append(number)
                if number == 0:
                    killer.start()
                if number % 5 == 4:
                    client.post("/sessions/s1/commit").raise_for_status()
        killer.join()
    assert answered
    with _served(tmp_path, port) as server, _client(server) as client:
        ids = _stored_ids(client)
        total = client.get("/sessions/s1").json()["result"]["total_message_count"]
    expected = [f"m{number}-{part}" for number in answered for part in (0, 1)]
    assert ids[: len(expected)] == expected
    assert len(ids) - len(expected) in {0, 2}
    assert total == len(ids)


def test_an_extraction_resumes_with_its_task_and_remembers_once(tmp_path: Path) -> None:
    port = _free_port()
    with _served(tmp_path, port, delay_s=600) as server, _client(server) as client:
        said = {"messages": [{"role": "user", "content": "I like mountain bikes."}]}
        client.post("/sessions/s1/messages/batch", json=said).raise_for_status()
        task_id = client.post("/sessions/s1/commit").json()["result"]["task_id"]
    with _served(tmp_path, port) as server, _client(server) as client:
        deadline_s = time.monotonic() + 10
        while client.get(f"/tasks/{task_id}").json()["result"]["status"] != "completed":
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert client.post("/sessions/s1/commit").json()["result"]["reason"] == "no_messages"
        body = {"query": "mountain bikes", "level": 2, "score_threshold": 0.55}
        assert client.post("/search/find", json=body).json()["result"]["total"] == 1
        meta = client.get("/sessions/s1").json()["result"]
        assert (meta["commit_count"], meta["memories_extracted"]["total"]) == (1, 1)


def test_a_signal_ends_it_and_it_said_what_it_is(tmp_path: Path) -> None:
    server = _Process(tmp_path, _free_port(), 0.0)
    server.wait_until_up()
    server.process.send_signal(signal.SIGTERM)
    _, told = server.process.communicate(timeout=10)
    assert "NOT FOR PRODUCTION" in told
    assert "root-key" not in told
