"""Reports about clients of OpenViking: identity, envelopes, commits, long threads, health."""
# ruff: noqa: N802 - a test is named by its case

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from resilient_ov.domain.namespace import HomeView
from resilient_ov.domain.recall import ServerHit, select
from resilient_ov.testing.fake_wire import FakeAuth, FakeRequest
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.contract import MemoryManagerError
from tests.cases.field_cases import ai, case, dialogue, human
from tests.cases.rig import (
    KEY,
    Log,
    Make,
    both,
    commits,
    hashed,
    ids,
    memory_uri,
    read_budget,
    remember,
    session,
    stored,
    takes,
    texts,
    until,
)

Serve = Callable[..., ScriptedServer]
HEALTHY = Rule(on="health", do="ok")


def names_a_tenant(request: FakeRequest) -> bool:
    return bool({"x-openviking-account", "x-openviking-user"} & set(request.headers))


@both
def test_OV_01_user_key_is_sent_without_tenant_headers(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(
        Rule(on="any", do="status", code=403, when=names_a_tenant), auth=FakeAuth.API_KEY
    )
    server.store.remember("default", "owner", "I live in Oslo", score=0.9)
    one = gateway(server, colour=colour, auth_mode="api_key", owner_user_id="u1")
    one.add(case("OV-01").messages)
    assert "I live in Oslo" in one.get_context()
    assert [hit["content"] for hit in one.search("where")] == ["I live in Oslo"]
    assert [s for s in server.requests if names_a_tenant(s.request)] == []
    for route in ("ensure", "batch", "commit", "find"):
        seen = server.requests_to(route)  # type: ignore[arg-type]
        assert seen
        assert {s.request.headers["x-api-key"] for s in seen} == {KEY}
    assert ids(server) == ["h1", "a1"]
    assert commits(server) == 1


@both
def test_OV_02_wrong_role_is_told_as_auth_and_not_hammered(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    """Overruled in one point: an outage is told once per group, and after two identities were
    refused the whole host is held beside the recalls."""
    forbidden = Rule(on="any", do="status", code=403)
    server = serve(HEALTHY, forbidden)
    one = gateway(server, colour=colour)
    with pytest.raises(MemoryManagerError, match="key or identity"):
        one.manager.warm()
    before = len(server.requests)
    for _ in range(20):
        assert one.get_context() == ""
    assert len(server.requests) - before <= 5
    assert one.metric("retries_total", operation="search", reason="server_error") == 0
    assert set(one.attempts("search")) == {"auth"}
    assert one.outcomes("get_context")["degraded_auth"] >= 1
    assert set(one.outcomes("get_context")) <= {"degraded_auth", "degraded_refused"}
    degraded = log.lines("openviking.degraded")
    assert {(line["level"], line["reason"]) for line in degraded} == {("ERROR", "auth")}
    assert sorted(line["group"] for line in degraded) == ["host", "recall"]
    assert KEY not in log.text


@both
def test_OV_03_silent_server_costs_the_read_budget_once(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    """Overruled in one point: a failure is one line per event name, so the search that failed
    and the outage that began are a line each."""
    one = gateway(serve(Rule(on="find", do="hang")), colour=colour, budgets=read_budget(0.5))
    with takes(0.5):
        assert one.get_context() == ""
    (line,) = log.lines("openviking.degraded")
    assert (line["level"], line["reason"]) == ("WARNING", "deadline")
    assert len(log.lines("openviking.search", level=30)) == 1
    assert one.outcomes("get_context") == {"degraded_deadline": 1}


@both
@pytest.mark.parametrize("setting", case("OV-05").input["matrix"], ids=str)
def test_OV_05_configured_read_budget_is_the_one_that_counts(
    serve: Serve, gateway: Make, colour: str, setting: dict[str, float]
) -> None:
    budget_s = setting["read_budget_s"]
    server = serve(Rule(on="find", do="delay", seconds=1.0))
    remember(server)
    one = gateway(server, colour=colour, budgets=read_budget(budget_s))
    if budget_s < 1.0:
        with takes(budget_s, at_least_s=budget_s - 0.05):
            assert one.get_context() == ""
    else:
        with takes(1.0, at_least_s=1.0):
            assert "green tea" in one.get_context()


def null_or_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return not value or any(map(null_or_empty, value.values()))
    if isinstance(value, list):
        return any(map(null_or_empty, value))
    return value is None


@both
def test_OV_07_search_sends_only_what_the_contract_knows(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    """Overruled in one point: a log line carries the status and our error's class; the server's
    code is none of its fields."""
    # The server behind the script refuses unknown and null fields by itself.
    server = serve()
    remember(server, "I drink green tea")
    one = gateway(server, colour=colour)
    assert [hit["content"] for hit in one.search("tea", top_k=3, category=None)]
    assert "green tea" in one.get_context()
    for seen in server.requests_to("find"):
        assert not null_or_empty(seen.body)
        assert "top_k" not in seen.body
    server.script(Rule(on="find", do="status", code=400))
    before = len(server.requests)
    assert one.search("tea", top_k=3) == []
    assert len(server.requests) == before + 1
    assert one.outcomes("search")["degraded_protocol"] == 1
    (line,) = log.lines("openviking.search", level=30)
    assert (line["status_code"], line["error_type"]) == (400, "OpenVikingProtocolError")


@both
def test_OV_08_error_envelope_under_200_is_a_failure(
    serve: Serve, gateway: Make, colour: str
) -> None:
    """Overruled in one point: an answer that is no clean success may hide an effect, so the
    batch is settled by two looks before it is sent again."""
    failing, missing = (rule["json"] for rule in case("OV-08").rules)
    server = serve(
        Rule(on="batch", do="status", code=200, json=failing, nth="1"),
        Rule(on="find", do="status", code=200, json=missing),
    )
    breaker = {"consecutive_failures": 1, "open_seconds": 0.5}
    one = gateway(server, colour=colour, breaker=breaker)
    one.add(case("OV-08").messages)
    assert one.state()["submitted_message_ids"] == []
    assert server.requests_to("commit") == []
    assert one.get_context() == ""
    assert one.attempts("messages.add") == {"server_error": 1}
    assert one.attempts("search") == {"server_error": 1}
    for group in ("append", "recall"):
        assert one.metric("breaker_state", group=group) == 2
    one.add(case("OV-08").messages)
    assert until(lambda: commits(server), within_s=20)
    assert ids(server) == ["h1", "a1"]
    assert len(server.requests_to("batch")) == 2


@both
def test_OV_09_commit_whose_reply_was_lost_is_made_once(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(Rule(on="commit", do="apply_then_drop", nth="1"))
    one = gateway(server, colour=colour)
    for turn in case("OV-09").turns:
        one.add(turn)
    until(lambda: one.state()["pending_commit_since"] is None)
    assert commits(server) == 1
    assert len(server.requests_to("batch")) == 1
    assert ids(server) == ["h1", "a1"]


@both
def test_OV_11_long_thread_goes_on_where_a_batch_failed(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(Rule(on="batch", do="status", code=503, nth="2+"))
    one = gateway(server, colour=colour)
    thread = dialogue(250)
    wanted = [m.id for m in thread]
    one.add(thread)
    assert ids(server) == wanted[:100]
    assert server.requests_to("commit") == []
    server.script()
    one.add(thread)
    until(lambda: commits(server))
    assert ids(server) == wanted
    sizes = [len(seen.body["messages"]) for seen in server.requests_to("batch")]
    assert max(sizes) <= 100
    routes = [seen.route for seen in server.requests]
    assert "batch" not in routes[routes.index("commit") :]


@both
def test_OV_13_backlog_of_an_outage_drains_by_itself(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(Rule(on="any", do="refuse"))
    one = gateway(
        server,
        colour=colour,
        budgets={"add_seconds": 2.0},
        breaker={"open_seconds": 0.3, "max_open_seconds": 0.3},
    )
    for turn in range(1, 61):
        with takes(2.0):
            one.add(dialogue(2 * turn))
    assert one.metric("pending_writes") == 120
    server.script()
    thread = dialogue(122)
    for _ in range(3):
        one.add(thread)
    seen: list[float] = []
    until(lambda: seen.append(one.metric("pending_writes")) or seen[-1] == 0)
    assert seen == sorted(seen, reverse=True)
    assert ids(server) == [m.id for m in thread]


@pytest.mark.parametrize("policy", ["fail_fast", "warn"])
def test_OV_15_green_health_is_no_proof_of_memory(serve: Serve, gateway: Make, policy: str) -> None:
    """Overruled in two points: readiness says nothing about the models, so a start-up that may
    fail makes a real find instead, and one that only warns asks for the health alone; `up` turns
    0 at the third failed attempt in a row."""
    began_s = time.monotonic()
    server = serve(
        HEALTHY,
        Rule(on="ready", do="status", code=503),
        Rule(on="find", do="status", code=500, when=lambda _: time.monotonic() < began_s + 1.0),
    )
    remember(server)
    one = gateway(server, startup_policy=policy, budgets={"warm_seconds": 0.8})
    if policy == "fail_fast":
        with takes(0.8), pytest.raises(MemoryManagerError, match="the server failed"):
            one.manager.warm()
        assert one.outcomes("warm") == {"degraded_unavailable": 1}
        return
    assert one.manager.warm() is True
    assert one.get_context() == ""
    assert one.get_context() == ""
    assert one.metric("up") == 0
    time.sleep(max(0.0, began_s + 1.05 - time.monotonic()))
    assert "green tea" in one.get_context()
    assert one.metric("up") == 1


def odd_scores() -> bytes:
    """Return the case's body with addresses that the user may see."""
    body: str = case("OV-17").rules[0]["body"]
    for name in "abcde":
        body = body.replace(f'"viking://{name}"', f'"{memory_uri(name)}"')
    return body.encode()


@both
def test_OV_17_scores_that_are_no_numbers_sort_last_and_stay_json(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(Rule(on="find", do="raw", code=200, body=odd_scores()))
    one = gateway(server, colour=colour)
    found = one.search("q", top_k=5)
    json.dumps(found, allow_nan=False)
    assert found[0]["content"] == "C"
    assert {hit["content"] for hit in found} >= {"A", "B", "C"}
    assert {hit["score"] for hit in found if hit["content"] in "AB"} == {0.0}
    assert "C" in one.get_context()


def test_OV_17_score_threshold_keeps_numbers_only() -> None:
    raw = {"A": float("nan"), "B": float("inf"), "C": 0.9, "D": 0.8}
    chosen = select(
        [ServerHit(uri=memory_uri(text), text=text, score=score) for text, score in raw.items()],
        view=HomeView(user=hashed()),
        score_threshold=0.5,
    )
    assert [hit.text for hit in chosen.hits] == ["C", "D"]


@both
@pytest.mark.parametrize("query", ["", "   ", "\u3000\n\t"], ids=ascii)
def test_OV_18_blank_query_asks_nobody(
    serve: Serve, gateway: Make, colour: str, query: str
) -> None:
    server = serve(Rule(on="find", do="status", code=400))
    one = gateway(server, colour=colour)
    assert one.search(query) == []
    assert one.get_context(query=query) == ""
    assert server.connections == 0
    assert one.outcomes("search") == {"empty": 1}
    assert one.attempts("search") == {}


@both
def test_OV_20_extraction_that_never_ends_holds_nobody(
    serve: Serve, gateway: Make, colour: str
) -> None:
    accepted, running = (rule["json"] for rule in case("OV-20").rules)
    server = serve(
        Rule(on="commit", do="ok", json=accepted), Rule(on="tasks", do="ok", json=running)
    )
    one = gateway(server, colour=colour)
    with takes(0.5):
        one.add(case("OV-20").messages)
    assert server.requests_to("tasks") == []
    with takes(1.0):
        assert one.manager.shutdown_flush(1.0) is True
    assert one.state()["last_commit_task_id"] == "t-1"


@both
def test_OV_22_interleaved_threads_stay_apart(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve()
    one = gateway(server, colour=colour)
    first = [human("h1", "h1"), ai("a1", "a1")]
    one.add(first, "t1")
    one.add([human("k1", "k1"), ai("b1", "b1")], "t2")
    one.add([*first, human("h2", "h2"), ai("a2", "a2")], "t1")
    assert ids(server, "t1") == ["h1", "a1", "h2", "a2"]
    assert ids(server, "t2") == ["k1", "b1"]
    assert len(server.store.sessions()) == 2
    written: list[str] = []
    for seen in server.requests:
        parts = seen.request.path.split("/")
        if seen.route == "batch":
            written.append(parts[4])
        elif seen.route == "commit":
            assert parts[4] == written[-1]
    assert written == [session("t1"), session("t2"), session("t1")]


def test_OV_22_what_is_stored_says_which_thread(serve: Serve, gateway: Make) -> None:
    server = serve()
    one = gateway(server)
    one.add([human("h1", "h1")], "t1")
    assert texts(server, "t1") == ["h1"]
    assert stored(server, "t2") == []
