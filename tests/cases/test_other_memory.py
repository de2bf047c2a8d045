"""Reports about other memory backends: turns that wait, outages nobody sees, budgets that leak."""
# ruff: noqa: N802 - a test is named by its case

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_manager.contract import MemoryManagerError
from tests.cases.field_cases import ai, case, human
from tests.cases.rig import (
    KEY,
    Log,
    Make,
    both,
    check_phases,
    config,
    ids,
    in_threads,
    read_budget,
    remember,
    takes,
    until,
)

Serve = Callable[..., ScriptedServer]
TURN = [human("x", "h1"), ai("y", "a1")]


def test_OM_01_end_of_turn_sync_ends_with_its_budget(serve: Serve, gateway: Make) -> None:
    server = serve(Rule(on="batch", do="hang"))
    one = gateway(server, colour="async", budgets={"add_seconds": 1.0})

    async def run(thread_id: str) -> str:
        """Answer, then remember, as the host's run does."""
        answer = "the answer"
        await one.manager.aadd(thread_id, list(TURN), user_id="u1")
        return answer

    async def scenario() -> list[str]:
        first = asyncio.create_task(run("t1"))
        await asyncio.sleep(0.1)
        return [await run("t2"), await first]

    with takes(1.1):
        answers = one.run(scenario())
    assert answers == ["the answer"] * 2
    assert one.outcomes("add") == {"pending": 2}


DOWN = {
    "ok empty": ("empty", Rule(on="find", do="ok")),
    "status 503": ("degraded_unavailable", Rule(on="find", do="status", code=503)),
    "hang": ("degraded_deadline", Rule(on="find", do="hang")),
    "refuse": ("degraded_unavailable", Rule(on="any", do="refuse")),
}


@both
@pytest.mark.parametrize("variant", case("OM-03").rules[0]["variants"])
def test_OM_03_outage_is_told_apart_from_an_empty_memory(
    serve: Serve, gateway: Make, colour: str, variant: str
) -> None:
    """Overruled in one point: one failed call is no outage yet; the status turns when a breaker
    opened or three attempts in a row failed, so the call is made as often."""
    outcome, rule = DOWN[variant]
    one = gateway(serve(rule), colour=colour, budgets=read_budget(0.4))
    assert one.search("tea") == []
    assert one.outcomes("search") == {outcome: 1}
    for _ in range(2):
        assert one.search("tea") == []
    status = one.manager.status()
    healthy = variant == "ok empty"
    assert status["healthy"] is healthy
    assert bool(status["why"]) is not healthy
    assert bool(status["next"]) is not healthy
    assert one.metric("up") == healthy


WITHOUT_HTTPX = """
import sys
sys.modules["httpx"] = None
import resilient_ov_manager
resilient_ov_manager.OpenVikingMemoryManager
"""


def test_OM_05_missing_library_is_an_error_that_names_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTPX],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "httpx" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"base_url": "ftp://x"}, "base_url"),
        ({"failure_policy": {"read": "open"}}, r"failure_policy\.read"),
        ({"api_key_env": "FIELD_CASES_UNSET"}, "FIELD_CASES_UNSET"),
    ],
    ids=["url", "policy", "key"],
)
def test_OM_05_unusable_configuration_builds_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], named: str
) -> None:
    monkeypatch.setenv("FIELD_CASES_KEY", "SECRET3")
    with pytest.raises(ValueError, match=named) as told:
        OpenVikingMemoryManager.from_config(config("http://127.0.0.1:1", tmp_path, wrong))
    assert "SECRET3" not in str(told.value)


@both
def test_OM_06_fail_closed_read_raises_the_hosts_error(
    serve: Serve, gateway: Make, colour: str
) -> None:
    one = gateway(
        serve(Rule(on="find", do="hang")),
        colour=colour,
        failure_policy={"read": "fail_closed"},
        budgets=read_budget(0.5),
    )
    for read in (one.get_context, one.search):
        with takes(0.5), pytest.raises(MemoryManagerError) as raised:
            read()
        text = str(raised.value)
        assert "operation=search" in text
        assert "time was spent" in text
        assert "request_id=" in text
        assert KEY not in text
        assert "127.0.0.1" not in text


def test_OM_06_cancelled_read_is_cancelled_at_once(serve: Serve, gateway: Make) -> None:
    one = gateway(
        serve(Rule(on="find", do="hang")),
        colour="async",
        failure_policy={"read": "fail_closed"},
        budgets=read_budget(5.0),
    )

    async def scenario() -> None:
        task = asyncio.create_task(one.manager.aget_context("u1"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with takes(0.1):
        one.run(scenario())
    assert one.outcomes("get_context") == {"cancelled": 1}


def test_OM_07_server_that_works_one_at_a_time_gets_everything_once(
    serve: Serve, gateway: Make
) -> None:
    """The settle time is longer than the server's queue, as it has to be."""
    server = serve(Rule(on="batch", do="serial_delay", seconds=0.4))
    one = gateway(server, budgets={"add_seconds": 1.0}, session={"settle_seconds": 3.0})

    def add(at: int) -> None:
        with takes(1.0):
            one.add([human(f"text {at}", f"h{at}"), ai("y", f"a{at}")], f"t{at}")

    in_threads(*(lambda at=at: add(at) for at in range(6)))
    assert one.outcomes("add")["pending"] >= 2
    assert one.attempts("messages.add")["timeout"] >= 2
    assert one.outcomes("add").keys() <= {"ok", "pending"}
    until(lambda: one.metric("pending_writes") == 0, within_s=30)
    in_threads(*(lambda at=at: add(at) for at in range(6)))
    until(lambda: one.metric("pending_writes") == 0, within_s=30)
    for at in range(6):
        assert ids(server, f"t{at}") == [f"h{at}", f"a{at}"]
    assert one.metric("messages_total", result="reconciled") >= 2
    assert one.metric("messages_total", result="duplicated") == 0


HANGING = {
    "health": ("warm", 0.5),
    "ensure": ("add", 0.6),
    "batch": ("add", 0.6),
    "commit": ("add", 0.6),
    "find": ("get_context", 0.3),
    "search": ("search", 0.3),
}


@both
@pytest.mark.parametrize("route", HANGING)
def test_OM_09_every_operation_ends_with_its_budget(
    serve: Serve,
    gateway: Make,
    phases: list[dict[str, float | None]],
    colour: str,
    route: str,
) -> None:
    on: Any = "find" if route == "search" else route
    budgets = {"add_seconds": 0.6, "warm_seconds": 0.5, "health_seconds": 0.5, **read_budget(0.3)}
    one = gateway(
        serve(Rule(on=on, do="hang")), colour=colour, startup_policy="warn", budgets=budgets
    )
    method, budget_s = HANGING[route]
    with takes(budget_s):
        match method:
            case "warm":
                assert one.manager.warm() is False
            case "add":
                one.add(TURN)
            case "get_context":
                assert one.get_context() == ""
            case _:
                assert one.search() == []
    check_phases(phases)
    (outcome,) = one.outcomes(method)
    assert outcome in {"degraded_deadline", "pending"}


@both
def test_OM_11_second_try_is_made_when_an_attempt_has_a_cap(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    server = serve(Rule(on="find", do="hang", nth="1"))
    remember(server)
    one = gateway(server, colour=colour, budgets=read_budget(3.0), retry={"attempt_seconds": 0.5})
    with takes(1.0):
        assert "green tea" in one.get_context()
    assert len(server.requests_to("find")) == 2
    assert one.attempts("search") == {"ok": 1, "timeout": 1}
    assert one.metric("retries_total", operation="search", reason="timeout") == 1
    (retry,) = log.lines("openviking.retry.scheduled")
    assert retry["reason"] == "timeout"


def test_OM_11_span_tells_how_many_attempts_it_took(
    serve: Serve, gateway: Make, spans: Any
) -> None:
    server = serve(Rule(on="find", do="status", code=503, nth="1"))
    remember(server)
    one = gateway(server)
    assert "green tea" in one.get_context()
    (span,) = spans.named("openviking.get_context")
    assert span.attributes["openviking.attempts"] == 2
    (retry,) = (e for e in span.events if e.name == "openviking.retry.scheduled")
    assert retry.attributes["openviking.reason"] == "server_error"
