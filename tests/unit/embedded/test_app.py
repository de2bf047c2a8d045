"""Routes over ASGI that the recorded exchanges do not reach."""

import asyncio
from typing import Any

import httpx
import pytest

from resilient_ov.settings.server import AuthMode
from tests.unit.embedded.conftest import ROOT_KEY, TRUSTED, OpenClient

API = "/api/v1"


def _batch(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts]}


async def _ended(client: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    while True:
        task: dict[str, Any] = (await client.get(f"{API}/tasks/{task_id}")).json()["result"]
        if task["status"] in {"completed", "failed", "cancelled"}:
            return task


async def _until_deleted(client: httpx.AsyncClient) -> None:
    while (await client.get(f"{API}/sessions")).status_code == 412:
        pass


async def _remember(client: httpx.AsyncClient, session: str, *texts: str) -> dict[str, Any]:
    await client.post(f"{API}/sessions/{session}/messages/batch", json=_batch(*texts))
    committed = await client.post(f"{API}/sessions/{session}/commit")
    return await _ended(client, committed.json()["result"]["task_id"])


async def _found(client: httpx.AsyncClient, query: str, **headers: str) -> list[str]:
    body = {"query": query, "level": 2, "score_threshold": 0.55}
    found = await client.post(f"{API}/search/find", json=body, headers=headers)
    return [hit["abstract"] for hit in found.json()["result"]["memories"]]


def test_what_a_user_says_is_found_by_that_user_only(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            task = await _remember(client, "s1", "I prefer concise technical explanations.")
            assert task["result"]["memories_extracted"] == {"memory_write": 1}
            query = "how should technical explanations look"
            assert await _found(client, query) == ["User prefers concise technical explanations."]
            for other in ({"X-OpenViking-User": "bob"}, {"X-OpenViking-Account": "other"}):
                assert await _found(client, query, **other) == []

    asyncio.run(scenario())


def test_nothing_worth_remembering_completes_with_nothing(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            task = await _remember(client, "s1", "hello")
            assert (task["status"], task["result"]["memories_extracted"]) == ("completed", {})

    asyncio.run(scenario())


def test_profile_sentences_gather_in_one_file(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            await _remember(client, "s1", "My name is Bob.")
            await _remember(client, "s2", "I live in Rome. My name is Bob.")
            read = await client.get(f"{API}/content/read?uri=viking://~/memories/profile.md")
            assert read.json()["result"] == "User's name is Bob.\nUser lives in Rome."

    asyncio.run(scenario())


def test_a_policy_bounds_what_is_remembered(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            policy = {"memory_types": ["profile", "preferences"], "peer": {"enabled": False}}
            created = {"session_id": "s1", "memory_policy": policy}
            await client.post(f"{API}/sessions", json=created)
            said = {"role": "user", "content": "I like boats.", "peer_id": "bob"}
            await client.post(f"{API}/sessions/s1/messages", json=said)
            task = await _remember(client, "s1", "I like tea. We decided to go.")
            assert task["result"]["effective_memory_types"] == ["preferences", "profile"]
            assert await _found(client, "preferences") == ["User likes tea."]

    asyncio.run(scenario())


def test_events_carry_the_tags_of_their_session(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            await client.get(f"{API}/sessions/s1?auto_create=true")
            config = {"memory_extraction_config": {"events": {"tags": ["team=core"]}}}
            changed = await client.patch(f"{API}/sessions/s1/config", json=config)
            assert changed.json()["result"]["memory_extraction_config"]["events"]["tags"]
            same = await client.patch(f"{API}/sessions/s1/config", json={})
            assert same.json()["result"]["memory_extraction_config"]["events"]["tags"]
            await _remember(client, "s1", "We decided to use Kafka.")
            body = {"query": "kafka", "tags": ["team=core"]}
            found = (await client.post(f"{API}/search/find", json=body)).json()["result"]
            assert found["total"] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/sessions", {"session_id": "x", "auto_commit_policy": {}}),
        ("PATCH", "/sessions/s1/config", {"auto_commit_policy": {}}),
        ("POST", "/search/search", {"query": "x", "mode": "context"}),
        ("POST", "/search/find", {"query": "x", "filter": {"op": "must"}}),
    ],
)
def test_what_is_not_there_says_so(
    open_client: OpenClient, method: str, path: str, body: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            refused = await client.request(method, f"{API}{path}", json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (501, "UNIMPLEMENTED")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PATCH", "/sessions/nope/config", 404),
        ("GET", "/sessions/nope/context", 404),
        ("GET", "/sessions/nope/archives/archive_001", 404),
        ("GET", "/sessions/s1/context?token_budget=0", 400),
        ("GET", "/fs/ls?uri=viking://~/sessions/nope", 404),
        ("GET", "/fs/ls?uri=viking://~/sessions/nope/history", 404),
        ("GET", "/fs/ls?uri=viking://~/memories/nope", 404),
        ("GET", "/fs/stat?uri=viking://~/memories/nope.md", 404),
        ("GET", "/content/read?uri=viking://~/sessions", 400),
        ("GET", "/content/read?uri=viking://~/sessions/nope/x/y", 404),
        ("DELETE", "/fs?uri=viking://~/memories/nope.md", 404),
        ("DELETE", "/fs?uri=viking://~/memories", 400),
        ("DELETE", "/fs?uri=viking://~/sessions/s1", 403),
        ("POST", "/sessions/../messages", 404),
    ],
)
def test_refusals(open_client: OpenClient, method: str, path: str, status: int) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            refused = await client.request(method, f"{API}{path}")
            assert (refused.status_code, refused.json()["status"]) == (status, "error")

    asyncio.run(scenario())


def test_sessions_and_archives_are_a_tree(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            await _remember(client, "s1", "one", "two", "three")
            await client.post(f"{API}/sessions", json={"session_id": "a/b"})

            async def names(uri: str) -> list[str]:
                listed = await client.get(f"{API}/fs/ls", params={"uri": uri})
                return [entry["uri"].rsplit("/", 1)[1] for entry in listed.json()["result"]]

            assert await names("viking://~") == ["memories", "sessions"]
            assert await names("viking://~/memories") == []
            assert await names("viking://~/sessions") == ["s1"]
            assert await names("viking://~/sessions/s1") == ["history", "messages.jsonl"]
            archive = "viking://~/sessions/s1/history/archive_001"
            assert await names("viking://~/sessions/s1/history") == ["archive_001"]
            assert await names(archive) == ["messages.jsonl"]
            for uri, is_directory in (
                (f"{archive}/messages.jsonl", False),
                (archive, True),
                ("viking://~/sessions", True),
                ("viking://", True),
            ):
                stat = await client.get(f"{API}/fs/stat", params={"uri": uri})
                assert stat.json()["result"]["isDir"] is is_directory
            for uri in (f"{archive}/nope", f"{archive}/a/b", f"{archive[:-1]}2"):
                gone = await client.get(f"{API}/fs/stat", params={"uri": uri})
                assert gone.status_code == 404
            page = {"uri": f"{archive}/messages.jsonl", "offset": 1, "limit": 1}
            text = (await client.get(f"{API}/content/read", params=page)).json()["result"]
            assert text.count("\n") == 1
            assert "two" in text

    asyncio.run(scenario())


def test_lists_can_be_cut(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            for name in ("a", "b", "c"):
                await client.post(f"{API}/sessions", json={"session_id": name})
            params = {"uri": "viking://~/sessions", "node_limit": 2}
            listed = (await client.get(f"{API}/fs/ls", params=params)).json()
            assert (len(listed["result"]), listed["has_more"]) == (2, True)

    asyncio.run(scenario())


def test_a_memory_file_is_paged_by_lines(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            await _remember(client, "s1", "My name is Bob. I live in Rome. I work at Acme.")
            page = {"uri": "viking://~/memories/profile.md", "offset": 1, "limit": 1}
            read = await client.get(f"{API}/content/read", params=page)
            assert read.json()["result"] == "User lives in Rome.\n"
            page = {"uri": "viking://~/memories/profile.md", "offset": 2}
            read = await client.get(f"{API}/content/read", params=page)
            assert read.json()["result"] == "User works at Acme."

    asyncio.run(scenario())


def test_a_deleted_user_leaves_nothing(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            await _remember(client, "s1", "I like tea.")
            await _remember_as_bob(client)
            root = {"X-API-Key": ROOT_KEY}
            gone = await client.request(
                "DELETE", f"{API}/admin/accounts/acme/users/alice", headers=root
            )
            assert gone.status_code == 202
            await _until_deleted(client)
            assert (await client.get(f"{API}/sessions")).json()["result"] == []
            assert await _found(client, "tea") == []
            assert await _found(client, "oak", **{"X-OpenViking-User": "bob"}) != []
            await client.request("DELETE", f"{API}/admin/accounts/acme", headers=root)
            await _until_deleted(client)
            assert await _found(client, "oak", **{"X-OpenViking-User": "bob"}) == []

    async def _remember_as_bob(client: httpx.AsyncClient) -> None:
        bob = {"X-OpenViking-User": "bob"}
        said = _batch("I like oak.")
        await client.post(f"{API}/sessions/b/messages/batch", json=said, headers=bob)
        commit = await client.post(f"{API}/sessions/b/commit", headers=bob)
        task_id = commit.json()["result"]["task_id"]
        while True:
            task = await client.get(f"{API}/tasks/{task_id}", headers=bob)
            if task.json()["result"]["status"] == "completed":
                return
            await asyncio.sleep(0)

    asyncio.run(scenario())


def test_admins_administer_their_own_account(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client(AuthMode.API_KEY) as client:
            root = {"X-API-Key": ROOT_KEY}
            keys: dict[str, dict[str, str]] = {}
            for account in ("acme", "other"):
                body = {"account_id": account, "admin_user_id": "boss"}
                made = await client.post(f"{API}/admin/accounts", json=body, headers=root)
                keys[account] = {"X-API-Key": made.json()["result"]["user_key"]}
            user = {"user_id": "alice"}
            for account, status in (("acme", 200), ("other", 403)):
                path = f"{API}/admin/accounts/{account}/users"
                made = await client.post(path, json=user, headers=keys["acme"])
                assert made.status_code == status
            own = await client.get(f"{API}/admin/accounts/acme", headers=root)
            assert own.json()["result"]["user_count"] == 2
            tasks = await client.get(f"{API}/tasks", headers=root)
            assert tasks.json()["result"] == []
            health = await client.get("/health", headers=keys["acme"])
            assert health.json()["user_id"] == "boss"
            assert (await client.get(f"{API}/sessions", headers=keys["acme"])).status_code == 200

    asyncio.run(scenario())


def test_health_with_half_an_identity_is_anonymous(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client(AuthMode.TRUSTED) as client:
            client.headers.clear()
            headers = {name: TRUSTED[name] for name in ("X-API-Key", "X-OpenViking-Account")}
            assert "user_id" not in (await client.get("/health", headers=headers)).json()

    asyncio.run(scenario())


def test_a_defect_is_a_plain_500(open_client: OpenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LookupError("inside")

    async def scenario() -> None:
        async with open_client() as client:
            monkeypatch.setattr("resilient_ov.embedded.sessions.list_all", broken)
            answer = await client.get(f"{API}/sessions")
            assert answer.status_code == 500
            assert answer.json()["error"]["message"] == "Internal server error"
            assert "inside" not in answer.text

    asyncio.run(scenario())


def test_fifty_writers_lose_nothing_and_stay_contiguous(open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with open_client() as client:
            posts = [
                client.post(
                    f"{API}/sessions/s1/messages/batch", json=_batch(f"{n}-first", f"{n}-second")
                )
                for n in range(50)
            ]
            commits = [client.post(f"{API}/sessions/s1/commit") for _ in range(10)]
            answers = await asyncio.gather(*posts, *commits)
            assert {answer.status_code for answer in answers[:50]} == {200}
            await client.post(f"{API}/sessions/s1/commit")
            meta = (await client.get(f"{API}/sessions/s1")).json()["result"]
            assert (meta["total_message_count"], meta["message_count"]) == (100, 0)
            texts: list[str] = []
            for number in range(1, meta["commit_count"] + 1):
                uri = f"viking://~/sessions/s1/history/archive_{number:03d}/messages.jsonl"
                read = await client.get(f"{API}/content/read", params={"uri": uri})
                texts += read.json()["result"].splitlines()
            assert len(texts) == 100
            pairs = zip(texts[::2], texts[1::2], strict=True)
            for first, second in pairs:
                assert _text(first).split("-")[0] == _text(second).split("-")[0]

    def _text(line: str) -> str:
        return line.split('"text": "')[1].split('"')[0]

    asyncio.run(scenario())
