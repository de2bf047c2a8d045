"""Reports about breakers and retries: wedged, deaf, in step, too patient, too eager."""
# ruff: noqa: N802 - a test is named by its case

import asyncio
import datetime as datetime_module
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from resilient_ov import composition
from resilient_ov.adapters import clock
from resilient_ov.policy.breaker import JITTER, Breaker
from resilient_ov.policy.retry import backoff_s
from resilient_ov.policy.rules import Group
from resilient_ov.settings import BreakerSettings, RetrySettings
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.cases.field_cases import ai, case, human
from tests.cases.rig import (
    Gateway,
    Log,
    Make,
    both,
    commits,
    ids,
    in_threads,
    read_budget,
    remember,
    takes,
    until,
)

Serve = Callable[..., ScriptedServer]
ONE_ATTEMPT = {"max_attempts": 1}


def breaker(open_s: float) -> dict[str, float]:
    """Return the case's breaker: opens at the third failure, for about that long."""
    return {
        "consecutive_failures": 3,
        "open_seconds": open_s,
        "max_open_seconds": open_s,
    }


def moves(one: Gateway, group: str) -> dict[tuple[str, str], int]:
    return {
        (sample.labels["from_state"], sample.labels["to_state"]): int(sample.value)
        for family in one.registry.collect()
        for sample in family.samples
        if sample.name == "openviking_breaker_transitions_total"
        and sample.labels["group"] == group
        and sample.value
    }


@both
def test_BR_01_probe_that_proves_nothing_frees_its_place(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(
        Rule(on="find", do="status", code=503, nth="1-3"),
        Rule(on="find", do="status", code=401, nth="4"),
    )
    remember(server)
    one = gateway(server, colour=colour, retry=ONE_ATTEMPT, breaker=breaker(0.2))
    for _ in range(3):
        assert one.get_context() == ""
    assert one.metric("breaker_state", group="recall") == 2
    time.sleep(0.25)
    assert one.get_context() == ""
    assert len(server.requests) == 4
    time.sleep(0.25)
    assert "green tea" in one.get_context()
    assert len(server.requests) == 5
    assert one.metric("breaker_state", group="recall") == 0
    assert moves(one, "recall") == {
        ("closed", "open"): 1,
        ("open", "half_open"): 1,
        ("half_open", "closed"): 1,
    }
    assert "green tea" in one.get_context()


@both
def test_BR_04_late_success_does_not_close_the_breaker(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(
        Rule(on="find", do="delay", seconds=1.0, nth="1"),
        Rule(on="find", do="status", code=503, nth="2-4"),
    )
    remember(server)
    one = gateway(server, retry=ONE_ATTEMPT, breaker=breaker(60), budgets=read_budget(5.0))
    two = gateway(
        server, colour="async", retry=ONE_ATTEMPT, breaker=breaker(60), budgets=read_budget(5.0)
    )
    if colour == "sync":
        answers: list[str] = []
        slow = threading.Thread(target=lambda: answers.append(one.get_context()))
        slow.start()
        until(lambda: server.requests)
        for _ in range(3):
            assert one.get_context() == ""
        assert one.metric("breaker_state", group="recall") == 2
        slow.join()
    else:
        one = two

        async def scenario() -> list[str]:
            slow = asyncio.create_task(two.manager.aget_context("u1"))
            while not server.requests:  # noqa: ASYNC110 - the server lives on threads
                await asyncio.sleep(0.01)
            for _ in range(3):
                assert await two.manager.aget_context("u1") == ""
            assert two.metric("breaker_state", group="recall") == 2
            return [await slow]

        answers = two.run(scenario())
    assert "green tea" in answers[0]
    assert one.metric("breaker_state", group="recall") == 2
    assert moves(one, "recall") == {("closed", "open"): 1}


def test_BR_04_late_failure_does_not_count_after_closing() -> None:
    settings = BreakerSettings(consecutive_failures=3, open_s=1.0)
    found = Breaker(Group.RECALL, settings, lambda: 0.0)
    old, _ = found.enter(0.0, 10.0)
    for _ in range(3):
        found.fail(old, 0.1, 0.1, timeout=False)
    probe, _ = found.enter(5.0, 10.0)
    found.succeed(probe, 5.1, 0.1)
    for _ in range(3):
        assert found.fail(old, 5.2, 5.0, timeout=False) is None
    assert found.view().state == "closed"


@both
def test_BR_05_client_errors_are_no_outage(serve: Serve, gateway: Make, colour: str) -> None:
    codes = (400, 404, 413, 422)
    rules = [
        Rule(on="find", do="status", code=code, nth=str(4 * turn + at + 1))
        for turn in range(10)
        for at, code in enumerate(codes)
    ]
    server = serve(*rules)
    one = gateway(server, colour=colour, breaker=breaker(60))
    for _ in range(40):
        assert one.get_context() == ""
    assert len(server.requests) == 40
    assert one.metric("breaker_state", group="recall") == 0
    assert moves(one, "recall") == {}
    assert one.attempts("search") == {"client_error": 40}
    assert one.outcomes("get_context") == {"degraded_protocol": 40}


@both
@pytest.mark.parametrize("users", [1, 5])
def test_BR_07_permanent_refusal_is_not_asked_again(
    serve: Serve,
    gateway: Make,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    colour: str,
    users: int,
) -> None:
    """Overruled in one number: an outage is a line per group and operation, so a few more than
    three; they do not grow with the turns."""
    monkeypatch.setattr(composition, "_KEY_EVERY_S", 0.1)
    key = tmp_path / "key"
    key.write_text("old-key\n")
    server = serve(Rule(on="any", do="status", code=403))
    for user in range(users):
        remember(server, user_id=f"u{user}")
    one = gateway(server, colour=colour, api_key_env=None, api_key_file=str(key))
    for turn in range(200):
        user = f"u{turn % users}"
        assert one.get_context(user) == ""
        one.add([human("x", f"h{turn}"), ai("y", f"a{turn}")], "t1", user_id=user)
    assert len(server.requests) <= 6
    assert len(log.loud()) <= 8
    status = one.manager.status()
    if users > 1:
        assert status["healthy"] is False
        assert {hold["kind"] for hold in status["holds"]} == {"auth_hold"}
    assert set(one.attempts("search")) == {"auth"}
    server.script()
    key.write_text("test-key\n")
    until(lambda: "green tea" in one.get_context("u0"))
    until(lambda: one.metric("pending_writes") == 0)
    assert ids(server, "t1", user_id="u0")[:2] == ["h0", "a0"]


@both
def test_BR_09_write_whose_reply_is_late_is_not_sent_again(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(
        Rule(on="batch", do="apply_then_delay", seconds=2.5),
        Rule(on="commit", do="apply_then_delay", seconds=2.5),
    )
    one = gateway(server, colour=colour, budgets={"add_seconds": 1.0})
    first, second = case("BR-09").turns
    with takes(1.0):
        one.add(first)
    assert len(server.requests_to("batch")) == 1
    assert one.outcomes("add") == {"pending": 1}
    assert one.metric("requests_total", operation="messages.add", status="unknown") == 1
    with takes(1.0):
        one.add(second)
    until(lambda: len(ids(server)) == 4, within_s=30)
    server.script()
    until(lambda: one.metric("pending_writes") == 0, within_s=30)
    until(lambda: one.state()["pending_commit_since"] is None, within_s=30)
    assert ids(server) == ["h1", "a1", "h2", "a2"]
    assert len(server.requests_to("batch")) == 2
    assert one.metric("messages_total", result="duplicated") == 0
    assert commits(server) <= 2


@both
def test_BR_11_budget_bounds_attempts_and_retries(
    serve: Serve, gateway: Make, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    server = serve(Rule(on="find", do="hang"))
    retry = {"max_attempts": 3, "attempt_seconds": 10}
    one = gateway(server, colour=colour, retry=retry, budgets=read_budget(0.5))
    for read in (one.get_context, one.search):
        with takes(0.5):
            assert not read()
    assert len(server.requests) == 2


def retry_waits(log: Log) -> list[float]:
    return [line["duration_ms"] / 1000 for line in log.lines("openviking.retry.scheduled")]


def fullest_bin(seconds: list[float]) -> int:
    return max(Counter(int(s / 0.01) for s in seconds).values())


def test_BR_12_retries_of_many_clients_are_spread(
    serve: Serve, gateway: Make, log: Log, tmp_path: Path
) -> None:
    failed: set[str] = set()

    def first_of_its_client(request: Any) -> bool:
        client = request.headers["x-openviking-account"]
        return client not in failed and not failed.add(client)

    server = serve(Rule(on="find", do="status", code=503, when=first_of_its_client))
    retry = {"initial_seconds": 0.1, "max_seconds": 0.4}
    for number in range(60):
        one = gateway(server, account=f"client-{number}", retry=retry)
        one.get_context()
        assert one.attempts("search") == {"ok": 1, "server_error": 1}
        one.close()
    waits = retry_waits(log)
    assert len(waits) == 60
    assert all(0 <= wait_s <= 0.4 for wait_s in waits)
    assert fullest_bin(waits) <= 18


def test_BR_12_waits_and_probes_of_sixty_clients_differ() -> None:
    draw = Random(1)
    retry = RetrySettings(initial_s=0.1, max_s=0.4)
    waits = [backoff_s(1, draw.random(), retry) for _ in range(60)]
    assert fullest_bin(waits) <= 18
    assert all(0 <= backoff_s(n, draw.random(), retry) <= 0.4 for n in range(1, 60))
    probes: list[float] = []
    for _ in range(60):
        found = Breaker(Group.RECALL, BreakerSettings(open_s=5.0, max_open_s=30.0), draw.random)
        for _ in range(5):
            found.fail(0, 0.0, 0.1, timeout=False)
        probes.append(found.open_until_s)
    assert len(set(probes)) == 60
    assert max(probes) - min(probes) > 0.5 * JITTER * 5.0
    assert fullest_bin([probe / 10 for probe in probes]) <= 18


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Step the wall clock of the whole process, as an operator may; seconds from the real one."""
    real_time, real_datetime = time.time, datetime_module.datetime
    offset = 0.0

    class Stepped(real_datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.fromtimestamp(real_time() + offset, tz)

    def step(seconds: float) -> None:
        nonlocal offset
        offset += seconds

    monkeypatch.setattr(time, "time", lambda: real_time() + offset)
    monkeypatch.setattr(clock, "datetime", Stepped)
    return step


DAY_S = 86_400.0


@both
@pytest.mark.parametrize("step_s", [-DAY_S, 3_653 * DAY_S], ids=["back", "forward"])
def test_BR_13_open_period_does_not_follow_the_wall_clock(
    serve: Serve,
    gateway: Make,
    log: Log,
    steps: Callable[[float], None],
    colour: str,
    step_s: float,
) -> None:
    """Overruled in one number: the period is spread by a fifth, so it may end at 0.83 of it."""
    server = serve(Rule(on="find", do="status", code=503, nth="1-3"))
    remember(server)
    one = gateway(server, colour=colour, retry=ONE_ATTEMPT, breaker=breaker(2.0))
    for _ in range(3):
        one.get_context()
    opened_s = time.monotonic()
    steps(step_s)
    assert one.get_context() == ""
    assert len(server.requests) == 3
    with takes(2.0):
        until(lambda: one.get_context() or time.sleep(0.05))
    assert time.monotonic() - opened_s >= 2.0 / 1.2 - 0.1
    assert one.metric("breaker_state", group="recall") == 0
    for line in log.lines():
        assert line.get("duration_ms", 0) >= 0


@both
def test_BR_13_deadline_does_not_follow_the_wall_clock(
    serve: Serve, gateway: Make, steps: Callable[[float], None], colour: str
) -> None:
    server = serve(Rule(on="find", do="hang"))
    one = gateway(server, colour=colour, budgets=read_budget(0.5))
    stepping = threading.Timer(0.2, lambda: steps(3_653 * DAY_S))
    stepping.start()
    with takes(0.5, at_least_s=0.45):
        assert one.get_context() == ""
    stepping.join()


@both
def test_BR_14_throttling_holds_for_as_long_as_it_says(
    serve: Serve, gateway: Make, colour: str
) -> None:
    """The server throttles for a second instead of for three answers, because the first of them
    holds the calls that would fetch the others."""
    arrived_s: list[float] = []

    def within_a_second(_: Any) -> bool:
        arrived_s.append(time.monotonic())
        return arrived_s[-1] < arrived_s[0] + 1.0

    hint = {"retry-after": "1"}
    server = serve(Rule(on="find", do="status", code=429, headers=hint, when=within_a_second))
    remember(server)
    one = gateway(server, colour=colour, budgets=read_budget(0.5), breaker=breaker(30))
    if colour == "sync":
        in_threads(*[one.get_context] * 3)
    else:
        at_once = [one.manager.aget_context("u1") for _ in range(3)]

        async def scenario() -> None:
            await asyncio.gather(*at_once)

        one.run(scenario())
    with takes(1.0):
        while not one.get_context():
            time.sleep(0.05)
    for _ in range(10):
        assert "green tea" in one.get_context()
    assert one.metric("breaker_state", group="recall") == 0
    assert one.metric("refused_total", group="recall", reason="retry_after") >= 1
    assert 1 <= one.attempts("search")["rate_limited"] <= 3


@both
def test_BR_16_sick_commit_does_not_stop_the_rest(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve(Rule(on="commit", do="status", code=500))
    remember(server)
    one = gateway(server, colour=colour, breaker=breaker(60))
    thread: list[Any] = []
    for turn in range(1, 11):
        assert "green tea" in one.get_context()
        thread += [human("x", f"h{turn}"), ai("y", f"a{turn}")]
        one.add(thread)
    wanted = [message.id for message in thread]
    until(lambda: ids(server) == wanted)
    assert len(server.requests_to("find")) == 10
    until(lambda: one.metric("breaker_state", group="commit") == 2, within_s=20)
    assert len(server.requests_to("commit")) == 3
    for group in ("recall", "append", "session", "host"):
        assert one.metric("breaker_state", group=group) == 0
    assert commits(server) == 0
