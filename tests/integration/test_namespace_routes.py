"""Every data route, called with a foreign identity: refused, and nothing of others comes back."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from resilient_ov.embedded.app import routes_of
from resilient_ov.settings.server import AuthMode, ServerProfile
from tests.integration.namespace_world import (
    TOPOLOGIES,
    As,
    agent_root,
    make_accounts,
    running,
    user_root,
)

SECRET = "heliotrope"
# Not of a tenant: liveness, and what ROOT and ADMIN do.
NO_DATA = {"/health", "/ready"}
ADMIN = "/api/v1/admin/"
SESSION = "/api/v1/sessions/{session_id}"

# What each data route is asked for: a URI of alice's, or her account's session or task.
# `own` = it names no data of others: it must answer, with nothing of alice's in it.
ROWS: dict[str, Any] = {
    "POST /api/v1/sessions": "own",
    "GET /api/v1/sessions": "own",
    f"GET {SESSION}": {},
    f"DELETE {SESSION}": {},
    f"PATCH {SESSION}/config": {"json": {}},
    f"POST {SESSION}/messages": "own",
    f"POST {SESSION}/messages/batch": "own",
    f"POST {SESSION}/commit": {"json": {}},
    f"GET {SESSION}/context": {},
    f"GET {SESSION}/archives/{{archive_id}}": {},
    "POST /api/v1/search/find": {"json": {"query": SECRET, "target_uri": "{uri}"}},
    "POST /api/v1/search/search": {"json": {"query": SECRET, "target_uri": "{uri}"}},
    "GET /api/v1/content/read": {"params": {"uri": "{uri}"}},
    "GET /api/v1/content/abstract": {"params": {"uri": "{uri}"}},
    "GET /api/v1/content/overview": {"params": {"uri": "{uri}"}},
    "POST /api/v1/content/reindex": {"json": {"uri": "{uri}"}},
    "POST /api/v1/content/write": {"json": {"uri": "{uri}", "content": "overwritten"}},
    "GET /api/v1/fs/ls": {"params": {"uri": "{uri}"}},
    "GET /api/v1/fs/stat": {"params": {"uri": "{uri}"}},
    "GET /api/v1/fs/tree": {"params": {"uri": "{uri}"}},
    "DELETE /api/v1/fs": {"params": {"uri": "{uri}", "recursive": "true"}},
    "GET /api/v1/system/status": "own",
    "POST /api/v1/system/consistency": {"json": {"uri": "{uri}"}},
    "GET /api/v1/tasks": "own",
    "GET /api/v1/tasks/{task_id}": {},
    "POST /api/v1/tasks/{task_id}/cancel": {},
}
OWN_BODIES: dict[str, Any] = {
    "POST /api/v1/sessions": {"json": {"session_id": "alices"}},
    f"POST {SESSION}/messages": {"json": {"role": "user", "content": "mine"}},
    f"POST {SESSION}/messages/batch": {"json": {"messages": [{"role": "user", "content": "me"}]}},
}


def _data_routes() -> list[str]:
    return sorted(
        f"{method} {route.path}"
        for route in routes_of(ServerProfile.NAMESPACE)
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
        if route.path not in NO_DATA and not route.path.startswith(ADMIN)
    )


def test_every_data_route_has_a_row() -> None:
    assert _data_routes() == sorted(ROWS)


class Secrets:
    """Alice's memory, session and task in one account, and the keys of others."""

    def __init__(self, http: httpx.Client, account: str, keys: dict[str, str]) -> None:
        self.http = http
        self.account = account
        self.keys = keys
        alice = self.alice = As(http, agent="aa", key=keys["alice"])
        self.uri = alice.put("viking://user/memories/events/secret.md", f"{SECRET} in memory")
        self.case = alice.put("viking://agent/memories/cases/secret.md", f"{SECRET} in a case")
        alice.say("alices", {"role": "user", "content": f"{SECRET} in a session"})
        accepted = alice.result("POST", "/sessions/alices/commit", json={})
        self.task_id = accepted["task_id"]
        alice.say("alices", {"role": "user", "content": f"{SECRET} alive"})
        while alice.result("GET", f"/tasks/{self.task_id}")["status"] != "completed":
            pass

    def call(self, me: As, row: str, uri: str) -> httpx.Response:
        method, path = row.split(" ", 1)
        filled = path.format(session_id="alices", archive_id="archive_001", task_id=self.task_id)
        template = OWN_BODIES.get(row, {}) if ROWS[row] == "own" else ROWS[row]
        return me.ask(method, filled.removeprefix("/api/v1"), **_filled(template, uri))

    def untouched(self) -> bool:
        alice = self.alice
        told = alice.result("GET", "/sessions/alices")
        return (
            alice.text(self.uri) == f"{SECRET} in memory"
            and self.uri in alice.found(SECRET, score_threshold=0.5)
            and (told["message_count"], told["total_message_count"]) == (1, 2)
        )


def _filled(value: Any, uri: str) -> Any:
    match value:
        case dict():
            return {name: _filled(item, uri) for name, item in value.items()}
        case "{uri}":
            return uri
        case _:
            return value


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("routes"), AuthMode.API_KEY) as client:
        yield client


@pytest.fixture(scope="module")
def secrets(http: httpx.Client) -> dict[str, Secrets]:
    root = As(http)
    made = make_accounts(http)
    found: dict[str, Secrets] = {}
    for account in TOPOLOGIES:
        path = f"/admin/accounts/{account}/users"
        keys = {
            user: root.result("POST", path, json={"user_id": user})["user_key"]
            for user in ("alice", "bob", "alice2")
        }
        by_agent, by_user = TOPOLOGIES[account]
        other = {
            "account_id": f"{account}-eve",
            "admin_user_id": "eve",
            "isolate_user_scope_by_agent": by_agent,
            "isolate_agent_scope_by_user": by_user,
        }
        eve = root.result("POST", "/admin/accounts", json=other)
        keys |= {"boss": made[account]["user_key"], "eve": eve["user_key"]}
        found[account] = Secrets(http, account, keys)
    return found


@pytest.mark.parametrize("account", TOPOLOGIES)
@pytest.mark.parametrize("row", ROWS)
def test_an_identity_beyond_the_own_role_is_refused(
    secrets: dict[str, Secrets], account: str, row: str
) -> None:
    scene = secrets[account]
    for who in ("eve", "bob", "alice2"):
        forced = As(scene.http, account, "alice", "aa", key=scene.keys[who])
        assert scene.call(forced, row, scene.uri).status_code == 403
    admin = As(scene.http, f"{account}-eve", "alice", "aa", key=scene.keys["boss"])
    assert scene.call(admin, row, scene.uri).status_code == 403
    assert scene.untouched()


@pytest.mark.parametrize("account", TOPOLOGIES)
@pytest.mark.parametrize("row", ROWS)
def test_another_account_gets_nothing(secrets: dict[str, Secrets], account: str, row: str) -> None:
    """Eve administers an account with the same policy; nothing she names there is alice's."""
    scene = secrets[account]
    eve = As(scene.http, agent="aa", key=scene.keys["eve"])
    answer = scene.call(eve, row, scene.uri)
    if ROWS[row] == "own":
        assert answer.status_code == 200
        assert SECRET not in answer.text
        eve.ask("DELETE", "/sessions/alices")
    else:
        _refused(answer)
    assert scene.untouched()


@pytest.mark.parametrize("account", TOPOLOGIES)
@pytest.mark.parametrize("row", [row for row in ROWS if "{uri}" in str(ROWS[row])])
@pytest.mark.parametrize("who", ["bob", "alice2", "boss", "another agent"])
def test_another_user_or_agent_of_the_account_gets_no_address(
    secrets: dict[str, Secrets], account: str, row: str, who: str
) -> None:
    scene = secrets[account]
    agent, key = ("ab", "alice") if who == "another agent" else ("aa", who)
    me = As(scene.http, agent=agent, key=scene.keys[key])
    by_agent, by_user = TOPOLOGIES[account]
    if who != "another agent" or by_agent:
        _refused(scene.call(me, row, scene.uri))
        _refused(scene.call(me, row, user_root(account, "alice", "aa")))
    if who == "another agent" or by_user:
        _refused(scene.call(me, row, scene.case))
        _refused(scene.call(me, row, agent_root(account, "alice", "aa")))
    assert scene.untouched()


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_a_search_without_target_shows_nothing_of_others(
    secrets: dict[str, Secrets], account: str
) -> None:
    scene = secrets[account]
    by_agent, by_user = TOPOLOGIES[account]
    for who, agent in (("bob", "ab"), ("alice2", "aa_"), ("boss", "ab"), ("eve", "ab")):
        me = As(scene.http, agent=agent, key=scene.keys[who])
        assert me.found(SECRET, level=None, score_threshold=0.5) == set()
    shared_agent = As(scene.http, agent="aa", key=scene.keys["bob"])
    found = shared_agent.found(SECRET, score_threshold=0.5)
    assert found == (set() if by_user else {scene.case})
    other_agent = As(scene.http, agent="ab", key=scene.keys["alice"])
    found = other_agent.found(SECRET, score_threshold=0.5)
    assert found == (set() if by_agent else {scene.uri})


@pytest.mark.parametrize("row", ROWS)
def test_no_key_and_a_wrong_one_get_nothing(secrets: dict[str, Secrets], row: str) -> None:
    scene = secrets["acme-tt"]
    for key in ("", "wrong"):
        nobody = As(scene.http, "acme-tt", "alice", "aa", key=key)
        assert scene.call(nobody, row, scene.uri).status_code == 401
    assert scene.untouched()


def _refused(answer: httpx.Response) -> None:
    assert answer.status_code in {403, 404}, (answer.status_code, answer.text)
    assert SECRET not in _foreign_text(answer)


def _foreign_text(answer: httpx.Response) -> str:
    """The answer without the caller's own words, which an error may repeat."""
    return re.sub(r"viking://\S*", "", answer.text)
