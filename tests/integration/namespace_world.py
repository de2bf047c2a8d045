"""A server of profile namespace with an account in each topology, and callers on it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov.settings.server import AuthMode, ServerProfile

API = "/api/v1"
ROOT_KEY = "namespace-root-key"
# The two switches of each account: user scopes by agent, agent scopes by user.
TOPOLOGIES = {
    "acme-ff": (False, False),
    "acme-ft": (False, True),
    "acme-tf": (True, False),
    "acme-tt": (True, True),
}
USER_ROOTS = {
    "acme-ff": "viking://user/{user}",
    "acme-ft": "viking://user/{user}",
    "acme-tf": "viking://user/{user}/agent/{agent}",
    "acme-tt": "viking://user/{user}/agent/{agent}",
}
AGENT_ROOTS = {
    "acme-ff": "viking://agent/{agent}",
    "acme-ft": "viking://agent/{agent}/user/{user}",
    "acme-tf": "viking://agent/{agent}",
    "acme-tt": "viking://agent/{agent}/user/{user}",
}


def user_root(account: str, user: str, agent: str) -> str:
    return USER_ROOTS[account].format(user=user, agent=agent)


def agent_root(account: str, user: str, agent: str) -> str:
    return AGENT_ROOTS[account].format(user=user, agent=agent)


@dataclass(frozen=True)
class As:
    """Requests of one identity; every method answers with the raw response or its result."""

    http: httpx.Client
    account: str | None = None
    user: str | None = None
    agent: str | None = None
    role: str | None = None
    key: str = ROOT_KEY
    more: dict[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        named = {
            "X-API-Key": self.key,
            "X-OpenViking-Account": self.account,
            "X-OpenViking-User": self.user,
            "X-OpenViking-Agent": self.agent,
            "X-OpenViking-Role": self.role,
        }
        return {name: value for name, value in named.items() if value is not None} | self.more

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:
        return self.http.request(method, f"{API}{path}", headers=self.headers, **rest)

    def result(self, method: str, path: str, **rest: Any) -> Any:
        answer = self.ask(method, path, **rest)
        assert answer.status_code in {200, 202}, (answer.status_code, answer.text)
        return answer.json()["result"]

    def get(self, path: str, uri: str) -> httpx.Response:
        return self.ask("GET", path, params={"uri": uri})

    def status(self, path: str, uri: str) -> int:
        return self.get(path, uri).status_code

    def names(self, uri: str) -> list[str]:
        """What `ls` shows, by name."""
        listed = self.result("GET", "/fs/ls", params={"uri": uri})
        return [entry["uri"].rsplit("/", 1)[1] for entry in listed]

    def files(self, uri: str = "viking://") -> set[str]:
        """Every file that `tree` shows."""
        found = self.result("GET", "/fs/tree", params={"uri": uri})
        return {entry["uri"] for entry in found if not entry["isDir"]}

    def write(self, uri: str, content: str) -> httpx.Response:
        return self.ask("POST", "/content/write", json={"uri": uri, "content": content})

    def put(self, uri: str, content: str) -> str:
        answer = self.write(uri, content)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["result"]["uri"])

    def text(self, uri: str) -> str:
        return str(self.result("GET", "/content/read", params={"uri": uri}))

    def find(self, query: str = "anything", **body: Any) -> httpx.Response:
        return self.ask("POST", "/search/find", json={"query": query, **body})

    def found(self, query: str = "anything", **body: Any) -> set[str]:
        """The addresses a search finds: by default everything of level 2."""
        answer = self.find(query, **({"level": 2, "limit": 10_000} | body))
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        hits = [*result["memories"], *result["resources"], *result["skills"]]
        assert result["total"] == len(hits)
        return {hit["uri"] for hit in hits}

    def say(self, session: str, *messages: dict[str, Any]) -> httpx.Response:
        path = f"/sessions/{session}/messages/batch"
        return self.ask("POST", path, json={"messages": list(messages)})

    def commit(self, session: str) -> dict[str, Any]:
        """Commit and wait for the extraction; its task."""
        accepted = self.result("POST", f"/sessions/{session}/commit", json={})
        assert accepted["status"] == "accepted"
        end_s = time.monotonic() + 10
        while time.monotonic() < end_s:
            task: dict[str, Any] = self.result("GET", f"/tasks/{accepted['task_id']}")
            if task["status"] in {"completed", "failed", "cancelled"}:
                return task
            time.sleep(0.005)
        raise AssertionError("the extraction did not end")


@contextmanager
def running(folder: Path, auth: AuthMode = AuthMode.TRUSTED) -> Iterator[httpx.Client]:
    settings = EmbeddedSettings(
        data_dir=folder,
        profile=ServerProfile.NAMESPACE,
        auth=auth,
        root_key=None if auth is AuthMode.DEV else ROOT_KEY,
    )
    with EmbeddedServer(settings) as server, httpx.Client(base_url=server.url) as client:
        yield client


def make_accounts(http: httpx.Client) -> dict[str, dict[str, Any]]:
    """An account in each topology; what creation answered, by account."""
    root = As(http)
    made: dict[str, dict[str, Any]] = {}
    for account, (by_agent, by_user) in TOPOLOGIES.items():
        body = {
            "account_id": account,
            "admin_user_id": "boss",
            "isolate_user_scope_by_agent": by_agent,
            "isolate_agent_scope_by_user": by_user,
        }
        made[account] = root.result("POST", "/admin/accounts", json=body)
    return made
