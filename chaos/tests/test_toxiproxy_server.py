"""What the suite relies on in the real Toxiproxy server, pinned."""

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from chaos.tests.upstream import Upstream, upstream
from resilient_ov_chaos.toxiproxy.link import Link, Toxiproxy
from resilient_ov_chaos.toxiproxy.toxics import (
    Bandwidth,
    Latency,
    LimitData,
    ResetPeer,
    Slicer,
    SlowClose,
    Stream,
    Timeout,
)

pytestmark = pytest.mark.ci


@pytest.fixture
def behind() -> Iterator[Upstream]:
    with upstream() as server:
        yield server


@pytest.fixture
def link(toxiproxy_server: Toxiproxy, behind: Upstream) -> Iterator[Link]:
    made = toxiproxy_server.link("conformance", upstream=behind.address)
    yield made
    made.remove()


@pytest.fixture
def pooled(link: Link) -> Iterator[httpx.Client]:
    """A client with one warm connection."""
    with httpx.Client(base_url=link.url, timeout=1.0) as client:
        client.get("/warm")
        yield client


def test_accepting_is_instant_whatever_the_latency(link: Link) -> None:
    with link.toxic(Latency(latency_s=2.0)):
        began_s = time.monotonic()
        socket.create_connection(("127.0.0.1", link.port), timeout=1.0).close()
        assert time.monotonic() - began_s < 0.5


def test_latency_works_on_connections_that_are_open_already(
    link: Link, pooled: httpx.Client
) -> None:
    with link.toxic(Latency(latency_s=0.3)):
        began_s = time.monotonic()
        pooled.get("/")
        assert time.monotonic() - began_s >= 0.3
    began_s = time.monotonic()
    pooled.get("/")
    assert time.monotonic() - began_s < 0.3


def test_a_share_of_connections_is_drawn_once_for_each(link: Link) -> None:
    """On one pooled connection either every request is hit or none is."""
    with link.toxic(ResetPeer(toxicity=0.5)):
        for _ in range(6):
            with httpx.Client(base_url=link.url, timeout=1.0) as client:
                outcomes = {answered(client) for _ in range(3)}
                # A reset connection is not used again, so only the unhit ones can repeat.
                assert outcomes in ({True}, {False}, {False, True})
        fresh = [answered_fresh(link) for _ in range(60)]
    assert 8 <= sum(fresh) <= 52


def answered_fresh(link: Link) -> bool:
    with httpx.Client(base_url=link.url, timeout=1.0) as client:
        return answered(client)


def answered(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code == 200
    except httpx.TransportError:
        return False


def test_a_lost_reply_means_an_executed_request(link: Link, behind: Upstream) -> None:
    with link.toxic(Timeout()):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{link.url}/write", content=b"abc", timeout=0.3)
        assert behind.wait_for(1, 1.0)
    assert behind.seen == [("POST", "/write", b"abc")]


def test_a_lost_request_is_never_executed(link: Link, behind: Upstream) -> None:
    with link.toxic(Timeout(stream=Stream.UPSTREAM)):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{link.url}/write", content=b"abc", timeout=0.3)
        assert not behind.wait_for(1, 0.3)
    assert behind.seen == []


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_request_under_way_arrives_after_its_sender_has_left(
    link: Link, behind: Upstream, reset: bool
) -> None:
    """The late effect: what the network still holds reaches the server."""
    with link.toxic(Latency(latency_s=0.6, stream=Stream.UPSTREAM)):
        conn = socket.create_connection(("127.0.0.1", link.port))
        conn.sendall(b"POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        time.sleep(0.1)
        if reset:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        conn.close()
        assert behind.seen == []
        assert behind.wait_for(1, 2.0)
    assert behind.seen == [("POST", "/late", b"abc")]


def test_a_drip_is_slower_in_all_than_any_single_read(link: Link, behind: Upstream) -> None:
    behind.size = 40
    with link.toxic(Slicer(average_bytes=5, delay_s=0.1)):
        began_s = time.monotonic()
        assert httpx.get(link.url, timeout=0.5).status_code == 200
        assert time.monotonic() - began_s > 0.5


def test_a_narrow_band_passes_although_each_read_is_in_time(link: Link, behind: Upstream) -> None:
    behind.size = 2000
    with link.toxic(Bandwidth(kb_per_s=1)):
        began_s = time.monotonic()
        assert httpx.get(link.url, timeout=1.0).status_code == 200
        assert time.monotonic() - began_s > 1.0


def test_reset_peer_fires_on_data_and_not_on_connecting(link: Link) -> None:
    with link.toxic(ResetPeer()):
        conn = socket.create_connection(("127.0.0.1", link.port), timeout=1.0)
        time.sleep(0.1)
        conn.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            conn.recv(100)
        conn.close()


def test_limited_data_ends_a_body_after_its_status(link: Link, behind: Upstream) -> None:
    behind.size = 5000
    with link.toxic(LimitData(limit_bytes=500)), pytest.raises(httpx.RemoteProtocolError):
        httpx.get(link.url)


def test_slow_close_is_not_seen_by_a_client_that_keeps_its_connection(
    link: Link, pooled: httpx.Client
) -> None:
    with link.toxic(SlowClose(delay_s=1.0)):
        began_s = time.monotonic()
        assert pooled.get("/").status_code == 200
        assert time.monotonic() - began_s < 0.5


def test_down_refuses_at_once_and_cuts_pooled_connections(link: Link, pooled: httpx.Client) -> None:
    with link.down():
        began_s = time.monotonic()
        with pytest.raises((httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError)):
            pooled.get("/")
        with pytest.raises(httpx.ConnectError):
            pooled.get("/")
        assert time.monotonic() - began_s < 0.5
    assert pooled.get("/").status_code == 200


def test_the_port_stays_through_down_and_through_another_upstream(
    link: Link, behind: Upstream
) -> None:
    before = link.port
    with link.down():
        pass
    with link.pointed_to("127.0.0.1:1"):
        pass
    assert link.port == before
    assert httpx.get(link.url).status_code == 200


def test_a_removed_timeout_ends_the_connections_it_held(link: Link) -> None:
    conn = socket.create_connection(("127.0.0.1", link.port), timeout=2.0)
    with link.toxic(Timeout()):
        conn.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.2)
    assert conn.recv(100) == b""
    conn.close()
