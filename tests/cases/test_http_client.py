"""Reports about HTTP clients: pools, proxies, redirects, odd bodies, names, trust, loops."""
# ruff: noqa: N802 - a test is named by its case

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from resilient_ov.testing.http_bytes import zeros_compressed
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.contract import MemoryManagerError
from tests.cases.field_cases import ai, case, human
from tests.cases.rig import (
    KEY,
    KEY_ENV,
    Gateway,
    Log,
    Make,
    both,
    check_phases,
    config,
    hits,
    ids,
    in_threads,
    read_budget,
    remember,
    takes,
    until,
)

Serve = Callable[..., ScriptedServer]
TURN = [human("x", "h1"), ai("y", "a1")]
NEXT_TURN = [*TURN, human("z", "h2"), ai("w", "a2")]


def at_once(one: Gateway, colour: str, count: int) -> list[str]:
    """Make `count` recalls at the same moment."""
    if colour == "sync":
        return in_threads(*[lambda: one.manager.get_context("u1")] * count)

    async def scenario() -> list[str]:
        return await asyncio.gather(*(one.manager.aget_context("u1") for _ in range(count)))

    return one.run(scenario())


@both
def test_HC_01_full_pool_is_our_own_fault(serve: Serve, gateway: Make, colour: str) -> None:
    """A call that gets its connection too late for an answer is cut by its own deadline."""
    server = serve(Rule(on="find", do="delay", seconds=0.2))
    remember(server)
    limits = {"max_connections": 2, "max_keepalive": 2, "sync_read_in_flight": 16}
    one = gateway(server, colour=colour, limits=limits, budgets=read_budget(1.0))
    with takes(1.0):
        answers = at_once(one, colour, 20)
    outcomes = one.outcomes("get_context")
    assert 1 <= outcomes["ok"] == sum(map(bool, answers)) < 20
    assert outcomes.keys() <= {"ok", "degraded_refused", "degraded_deadline"}
    refused = one.metric("refused_total", group="recall", reason="executor")
    refused += one.metric("refused_total", group="recall", reason="bulkhead")
    assert refused >= 1
    assert one.attempts("search").keys() <= {"ok", "timeout"}
    assert one.metric("breaker_state", group="recall") == 0
    assert one.metric("breaker_state", group="host") == 0
    time.sleep(0.5)
    assert "green tea" in one.get_context()


@both
def test_HC_03_idle_connection_that_was_closed_is_no_failure(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    server = serve(Rule(on="any", do="ok_then_close"))
    remember(server)
    one = gateway(server, colour=colour)
    assert one.search()
    time.sleep(0.2)
    assert one.search()
    one.add(TURN)
    time.sleep(0.2)
    one.add(NEXT_TURN)
    until(lambda: one.state()["pending_commit_since"] is None)
    assert ids(server) == ["h1", "a1", "h2", "a2"]
    assert len(server.requests_to("find")) <= 4
    assert log.lines(level=40) == []


@both
def test_HC_05_drip_ends_with_the_budget(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve(Rule(on="find", do="drip", size=1, every_s=0.2))
    one = gateway(server, colour=colour, budgets=read_budget(1.0), retry={"attempt_seconds": 0.5})
    with takes(1.0):
        assert one.get_context() == ""
    assert one.outcomes("get_context") == {"degraded_deadline": 1}


PROXY_NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


@both
@pytest.mark.parametrize("scheme", ["http", "socks5", "bogus"])
def test_HC_07_environment_proxy_sees_nothing(
    serve: Serve, gateway: Make, monkeypatch: pytest.MonkeyPatch, colour: str, scheme: str
) -> None:
    proxy, server = serve(), serve()
    remember(server)
    for name in PROXY_NAMES:
        monkeypatch.setenv(name, f"{scheme}://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "localhost")
    one = gateway(server, colour=colour)
    assert "green tea" in one.get_context()
    one.add(TURN)
    assert ids(server) == ["h1", "a1"]
    assert proxy.connections == 0


@both
def test_HC_08_unreadable_no_proxy_does_not_matter(
    serve: Serve, gateway: Make, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """There is no key that turns environment proxies on: such a key is refused at the start."""
    proxy, server = serve(), serve()
    remember(server)
    for name in PROXY_NAMES:
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, case("HC-08").input["env"]["NO_PROXY"])
    assert "green tea" in gateway(server, colour=colour).get_context()
    assert proxy.connections == 0
    with pytest.raises(ValueError, match="use_env_proxy"):
        gateway(server, use_env_proxy=True)


def redirects(location: str) -> list[Rule]:
    to = {"location": location}
    return [
        Rule(on="batch", do="status", code=307, headers=to, html=True),
        Rule(on="any", do="status", code=302, headers=to, html=True),
    ]


@both
def test_HC_09_redirect_gets_neither_key_nor_text(serve: Serve, gateway: Make, colour: str) -> None:
    other = serve()
    server = serve(*redirects(f"{other.url}/x"))
    one = gateway(server, colour=colour)
    assert one.search() == []
    assert len(server.requests) == 1
    assert one.outcomes("search") == {"degraded_protocol": 1}
    with pytest.raises(MemoryManagerError, match="not OpenViking's"):
        one.manager.warm()
    # A session that is known already, so that the batch itself is what is redirected.
    server.script(*redirects(f"{other.url}/x")[:1])
    one.add(TURN)
    assert one.state()["submitted_message_ids"] == []
    assert len(server.requests_to("batch")) == 1
    assert other.connections == 0


@both
@pytest.mark.parametrize("variant", case("HC-10").input["variants"])
def test_HC_10_no_redirect_is_followed_whatever_it_looks_like(
    serve: Serve, gateway: Make, colour: str, variant: str
) -> None:
    other = serve()
    location = {
        "same origin": "/api/v1/search/find/",
        "other port": f"{other.url}/x",
        "scheme change": f"https://127.0.0.1:{other.port}/x",
        "//evil.example/x": "//evil.example/x",
        "http://u:p@127.0.0.1:PORT/": f"http://u:p@127.0.0.1:{other.port}/",
    }[variant]
    to = {"location": location}
    server = serve(
        Rule(on="find", do="status", code=308, headers=to),
        Rule(on="batch", do="status", code=301, headers=to),
    )
    one = gateway(server, colour=colour)
    assert one.get_context() == ""
    one.add(TURN)
    assert len(server.requests_to("find")) == 1
    assert len(server.requests_to("batch")) == 1
    methods = {s.request.method for s in server.requests if s.route in {"find", "batch"}}
    assert methods == {"POST"}
    assert {s.route for s in server.requests} <= {
        "find", "ensure", "batch", "session", "content", "list",
    }  # fmt: skip
    assert other.connections == 0


@both
def test_HC_11_error_page_of_a_proxy_is_an_outage(
    serve: Serve, gateway: Make, log: Log, spans: Any, colour: str
) -> None:
    server = serve(
        Rule(on="find", do="status", code=502, html=True),
        Rule(on="batch", do="status", code=503, html=True, nth="1"),
    )
    one = gateway(server, colour=colour)
    assert one.get_context() == ""
    assert one.outcomes("get_context") == {"degraded_unavailable": 1}
    assert len(server.requests_to("find")) == 2
    one.add(TURN)
    # A proxy may have passed the batch on, so it is not sent again before that is known.
    assert len(server.requests_to("batch")) == 1
    assert one.state()["submitted_message_ids"] == []
    until(lambda: ids(server), within_s=20)
    assert ids(server) == ["h1", "a1"]
    for told in (log.text, spans.text):
        assert "<html" not in told
        assert "does not work" not in told
        assert "JSON" not in told.replace("JSONL", "")


@both
def test_HC_13_cut_answer_is_tried_again_only_where_that_is_safe(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(
        Rule(on="find", do="truncate", framing="chunked", nth="1"),
        Rule(on="batch", do="apply_then_truncate", framing="chunked", nth="1"),
    )
    remember(server)
    one = gateway(server, colour=colour)
    assert one.search()
    assert one.attempts("search") == {"ok": 1, "reset": 1}
    one.add(TURN)
    one.add(NEXT_TURN)
    until(lambda: one.metric("pending_writes") == 0)
    assert ids(server) == ["h1", "a1", "h2", "a2"]
    assert one.metric("messages_total", result="duplicated") == 0


IN_PROCESS = """
import json, resource, sys
from resilient_ov_manager import OpenVikingMemoryManager

manager = OpenVikingMemoryManager.from_config(json.loads(sys.argv[1]))
def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert manager.get_context("u1") == ""
before = peak_kib()
for _ in range(3):
    assert manager.get_context("u1") == ""
print(json.dumps({"grown_mib": (peak_kib() - before) / 1024, "calls": manager.status()["calls"]}))
manager.close()
"""


def test_HC_15_compressed_answer_is_never_unpacked(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    size: int = case("HC-15").rules[0]["plain_bytes"]
    zeros_compressed(size)  # takes longer than a read may wait
    server = serve(Rule(on="find", do="ok", nth="1"), Rule(on="find", do="gzip_bomb", size=size))
    given = config(server.url, tmp_path / "storage", {})
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["calls"] == {"degraded_protocol": 3, "empty": 1}
    assert told["grown_mib"] < 48
    assert {s.request.headers["accept-encoding"] for s in server.requests} == {"identity"}


@both
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate", "x-unheard-of"])
def test_HC_15_coding_nobody_asked_for_is_a_protocol_failure(
    serve: Serve, gateway: Make, colour: str, coding: str
) -> None:
    body = json.dumps(hits({"abstract": "A", "score": 0.9})).encode()
    server = serve(
        Rule(on="find", do="raw", code=200, headers={"content-encoding": coding}, body=body)
    )
    one = gateway(server, colour=colour)
    assert one.get_context() == ""
    assert one.outcomes("get_context") == {"degraded_protocol": 1}


def encoded(kind: str, text: str) -> bytes:
    codec = {"latin-1": "latin-1", "utf-16 BOM": "utf-16", "utf-8 BOM": "utf-8-sig"}[kind]
    return text.encode(codec)


@both
@pytest.mark.parametrize("kind", ["latin-1", "utf-16 BOM", "utf-8 BOM"])
def test_HC_17_body_in_another_encoding_is_no_exception(
    serve: Serve, gateway: Make, colour: str, kind: str
) -> None:
    text = json.dumps(hits({"abstract": "caf\xe9", "score": 0.9}), ensure_ascii=False)
    headers = {"content-type": "application/json; charset=latin-1"}
    odd = {"do": "raw", "code": 200, "headers": headers, "body": encoded(kind, text)}
    server = serve(Rule(on="find", **odd), Rule(on="batch", nth="1", **odd))
    one = gateway(server, colour=colour)
    assert one.get_context() == ""
    assert one.outcomes("get_context") == {"degraded_protocol": 1}
    one.add(TURN)
    assert one.state()["submitted_message_ids"] == []
    until(lambda: ids(server), within_s=20)
    assert ids(server) == ["h1", "a1"]


def test_HC_17_bytes_of_the_report(serve: Serve, gateway: Make) -> None:
    body = bytes.fromhex(case("HC-17").rules[0]["body_hex"])
    one = gateway(serve(Rule(on="find", do="raw", code=200, body=body)))
    assert one.get_context() == ""


SERVER_DATE = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
WITHIN = {"0", "0.2", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 -0000"}
TOO_LONG = {"1", "120", "9999999999999", "<now+1h as HTTP date>"}


@both
@pytest.mark.parametrize("value", case("HC-19").input["values"])
def test_HC_19_wait_asked_for_never_outlives_the_budget(
    serve: Serve, gateway: Make, colour: str, value: str
) -> None:
    """`throttled` is told as: the attempt was rate limited, the call had no memory."""
    asked = value
    if value.startswith("<now+1h"):
        asked = format_datetime(SERVER_DATE + timedelta(hours=1), usegmt=True)
    headers = {"retry-after": asked, "date": format_datetime(SERVER_DATE, usegmt=True)}
    server = serve(Rule(on="find", do="status", code=429, headers=headers, nth="1"))
    remember(server)
    budget_s = 0.6 if value in TOO_LONG else 2.0
    one = gateway(server, colour=colour, budgets=read_budget(budget_s))
    with takes(0.0 if value in TOO_LONG else budget_s):
        context = one.get_context()
    assert one.attempts("search")["rate_limited"] == 1
    if value in TOO_LONG:
        assert context == ""
        assert one.outcomes("get_context") == {"degraded_unavailable": 1}
        assert len(server.requests) == 1
        assert one.get_context() == ""
        assert one.metric("refused_total", group="recall", reason="retry_after") == 1
    else:
        assert "green tea" in context
        assert len(server.requests) == 2


@pytest.fixture
def stuck_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Name resolution that hangs until the test is over."""
    over = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        over.wait(10)
        raise socket.gaierror(socket.EAI_AGAIN, "stuck")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield
    over.set()


@both
@pytest.mark.usefixtures("stuck_names")
def test_HC_21_stuck_name_resolution_costs_three_budgets(gateway: Make, colour: str) -> None:
    one = gateway(
        "http://memory.internal:1933",
        colour=colour,
        allow_insecure_http=True,
        budgets=read_budget(0.4),
        breaker={"consecutive_failures": 3, "open_seconds": 60, "max_open_seconds": 60},
    )
    for _ in range(3):
        with takes(0.4):
            assert one.get_context() == ""
    assert one.metric("breaker_state", group="host") == 2
    before = threading.active_count()
    with takes(97 * 0.01):
        for _ in range(97):
            assert one.get_context() == ""
    assert threading.active_count() <= before
    names = [t.name for t in threading.enumerate() if "resolve" in t.name or "dns" in t.name]
    assert len(names) <= 4
    assert one.metric("refused_total", group="recall", reason="host_open") == 97


def test_HC_21_loop_runs_on_while_a_name_is_looked_up(gateway: Make, stuck_names: None) -> None:
    one = gateway(
        "http://memory.internal:1933",
        colour="async",
        allow_insecure_http=True,
        budgets=read_budget(0.5),
    )
    ticks = 0

    async def scenario() -> None:
        nonlocal ticks
        task = asyncio.create_task(one.manager.aget_context("u1"))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1

    one.run(scenario())
    assert ticks >= 10


class Certificates:
    """A trusted authority and servers that do not live up to it."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))

    def server(self, fault: str) -> ssl.SSLContext:
        now = datetime.now(UTC)
        match fault:
            case "expired":
                issued = self.ca.issue_cert("localhost", not_after=now - timedelta(days=1))
            case "wrong_host":
                issued = self.ca.issue_cert("other.example")
            case "self_signed":
                issued = trustme.CA().issue_cert("localhost")
            case _:
                issued = self.ca.issue_cert("localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued.configure_cert(context)
        return context


@both
@pytest.mark.parametrize("fault", ["expired", "wrong_host", "self_signed"])
def test_HC_23_untrusted_server_gets_nothing(
    serve: Serve, gateway: Make, tmp_path: Path, colour: str, fault: str
) -> None:
    certificates = Certificates(tmp_path)
    server = serve(tls=certificates.server(fault))
    one = gateway(
        server,
        colour=colour,
        tls={"ca_file": str(certificates.ca_file)},
        breaker={"consecutive_failures": 1000, "minimum_calls": 10000},
    )
    with pytest.raises(MemoryManagerError, match="TLS"):
        one.manager.warm()
    for _ in range(5):
        assert one.get_context() == ""
    one.add(TURN)
    assert server.requests == []
    assert one.attempts("search") == {"tls": 5}
    assert set(one.attempts("session.ensure")) == {"tls"}
    assert one.metric("retries_total", operation="search", reason="connect") == 0


def test_HC_23_verification_has_no_switch(serve: Serve, gateway: Make, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server = serve(tls=certificates.server("good"))
    remember(server)
    one = gateway(server, tls={"ca_file": str(certificates.ca_file)})
    assert "green tea" in one.get_context()
    for key in ("verify", "insecure", "skip_verify"):
        with pytest.raises(ValueError, match=rf"tls\.{key}"):
            gateway(server, tls={key: False})


def test_HC_26_without_any_setting_every_call_is_bounded(
    serve: Serve, gateway: Make, phases: list[dict[str, float | None]]
) -> None:
    server = serve(Rule(on="any", do="hang"))
    one, two = gateway(server), gateway(server, startup_policy="warn")
    for gate in (one, two):
        assert gate.manager._settings.budgets.add_s == 3.0
    with takes(3.0):
        in_threads(
            one.get_context,
            one.search,
            lambda: one.add(TURN),
            two.manager.warm,
        )
    assert one.outcomes("get_context") == {"degraded_deadline": 1}
    assert one.outcomes("search") == {"degraded_deadline": 1}
    assert one.outcomes("add") == {"pending": 1}
    assert two.outcomes("warm") == {"degraded_deadline": 1}
    check_phases(phases)


def twice(length: int, other: int | None = None) -> list[str]:
    return [f"Content-Length: {length}", f"Content-Length: {length if other is None else other}"]


@both
def test_HC_27_equal_lengths_twice_are_one_length(serve: Serve, gateway: Make, colour: str) -> None:
    answer = hits({"abstract": "A", "score": 0.9})
    length = len(json.dumps(answer))
    lines = [*twice(length), "Content-Type: application/json"]
    server = serve(Rule(on="find", do="raw_headers", json=answer, lines=lines))
    one = gateway(server, colour=colour)
    for _ in range(2):
        assert "A" in one.get_context()
    assert server.connections == 1


@both
def test_HC_27_two_lengths_end_the_connection(serve: Serve, gateway: Make, colour: str) -> None:
    answer = hits({"abstract": "A", "score": 0.9})
    lines = twice(len(json.dumps(answer)), 12)
    server = serve(Rule(on="find", do="raw_headers", json=answer, lines=lines, nth="1"))
    remember(server)
    one = gateway(server, colour=colour)
    assert one.get_context() == ""
    assert one.outcomes("get_context") == {"degraded_protocol": 1}
    assert "green tea" in one.get_context()
    assert [seen.connection for seen in server.requests] == [1, 2]


LOOPS = """
import asyncio, json, sys, threading
from resilient_ov_manager import OpenVikingMemoryManager

manager = OpenVikingMemoryManager.from_config(json.loads(sys.argv[1]))
turn = [{"type": "human", "id": "h1", "content": "x"}, {"type": "ai", "id": "a1", "content": "y"}]
found = [asyncio.run(manager.aget_context("u1"))]
asyncio.run(manager.aadd("t1", turn, user_id="u1"))
turn.append({"type": "human", "id": "h2", "content": "z"})
asyncio.run(manager.aadd("t1", turn, user_id="u1"))

def plain():
    found.append(manager.get_context("u1"))

def own_loop():
    found.append(asyncio.run(manager.aget_context("u1")))

for works in ((plain,), (own_loop, own_loop)):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert len(found) == 4 and all("green tea" in text for text in found), found
manager.close()
"""


def test_HC_28_one_manager_serves_many_loops(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    server = serve()
    remember(server)
    given = config(server.url, tmp_path / "storage", {})
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", LOOPS, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert told == []
    assert ids(server) == ["h1", "a1", "h2"]
    # One loop after the other takes a connection each, and none of them is left behind.
    until(lambda: server.open_connections == 0)


def test_HC_28_kept_connections_stay_below_the_limit(serve: Serve, gateway: Make) -> None:
    server = serve()
    remember(server)
    one = gateway(server, limits={"max_connections": 3, "max_keepalive": 2})
    in_threads(*[one.get_context] * 3)
    until(lambda: server.open_connections <= 2)
