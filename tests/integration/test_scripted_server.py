"""The scripted server does what its script says; here as seen by a plain HTTP client."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer

IDENTITY = {"x-api-key": "test-key", "x-openviking-account": "acme", "x-openviking-user": "u"}
BATCH = "/api/v1/sessions/s/messages/batch"
MESSAGE = {"role": "user", "content": "a", "source_message_ids": ["df1-a"]}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as found:
        yield found


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=IDENTITY, timeout=5, trust_env=False) as found:
        yield found


def post(client: httpx.Client) -> httpx.Response:
    return client.post(BATCH, json={"messages": [MESSAGE]})


def stored(server: ScriptedServer) -> int:
    return len(server.store.marks("s"))


def until(condition: Any) -> None:
    end_s = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_honest_by_default_and_keeps_a_ledger(server: ScriptedServer, client: httpx.Client) -> None:
    assert post(client).json()["result"]["added"] == 1
    (seen,) = server.requests_to("batch")
    assert (seen.route, seen.request.method, seen.connection) == ("batch", "POST", 1)
    assert seen.request.headers["x-openviking-user"] == "u"
    assert seen.body == {"messages": [MESSAGE]}
    client.get("/health")
    assert [found.connection for found in server.requests] == [1, 1]
    assert server.requests[1].body == {}


def test_first_matching_rule_wins_and_counts_its_route(
    server: ScriptedServer, client: httpx.Client
) -> None:
    server.script(
        Rule(on="batch", do="status", code=503, nth="2"),
        Rule(on="any", do="status", code=418, nth="4"),
    )
    assert [post(client).status_code for _ in range(4)] == [200, 503, 200, 418]
    server.script()
    assert post(client).status_code == 200


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (Rule(on="batch", do="reset"), 0),
        (Rule(on="batch", do="truncate"), 0),
        (Rule(on="batch", do="apply_then_drop"), 1),
        (Rule(on="batch", do="apply_then_truncate"), 1),
        (Rule(on="batch", do="apply_then_truncate", framing="chunked"), 1),
    ],
    ids=lambda value: value.do if isinstance(value, Rule) else "",
)
def test_lost_answers(server: ScriptedServer, client: httpx.Client, rule: Rule, kept: int) -> None:
    server.script(rule)
    with pytest.raises(httpx.TransportError):
        post(client)
    assert stored(server) == kept


def test_late_application(server: ScriptedServer, client: httpx.Client) -> None:
    server.script(Rule(on="batch", do="apply_late", seconds=0.1))
    with pytest.raises(httpx.TransportError):
        post(client)
    assert stored(server) == 0
    until(lambda: stored(server) == 1)


@pytest.mark.parametrize("verb", ["delay", "apply_then_delay"])
def test_delayed_answers(server: ScriptedServer, client: httpx.Client, verb: Any) -> None:
    server.script(Rule(on="batch", do=verb, seconds=0.1))
    began_s = time.monotonic()
    assert post(client).status_code == 200
    assert time.monotonic() - began_s >= 0.1


def test_serial_delay_serves_one_at_a_time(server: ScriptedServer) -> None:
    server.script(Rule(on="batch", do="serial_delay", seconds=0.1))
    began_s = time.monotonic()

    def one() -> None:
        httpx.post(
            f"{server.url}{BATCH}", json={"messages": [MESSAGE]}, headers=IDENTITY, trust_env=False
        )

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(server) == 3
    assert time.monotonic() - began_s >= 0.3


def test_hang_ends_with_the_client_and_applies_nothing(
    server: ScriptedServer, client: httpx.Client
) -> None:
    server.script(Rule(on="any", do="hang"))
    with pytest.raises(httpx.ReadTimeout):
        client.post(BATCH, json={"messages": [MESSAGE]}, timeout=0.1)
    assert stored(server) == 0


def test_refusing_server_comes_back_on_its_port(
    server: ScriptedServer, client: httpx.Client
) -> None:
    port = server.port
    server.script(Rule(on="any", do="refuse"))
    with pytest.raises(httpx.TransportError):
        post(client)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)
    server.script()
    assert server.port == port
    assert post(client).status_code == 200


def test_single_routes_cannot_refuse(server: ScriptedServer) -> None:
    with pytest.raises(ValueError, match="only for all connections"):
        server.script(Rule(on="find", do="refuse"))
    with pytest.raises(ValueError, match="only for all connections"):
        server.script(Rule(on="any", do="refuse", nth="1"))


def test_answers_can_be_replaced_and_dripped(server: ScriptedServer, client: httpx.Client) -> None:
    server.script(
        Rule(on="batch", do="ok", json={"status": "ok", "result": {"added": 9}}),
        Rule(on="health", do="drip", size=20, every_s=0.01),
        Rule(on="ready", do="drip", size=20, every_s=0.01, part="head"),
    )
    assert post(client).json()["result"] == {"added": 9}
    assert stored(server) == 1
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json()["status"] == "ready"


def test_raw_answers(server: ScriptedServer, client: httpx.Client) -> None:
    server.script(
        Rule(on="health", do="raw", code=299, headers={"x-own": "1"}, body=b"as is"),
        Rule(on="ready", do="gzip_bomb", size=100_000),
        Rule(on="batch", do="status", code=502, html=True),
    )
    plain = client.get("/health")
    assert (plain.status_code, plain.headers["x-own"], plain.content) == (299, "1", b"as is")
    bomb = client.get("/ready")
    assert int(bomb.headers["content-length"]) < 1000
    assert len(bomb.content) == 100_000
    assert b"<html>" in post(client).content


def test_careless_answer_echoes_the_request(server: ScriptedServer, client: httpx.Client) -> None:
    server.script(Rule(on="any", do="status", code=500, echo=True))
    assert "test-key" in post(client).json()["error"]["message"]
    assert "df1-a" in post(client).json()["error"]["message"]


def test_closing_ends_whatever_goes_on() -> None:
    server = ScriptedServer(Rule(on="any", do="delay", seconds=60))
    before = threading.active_count()
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.sendall(b"GET /health HTTP/1.1\r\n\r\n")
    until(lambda: server.requests)
    server.close()
    server.close()
    server.script()
    assert sock.recv(1) == b""
    sock.close()
    assert threading.active_count() < before


def test_half_a_request_is_no_request(server: ScriptedServer) -> None:
    for half in (b"GET /health HT", b"POST /x HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf"):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(half)
        sock.close()
    until(lambda: server.connections == 2)
    assert server.requests == []


def test_open_connections_are_counted(server: ScriptedServer, client: httpx.Client) -> None:
    client.get("/health")
    assert server.open_connections == 1
    client.close()
    until(lambda: server.open_connections == 0)
    assert server.connections == 1
