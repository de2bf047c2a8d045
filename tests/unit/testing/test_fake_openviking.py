"""The in-memory OpenViking behind the scripted server answers like the measured one."""

import json
from typing import Any

import pytest

from resilient_ov.domain.namespace import memories_uri
from resilient_ov.testing.fake_openviking import FakeOpenViking
from resilient_ov.testing.fake_wire import FakeAuth, FakeReply, FakeRequest

TRUSTED = {"x-api-key": "test-key", "x-openviking-account": "acme", "x-openviking-user": "u"}
BATCH = "/api/v1/sessions/s/messages/batch"


def ask(
    store: FakeOpenViking,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    **query: str,
) -> FakeReply:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    found = TRUSTED if headers is None else headers
    return store.handle(FakeRequest(method=method, path=path, query=query, headers=found, body=raw))


def result(reply: FakeReply) -> Any:
    assert reply.status == 200, reply
    return reply.content["result"]


def code(reply: FakeReply) -> tuple[int, str]:
    return reply.status, reply.content["error"]["code"]


def message(text: str, *, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text, "source_message_ids": [f"df1-{text}"]}


@pytest.fixture
def store() -> FakeOpenViking:
    return FakeOpenViking()


def test_trusted_mode_wants_key_account_and_user(store: FakeOpenViking) -> None:
    path = "/api/v1/sessions/s"
    assert code(ask(store, "GET", path, headers={})) == (401, "UNAUTHENTICATED")
    only_key = {"x-api-key": "test-key"}
    assert code(ask(store, "GET", path, headers=only_key)) == (400, "INVALID_ARGUMENT")


def test_key_mode_binds_the_key_to_its_owner() -> None:
    store = FakeOpenViking(auth=FakeAuth.API_KEY)
    store.key_owner = ("acme", "owner")
    ask(store, "POST", BATCH, {"messages": [message("a")]})
    assert store.session("acme", "owner", "s") is not None


def test_dev_mode_takes_anybody() -> None:
    store = FakeOpenViking(auth=FakeAuth.DEV)
    ask(store, "POST", BATCH, {"messages": [message("a")]}, headers={})
    assert list(store.sessions()) == [("default", "default", "s")]


def test_health_and_ready(store: FakeOpenViking) -> None:
    assert "user_id" not in ask(store, "GET", "/health", headers={}).content
    assert ask(store, "GET", "/health").content["user_id"] == "u"
    assert ask(store, "GET", "/ready").content["status"] == "ready"


def test_unknown_route_is_not_found(store: FakeOpenViking) -> None:
    assert code(ask(store, "GET", "/api/v1/nope")) == (404, "NOT_FOUND")


def test_session_gets_an_id_when_none_is_asked_for(store: FakeOpenViking) -> None:
    assert result(ask(store, "POST", "/api/v1/sessions"))["session_id"].startswith("session-")


def test_memory_types_of_a_new_session_are_kept(store: FakeOpenViking) -> None:
    body = {"session_id": "s", "memory_policy": {"memory_types": ["profile"]}}
    ask(store, "POST", "/api/v1/sessions", body)
    found = store.session("acme", "u", "s")
    assert found is not None
    assert found.memory_types == ["profile"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": [message("a"), {"role": "user"}]}, ["body", "messages", "1"]),
        ({"messages": [{"content": "a"}]}, ["body", "messages", "0"]),
        ({"messages": [message(str(n)) for n in range(101)]}, ["body", "messages"]),
        (b"not json", ["body"]),
        ([], ["body"]),
    ],
)
def test_bad_batch_is_refused_as_a_whole(
    store: FakeOpenViking, body: Any, place: list[str]
) -> None:
    reply = ask(store, "POST", BATCH, body)
    assert code(reply) == (400, "INVALID_ARGUMENT")
    (error,) = reply.content["error"]["details"]["validation_errors"]
    assert error["loc"] == place
    assert store.sessions() == {}


def test_message_without_source_ids_has_none(store: FakeOpenViking) -> None:
    ask(store, "POST", BATCH, {"messages": [{"role": "user", "content": "a"}, message("b")]})
    assert store.marks("s") == ["", "df1-b"]
    lost = ask(store, "GET", "/api/v1/content/read", uri=memories_uri("profile"))
    assert code(lost) == (404, "NOT_FOUND")


def test_only_completed_extraction_remembers(store: FakeOpenViking) -> None:
    for state, hits in (("failed", 0), ("completed", 1)):
        store.extraction = state
        text = f"green tea {state}"
        batch = [message(text), message("noted", role="assistant")]
        ask(store, "POST", BATCH, {"messages": batch})
        task_id = result(ask(store, "POST", "/api/v1/sessions/s/commit"))["task_id"]
        assert result(ask(store, "GET", f"/api/v1/tasks/{task_id}"))["status"] == state
        found = result(ask(store, "POST", "/api/v1/search/find", {"query": text}))
        assert len(found["memories"]) == hits


def test_tasks_can_be_failed_and_listed(store: FakeOpenViking) -> None:
    ask(store, "POST", BATCH, {"messages": [message("a")]})
    ask(store, "POST", "/api/v1/sessions/s/commit")
    store.fail_tasks()
    path = "/api/v1/tasks"
    assert len(result(ask(store, "GET", path, resource_id="s", status="failed"))) == 1
    assert result(ask(store, "GET", path, resource_id="other")) == []
    assert result(ask(store, "GET", path, status="completed")) == []


def test_find_scores_by_shared_words_above_a_strict_threshold(store: FakeOpenViking) -> None:
    store.remember("acme", "u", "likes green tea")
    store.remember("acme", "u", "likes coffee", score=0.6)
    store.remember("acme", "other", "green tea")
    body = {"query": "green tea", "score_threshold": 0.6}
    (hit,) = result(ask(store, "POST", "/api/v1/search/find", body))["memories"]
    assert (hit["abstract"], hit["score"]) == ("likes green tea", 1.0)


def test_find_keeps_to_its_targets_and_limit(store: FakeOpenViking) -> None:
    for category in ("profile", "events", "events"):
        store.remember("acme", "u", "tea", category=category)
    targets = {"query": "tea", "target_uri": [memories_uri("events")]}
    assert len(result(ask(store, "POST", "/api/v1/search/find", targets))["memories"]) == 2
    limited = {"query": "tea", "node_limit": 1}
    assert len(result(ask(store, "POST", "/api/v1/search/find", limited))["memories"]) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": "x", "top_k": 3}, 400),
        ({"query": "x", "tags": None}, 400),
        ({"query": " "}, 400),
        ({}, 400),
        ({"query": "x", "target_uri": memories_uri().replace("~", "user/other")}, 403),
        ({"query": "x", "target_uri": "http://x"}, 400),
    ],
)
def test_find_is_strict(store: FakeOpenViking, body: dict[str, Any], status: int) -> None:
    assert ask(store, "POST", "/api/v1/search/find", body).status == status


def test_memory_can_be_read(store: FakeOpenViking) -> None:
    uri = store.remember("acme", "u", "likes tea")
    assert result(ask(store, "GET", "/api/v1/content/read", uri=uri)) == "likes tea"


def test_only_a_history_is_listed(store: FakeOpenViking) -> None:
    listing = ask(store, "GET", "/api/v1/fs/ls", uri=memories_uri())
    assert code(listing) == (404, "NOT_FOUND")


def test_session_can_be_lost(store: FakeOpenViking) -> None:
    ask(store, "POST", BATCH, {"messages": [message("a")]})
    store.forget_session("acme", "u", "s")
    assert ask(store, "GET", "/api/v1/sessions/s").status == 404
