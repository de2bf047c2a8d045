"""Reports about what is seen from outside: secrets, noise, silence, series without end."""
# ruff: noqa: N802 - a test is named by its case

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from prometheus_client import CollectorRegistry, generate_latest

from resilient_ov import events
from resilient_ov.assembly import Assembly, Outside, assemble
from resilient_ov.domain.exchange import Answer, Evidence, Failure, FailureKind, Success
from resilient_ov.domain.ports import Attempt
from resilient_ov.drivers import SyncDriver
from resilient_ov.memory import Who
from resilient_ov.settings import Settings
from resilient_ov.testing.clock import ManualClock, ScriptedDice
from resilient_ov.testing.memory_store import MemoryWatermarkStore
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov.testing.workers import ManualWorkers
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from tests.cases.field_cases import ai, case, human
from tests.cases.rig import (
    KEY_ENV,
    Gateway,
    Log,
    Make,
    both,
    config,
    ids,
    in_threads,
    remember,
)

Serve = Callable[..., ScriptedServer]


def shown(one: Gateway, log: Log, spans: Any = None) -> dict[str, str]:
    """Return everything that leaves a gateway, by where it goes."""
    return {
        "log": log.text,
        "metrics": generate_latest(one.registry).decode(),
        "status": json.dumps(one.manager.status()),
        "spans": "" if spans is None else spans.text,
        "repr": f"{one.manager!r} {one.manager}",
    }


def test_OB_01_address_with_secrets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setenv(KEY_ENV, "SECRET3")
    url: str = case("OB-01").input["base_url"].replace("PORT", "1933")
    for wrong in (url, url.replace("bob:SECRET1@", ""), url.split("?")[0]):
        with pytest.raises(ValueError, match="base_url") as told:
            OpenVikingMemoryManager.from_config(config(wrong, tmp_path, {}))
        for text in (str(told.value), repr(told.value), log.text):
            assert "SECRET" not in text


@both
def test_OB_01_echoed_secrets_reach_no_handler(
    serve: Serve,
    gateway: Make,
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
    spans: Any,
    colour: str,
) -> None:
    monkeypatch.setenv("OB_01_KEY", "SECRET3")
    server = serve(Rule(on="any", do="status", code=500, echo=True))
    one = gateway(
        server, colour=colour, api_key_env="OB_01_KEY", failure_policy={"write": "fail_fast"}
    )
    with pytest.raises(Exception, match="the server failed") as raised:
        one.add(case("OB-01").messages)
    assert one.get_context() == ""
    assert one.search("SECRET5 where") == []
    with pytest.raises(Exception, match="server failed"):
        one.manager.warm()
    logging.getLogger("host").warning("run failed", exc_info=raised.value)
    sent = b"".join(s.request.body for s in server.requests)
    assert b"SECRET5" in sent
    for where, text in shown(one, log, spans).items():
        assert "SECRET" not in text, where


KEYS = case("OB-03").input["api_key_values"]


@both
@pytest.mark.parametrize("source", ["variable", "file"])
@pytest.mark.parametrize("value", KEYS, ids=ascii)
def test_OB_03_key_is_stripped_or_refused(
    serve: Serve,
    gateway: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    log: Log,
    colour: str,
    source: str,
    value: str,
) -> None:
    server = serve(key="SECRET3")
    remember(server)
    file = tmp_path / "key"
    file.write_bytes(value.encode())
    monkeypatch.setenv("OB_03_KEY", value)
    named = {"api_key_env": "OB_03_KEY"}
    if source == "file":
        named = {"api_key_env": None, "api_key_file": str(file)}
    if value.strip() == "SECRET3":
        one = gateway(server, colour=colour, **named)
        assert "green tea" in one.get_context()
        assert {s.request.headers["x-api-key"] for s in server.requests} == {"SECRET3"}
        assert "SECRET3" not in "".join(shown(one, log).values())
        return
    where = "OB_03_KEY" if source == "variable" else "api_key_file"
    with pytest.raises(ValueError, match=where) as told:
        gateway(server, colour=colour, **named)
    for text in (str(told.value), repr(told.value), log.text):
        assert "RET3" not in text
        assert "ключ" not in text
    assert server.connections == 0


@pytest.fixture
def instrumented(spans: Any) -> Iterator[Any]:
    """The host's own instrumentation of every HTTP client."""
    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    yield spans
    instrumentor.uninstrument()


SPAN_NAMES = {
    "openviking.get_context", "openviking.search", "openviking.add", "openviking.warm",
    "openviking.flush", "GET", "POST",
}  # fmt: skip


@both
@pytest.mark.parametrize("http_spans", [False, True], ids=["calls", "attempts too"])
def test_OB_04_spans_hold_no_secret_and_no_text(
    serve: Serve,
    gateway: Make,
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
    instrumented: Any,
    colour: str,
    http_spans: bool,
) -> None:
    """The names of the attributes are those of the conventions, and ours below `openviking.`"""
    monkeypatch.setenv("OB_04_KEY", "SECRET3")
    spans = instrumented
    given = case("OB-04").input
    who = {"user_id": given["user_id"]}
    server = serve(Rule(on="find", do="status", code=500, echo=True, nth="3+"), key="SECRET3")
    remember(server, **who)
    one = gateway(
        server, colour=colour, api_key_env="OB_04_KEY", tracing={"http_spans": http_spans}
    )
    one.manager.warm()
    one.add(case("OB-04").messages, given["thread_id"], **who)
    assert one.search(given["query"], **who)
    assert one.search(given["query"], **who) == []
    for text in (*shown(one, log, spans).values(), *(span.name for span in spans.all)):
        for secret in ("SECRET", "alice", "example.com"):
            assert secret not in text
    names = {span.name.split(" ")[0] for span in spans.all}
    assert names <= SPAN_NAMES
    assert ("POST" in names) is http_spans
    calls = spans.named("openviking.search")
    for span, outcome, attempts, status in zip(
        calls, ("ok", "degraded_unavailable"), (1, 2), (200, 500), strict=True
    ):
        assert span.attributes["openviking.call"] == "search"
        assert span.attributes["openviking.outcome"] == outcome
        assert span.attributes["openviking.attempts"] == attempts
        assert span.attributes["http.response.status_code"] == status
        assert span.attributes["openviking.breaker_state"] == "closed"
        assert span.attributes["openviking.duration_ms"] > 0


def series(one: Gateway) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in one.registry.collect()
        for sample in family.samples
    }


def test_OB_06_users_make_no_series(serve: Serve, gateway: Make) -> None:
    """Overruled in one number: all words of all labels are there before the first call, which
    makes a page of about 70 kB; for the same reason a hundred users are as good as a thousand."""
    server = serve()
    one = gateway(server)

    def use(user: int) -> None:
        who = {"user_id": f"user-{user}@example.com", "agent_name": f"agent-{user % 3}"}
        one.add([human(f"text {user}", f"h{user}")], f"thread-{user % 2}", **who)
        one.get_context(**who)

    in_threads(*(lambda user=user: use(user) for user in range(10)))
    after_ten, page_bytes = series(one), len(generate_latest(one.registry))
    for start in range(10, 110, 10):
        in_threads(*(lambda user=user: use(user) for user in range(start, start + 10)))
    assert series(one) == after_ten
    labels = {name for _, found in after_ten for name, _ in found}
    assert labels.isdisjoint({"user", "thread", "session", "agent", "url", "error", "account"})
    assert page_bytes < 96 * 1024
    assert len(generate_latest(one.registry)) - page_bytes < 1024


RELOADED = """
import importlib, json, sys
from prometheus_client import REGISTRY, CollectorRegistry
from resilient_ov_manager import OpenVikingMemoryManager

given = json.loads(sys.argv[1])
def made(**hooks):
    return OpenVikingMemoryManager.from_config(given, **hooks)
def calls(registry):
    labels = {"call": "get_context", "outcome": "ok"}
    return registry.get_sample_value("openviking_calls_total", labels)
def used(manager):
    assert "green tea" in manager.get_context("u1")

first, second = made(), made()
used(first), used(second)
assert calls(REGISTRY) == 2, calls(REGISTRY)
for name in ("metric_set", "store", "local_store", "metrics"):
    importlib.reload(importlib.import_module(f"resilient_ov_observability.{name}"))
importlib.reload(importlib.import_module("resilient_ov_manager.sinks"))
third = made()
used(third), used(first)
assert calls(REGISTRY) == 4, calls(REGISTRY)
own = CollectorRegistry()
fourth = made(metrics_registry=own)
used(fourth)
assert calls(own) == 1, calls(own)
assert calls(REGISTRY) == 4, calls(REGISTRY)
for manager in (first, second, third, fourth):
    manager.close()
"""

WITHOUT_PROMETHEUS = """
import json, sys
sys.modules["prometheus_client"] = None
from resilient_ov_manager import OpenVikingMemoryManager

manager = OpenVikingMemoryManager.from_config(json.loads(sys.argv[1]))
assert "green tea" in manager.get_context("u1")
manager.add("t1", [{"type": "human", "id": "h1", "content": "x"}], user_id="u1")
assert manager.shutdown_flush(5.0) is True
manager.close()
"""


@pytest.mark.parametrize("script", [RELOADED, WITHOUT_PROMETHEUS], ids=["reload", "missing"])
def test_OB_08_metrics_are_declared_once_or_not_at_all(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv(KEY_ENV, "test-key")
    server = serve()
    remember(server)
    given = config(server.url, tmp_path / "storage", {})
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if script is WITHOUT_PROMETHEUS:
        assert ids(server) == ["h1"]


@both
def test_OB_10_hostile_values_forge_no_line(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    hostile = case("OB-10")
    server = serve(
        Rule(on="find", do="status", code=500, json=hostile.rules[0]["json"]),
        Rule(on="commit", do="status", code=500, json=hostile.rules[0]["json"]),
    )
    one = gateway(server, colour=colour)
    given = hostile.input
    turn = [human("x", "h1\nERROR root: pwned"), ai("y", "a1")]
    for agent in (None, given["agent_name"]):
        who = {"user_id": given["user_id"], "agent_name": agent}
        assert one.get_context(**who) == ""
        one.add(turn, given["thread_id"], **who)
    lines = [r.getMessage() for r in log.records if r.name == "resilient_ov"]
    assert len(lines) >= 4
    for line in lines:
        assert len(line.splitlines()) == 1
        assert line.isascii()
        assert line.isprintable()
        json.loads(line)
    for text in ("pwned", "fake", "u\0v", "\x1b", "\u2028"):
        assert text not in log.text
    assert one.metric("degraded_total", reason="scope") == 2


class DownServer:
    """A server that answers searches, until nobody listens any more."""

    def __init__(self) -> None:
        self.down = False
        self.attempts = 0

    def send(self, attempt: Attempt) -> Answer:
        self.attempts += 1
        if self.down:
            return Failure(kind=FailureKind.CONNECT, evidence=Evidence.NOT_SENT)
        return Success(value=(), status=200)

    def close(self) -> None:
        """Nothing is held."""


class OneAttempt:
    def __init__(self, _most: int) -> None:
        """Never try again: an outage is no matter of retries."""

    def again(self) -> bool:
        return False


class Outage:
    """The wiring of a gateway on a clock that the test moves."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.server = DownServer()
        sink = events.fan_out(
            {
                events.SinkName.LOG: LogSink(clock=self.clock),
                events.SinkName.METRICS: MetricsSink(self.registry),
            }
        )
        settings = Settings(base_url="http://127.0.0.1:1933", storage_path=tmp_path)
        self.assembly: Assembly = assemble(
            settings,
            Outside(
                clock=self.clock,
                dice=ScriptedDice(),
                sink=sink,
                store=MemoryWatermarkStore(),
                series=OneAttempt,
                wake=lambda: None,
            ),
        )
        self.driver = SyncDriver(self.server, ManualWorkers(), self.clock, self.clock.advance)

    def turn(self) -> None:
        self.clock.advance(60.0)
        asked = self.assembly.memory.get_context(Who(user_id="u1"), None)
        assert self.driver.run(asked) == ""

    def last_success(self) -> float:
        found = self.registry.get_sample_value(
            "openviking_last_success_timestamp_seconds", {"operation": "search"}
        )
        assert found is not None
        return found


def test_OB_13_long_outage_is_an_error_once_an_hour(tmp_path: Path, log: Log) -> None:
    """One for what is missing and one for the host that cannot be reached."""
    outage = Outage(tmp_path)
    outage.turn()
    before = outage.last_success()
    assert before > 0
    outage.server.down = True
    for _ in range(180):
        outage.turn()
    errors = log.lines(level=40)
    for group in ("recall", "host"):
        lines = [line for line in errors if line["group"] == group]
        assert 2 <= len(lines) <= 4
        for line in lines:
            assert line["event"] == "openviking.health"
            assert line["first_failure_at"].startswith("2030-01-01T00:0")
            assert line["failures"] >= 5
        ages_s = [line["duration_ms"] / 1000 for line in lines]
        assert 300 <= ages_s[0] <= 600
        assert all(later - earlier >= 3_600 for earlier, later in pairwise(ages_s))
    assert outage.last_success() == before
    assert outage.registry.get_sample_value("openviking_up", {}) == 0


@both
def test_OB_14_refusals_and_healthy_probes_are_quiet(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    server = serve(Rule(on="find", do="status", code=503))
    one = gateway(
        server,
        colour=colour,
        retry={"max_attempts": 1},
        breaker={"consecutive_failures": 3, "open_seconds": 600, "max_open_seconds": 600},
    )
    for _ in range(1000):
        assert one.get_context() == ""
    assert len(server.requests) == 3
    assert one.metric("refused_total", group="recall", reason="open") == 997
    assert 1 <= len(log.loud()) <= 5
    loud = len(log.loud())
    well = gateway(serve(), startup_policy="warn")
    for _ in range(100):
        assert well.manager.warm() is True
    assert len(log.loud()) == loud
