"""A real OpenViking server, started from its own environment, and what tests read back from it."""

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from resilient_ov.domain.identity import openviking_user, scope, session_id

ROOT_KEY = "external-suite-root-key"


def until(what: str, look: Callable[[], Any], *, within_s: float) -> Any:
    """Look every half second until something true comes back; it is returned."""
    ends = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < ends, f"{what}: not within {within_s} s"
        time.sleep(0.5)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def openviking_server(script: Path, environment: Path, data: Path) -> Iterator[str]:
    """Run the server in trusted mode with stub models; gives its base URL."""
    port, stub_port = free_ports(2)
    # Identities must be known to the admin routes at once, or nothing could be cleaned up.
    extra = json.dumps({"trusted_identity_flush_interval_seconds": 1})
    env = os.environ | {
        "VENV": str(environment),
        "ROOT_KEY": ROOT_KEY,
        "OV_EXTRA": extra,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    arguments = [str(script), str(data), str(port), str(stub_port), "trusted"]
    started = subprocess.run(arguments, env=env, capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        subprocess.run([str(script), "stop", str(data)], env=env, check=True)


@dataclass(frozen=True)
class Owner:
    """Whose memory; the same words a host uses."""

    user: str
    agent: str | None = None


class Account:
    """One fresh account on the server, read and cleaned up beside the product."""

    def __init__(self, base_url: str) -> None:
        self.name = f"ext-{secrets.token_hex(4)}"
        self._client = httpx.Client(
            base_url=base_url, trust_env=False, timeout=60, headers={"X-API-Key": ROOT_KEY}
        )

    def call(self, owner: Owner, method: str, path: str, **query: str | int) -> Any:
        """Return the result of a data route, None on 404."""
        who = scope(self.name, owner.user, owner.agent)
        identity = {"X-OpenViking-Account": self.name, "X-OpenViking-User": openviking_user(who)}
        reply = self._client.request(method, f"/api/v1{path}", params=query, headers=identity)
        if reply.status_code == httpx.codes.NOT_FOUND:
            return None
        assert reply.is_success, reply.text
        return reply.json()["result"]

    def session_of(self, owner: Owner, thread: str) -> str:
        return session_id(scope(self.name, owner.user, owner.agent), thread)

    def session(self, owner: Owner, thread: str) -> dict[str, Any]:
        return self.call(owner, "GET", f"/sessions/{self.session_of(owner, thread)}") or {}

    def stored_texts(self, owner: Owner, thread: str) -> list[str]:
        """Every message of a session in order: its archives, then what is live."""
        home = f"viking://~/sessions/{self.session_of(owner, thread)}"
        archives = range(1, self.session(owner, thread)["commit_count"] + 1)
        places = [f"{home}/history/archive_{number:03d}" for number in archives]
        return [
            json.loads(line)["parts"][0]["text"]
            for place in [*places, home]
            for line in self._lines(owner, f"{place}/messages.jsonl")
        ]

    def _lines(self, owner: Owner, uri: str) -> Iterator[str]:
        offset = 0
        while page := self.call(owner, "GET", "/content/read", uri=uri, offset=offset, limit=200):
            lines = page.rstrip("\n").split("\n")
            yield from lines
            offset += len(lines)

    def remove(self) -> None:
        """Delete the account with all it holds and see that it is gone."""
        admin = f"/api/v1/admin/accounts/{self.name}"
        assert self._client.delete(admin).status_code == httpx.codes.ACCEPTED
        until(
            "account removed",
            lambda: self._client.get(admin).status_code == httpx.codes.NOT_FOUND,
            within_s=60,
        )
        self._client.close()
