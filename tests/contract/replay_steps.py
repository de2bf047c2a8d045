"""Drives an embedded server through the set-up of a fixture and sends the recorded request.

A set-up is a list of steps, each one line of text:

    auth dev | auth api_key          how the server identifies callers (default: trusted)
    slow                             extraction takes a minute: tasks stay running
    after NAME                       the set-up of another fixture, then its request
    NAME                             the request of another fixture alone
    account NAME ADMIN               create an account
    user ACCOUNT NAME                create a user
    say SESSION TEXT                 add a message of the user
    ids SESSION ID TEXT              add one with a source message id
    fail SESSION ID TEXT             the same with a time that is none: its extraction fails
    commit SESSION [KEEP]            commit
    running                          wait until the last task runs
    settled                          wait until no task is open
    memory PATH TEXT                 put a memory at user/<user>/PATH
"""

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import EmbeddedSettings, create_app, files
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.context import Services
from resilient_ov.settings.server import AuthMode

FIXTURES = Path(__file__).parent / "fixtures"
ROOT_KEY = "root-key-of-the-replay"
_TASK_ID = re.compile(r"(?<=/tasks/)[0-9a-f]{8}-[0-9a-f-]{27}")
_OPEN_STATES = ("pending", "running", "cancelling")


def load(name: str) -> dict[str, Any]:
    fixture: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return fixture


@dataclass
class Replayer:
    """One server and what its set-up learned."""

    client: httpx.AsyncClient
    services: Services
    setups: dict[str, list[str]]
    identity: dict[str, str]
    keys: dict[str, str] = field(default_factory=lambda: {"<root_api_key>": ROOT_KEY})
    last_task: str | None = None

    async def send(self, name: str, *, use_last_task: bool = True) -> httpx.Response:
        request = load(name)["request"]
        path = request["path"]
        if use_last_task and self.last_task is not None:
            path = _TASK_ID.sub(self.last_task, path)
        headers = {key: self._with_keys(value) for key, value in request["headers"].items()}
        content, headers = _content(request["body"], headers)
        response = await self.client.request(
            request["method"], path, headers=headers, content=content
        )
        self._learn(response)
        return response

    async def prepare(self, steps: list[str]) -> None:
        for step in steps:
            await self._step(step)

    async def _step(self, step: str) -> None:
        verb, _, rest = step.partition(" ")
        first, _, text = rest.partition(" ")
        match verb:
            case "auth" | "slow":
                pass  # told to the server at its start
            case "after":
                await self.prepare(self.setups[first])
                await self._recorded(first)
            case "account":
                body = {"account_id": first, "admin_user_id": text}
                await self._administer("accounts", body)
            case "user":
                await self._administer(f"accounts/{first}/users", {"user_id": text})
            case "ids":
                source_id, _, content = text.partition(" ")
                marked = _said(content) | {"source_message_ids": [source_id]}
                await self._call("POST", f"sessions/{first}/messages", marked)
            case "say":
                await self._call("POST", f"sessions/{first}/messages", _said(text))
            case "fail":
                source_id, _, content = text.partition(" ")
                timeless = {"source_message_ids": [source_id], "created_at": "yesterday"}
                await self._call("POST", f"sessions/{first}/messages", _said(content) | timeless)
            case "commit":
                body = {"keep_recent_count": int(text)} if text else {}
                await self._call("POST", f"sessions/{first}/commit", body)
            case "running":
                await self._until(lambda db: not _count(db, "running"))
            case "settled":
                await self._until(lambda db: _count(db, *_OPEN_STATES))
            case "memory":
                await self._remember(first, text)
            case _:
                await self._recorded(step)

    async def _recorded(self, name: str) -> None:
        response = await self.send(name)
        assert response.status_code == load(name)["response"]["status"], response.text

    async def _call(self, method: str, path: str, body: dict[str, Any]) -> None:
        response = await self.client.request(
            method, f"/api/v1/{path}", json=body, headers=self.identity
        )
        assert response.status_code == 200, response.text
        self._learn(response)

    async def _administer(self, path: str, body: dict[str, str]) -> None:
        response = await self.client.post(
            f"/api/v1/admin/{path}", json=body, headers={"X-API-Key": ROOT_KEY}
        )
        assert response.status_code == 200, response.text

    async def _until(self, waits: Callable[[sqlite3.Connection], object]) -> None:
        deadline_s = time.monotonic() + 10
        while await self.services.database.call(waits):
            assert time.monotonic() < deadline_s, "the tasks did not get there"
            await asyncio.sleep(0.005)

    async def _remember(self, path: str, text: str) -> None:
        account = self.identity["X-OpenViking-Account"]
        user = self.identity["X-OpenViking-User"]
        shelf = self.services.layout.shelf(Caller(Role.USER, account, user))
        uri = VikingUri(("user", user, *path.split("/")))
        category = path.split("/")[path.split("/").index("memories") + 1]

        def put(db: sqlite3.Connection) -> None:
            files.write(db, shelf, uri, text, [f"memory_type={category}"])
            files.renew_notes(db, shelf, [uri])

        await self.services.database.call(put)

    async def create_keys(self) -> None:
        """The account, admin and user of the recorded run with API keys."""
        root = {"X-API-Key": ROOT_KEY}
        account = {"account_id": "acme", "admin_user_id": "boss"}
        made = await self.client.post("/api/v1/admin/accounts", json=account, headers=root)
        self.keys["<admin_user_key>"] = made.json()["result"]["user_key"]
        user = {"user_id": "alice", "role": "user"}
        made = await self.client.post("/api/v1/admin/accounts/acme/users", json=user, headers=root)
        self.keys["<user_key>"] = made.json()["result"]["user_key"]
        self.identity = {"X-API-Key": self.keys["<user_key>"]}

    def _with_keys(self, text: str) -> str:
        for name, key in self.keys.items():
            text = text.replace(name, key)
        return text

    def redacted(self, value: Any) -> Any:
        """A reply with keys replaced by their names, as they were recorded."""
        text = json.dumps(value)
        for name, key in self.keys.items():
            text = text.replace(key, name)
        return json.loads(text)

    def _learn(self, response: httpx.Response) -> None:
        result = response.json().get("result")
        if isinstance(result, dict) and result.get("task_id"):
            self.last_task = result["task_id"]


@asynccontextmanager
async def replaying(
    name: str, setups: dict[str, list[str]], data_dir: Path
) -> AsyncIterator[Replayer]:
    """A fresh server, set up for a fixture."""
    steps = _all_steps(name, setups)
    modes = [step.removeprefix("auth ") for step in steps if step.startswith("auth ")]
    auth = AuthMode(modes[0] if modes else "trusted")
    settings = EmbeddedSettings(
        data_dir=data_dir,
        auth=auth,
        root_key=None if auth is AuthMode.DEV else ROOT_KEY,
        extraction_delay_s=60.0 if "slow" in steps else 0.0,
    )
    app = create_app(settings)
    sent = load(name).get("request", {}).get("headers", {})
    identity = {
        "X-API-Key": ROOT_KEY,
        "X-OpenViking-Account": sent.get("X-OpenViking-Account", "acme"),
        "X-OpenViking-User": sent.get("X-OpenViking-User", "alice"),
    }
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://replay") as client:
            replayer = Replayer(client, app.state.services, setups, identity)
            if auth is AuthMode.API_KEY:
                await replayer.create_keys()
            await replayer.prepare(setups[name])
            yield replayer


def _all_steps(name: str, setups: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    for step in setups[name]:
        found.append(step)
        if step.startswith("after "):
            found += _all_steps(step.removeprefix("after "), setups)
    return found


def _count(db: sqlite3.Connection, *states: str) -> int:
    places = ",".join("?" * len(states))
    query = f"SELECT count(*) FROM tasks WHERE status IN ({places})"
    count: int = db.execute(query, states).fetchone()[0]
    return count


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _content(body: Any, headers: dict[str, str]) -> tuple[bytes | None, dict[str, str]]:
    """The bytes of a recorded body; texts were recorded byte by byte, long ones were cut."""
    if body is None:
        return None, headers
    if isinstance(body, str):
        return body.encode("latin-1"), headers
    if body.get("__truncated__"):
        head = body["head"].rstrip("x")
        filler = "x" * (body["bytes"] - len(head) - len('"}'))
        return f'{head}{filler}"}}'.encode(), headers | {"Content-Type": "application/json"}
    return json.dumps(body).encode(), {"Content-Type": "application/json"} | headers
