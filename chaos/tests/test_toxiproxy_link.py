"""The adapter against the real server: each fault of ``toxiproxy-python`` is healed."""

import inspect
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import toxiproxy
import toxiproxy.api
import toxiproxy.exceptions

from chaos.tests.upstream import Upstream, upstream
from resilient_ov_chaos.toxiproxy.link import Link, ToxicNotRemovedError, Toxiproxy, ToxiproxyError
from resilient_ov_chaos.toxiproxy.server import toxiproxy as started_toxiproxy
from resilient_ov_chaos.toxiproxy.toxics import (
    Bandwidth,
    Latency,
    LimitData,
    ResetPeer,
    Slicer,
    SlowClose,
    Stream,
    Timeout,
    Toxic,
)

pytestmark = pytest.mark.ci

EVERY_TOXIC = [
    Latency(latency_s=0.2, jitter_s=0.05),
    Bandwidth(kb_per_s=3, stream=Stream.UPSTREAM),
    Slicer(average_bytes=10, variation_bytes=5, delay_s=0.01),
    Timeout(),
    Timeout(after_s=0.3, stream=Stream.UPSTREAM),
    ResetPeer(after_s=0.1),
    LimitData(limit_bytes=100),
    SlowClose(delay_s=0.2),
]


@pytest.fixture
def behind() -> Iterator[Upstream]:
    with upstream() as server:
        yield server


@pytest.fixture
def link(toxiproxy_server: Toxiproxy, behind: Upstream) -> Iterator[Link]:
    made = toxiproxy_server.link("adapter", upstream=behind.address)
    yield made
    made.remove()
    assert "adapter" not in toxiproxy_server.link_names()


@pytest.mark.parametrize("toxic", EVERY_TOXIC, ids=lambda toxic: toxic.name)
def test_every_toxic_arrives_as_meant_and_goes_again(link: Link, toxic: Toxic) -> None:
    with link.toxic(toxic):
        said = link.toxics()[toxic.name]
        assert (said["type"], said["stream"]) == (toxic.kind, toxic.stream.value)
        assert said["attributes"] == toxic.attributes()
    assert link.toxics() == {}


def test_the_slicers_delay_is_sent_in_microseconds_and_all_others_in_milliseconds() -> None:
    assert Slicer(average_bytes=1, delay_s=0.5).attributes()["delay"] == 500_000
    assert Latency(latency_s=0.5).attributes()["latency"] == 500
    assert Timeout().attributes() == {"timeout": 0}
    assert Timeout(after_s=0.0001).attributes() == {"timeout": 1}


@pytest.mark.parametrize("share", [0.0, 1.1, -1.0])
def test_a_share_of_connections_outside_the_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="toxicity"):
        Latency(latency_s=1.0, toxicity=share)


def test_toxics_go_when_the_block_ends_badly(link: Link) -> None:
    with pytest.raises(RuntimeError, match="inside"), link.toxic(Latency(latency_s=0.1)):
        raise RuntimeError("inside")
    assert link.toxics() == {}


def test_the_first_toxic_goes_when_the_second_is_not_accepted(link: Link) -> None:
    twice = Latency(latency_s=0.1)
    with pytest.raises(ToxiproxyError) as refused, link.toxic(twice, twice):
        pytest.fail("the second one was accepted")
    assert refused.value.status == 409
    assert link.toxics() == {}


def test_a_toxic_that_stays_is_told(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ToxicNotRemovedError, match="latency_downstream"),
        link.toxic(Latency(latency_s=0.1)),
    ):
        monkeypatch.setattr("toxiproxy.Proxy.destroy_toxic", lambda self, name: True)
    monkeypatch.undo()
    with pytest.raises(ToxiproxyError), link.toxic(Latency(latency_s=0.1)):
        pytest.fail("it was gone although the server still had it")


def test_a_toxic_is_changed_in_place(link: Link) -> None:
    with link.toxic(Latency(latency_s=0.1)):
        link.change(Latency(latency_s=0.3, jitter_s=0.1))
        assert link.toxics()["latency_downstream"]["attributes"] == {"latency": 300, "jitter": 100}


def test_changing_a_toxic_that_is_not_there_is_an_error(link: Link) -> None:
    with pytest.raises(ToxiproxyError) as refused:
        link.change(Latency(latency_s=0.3))
    assert refused.value.status == 404


def test_down_refuses_and_leaves_the_link_as_it_was(link: Link) -> None:
    with link.down():
        with pytest.raises(httpx.ConnectError):
            httpx.get(link.url)
        with link.down():
            assert not link.enabled
        assert not link.enabled, "the library would have enabled it here"
    assert httpx.get(link.url).status_code == 200


def test_a_link_leads_elsewhere_for_a_while(link: Link, behind: Upstream) -> None:
    with upstream() as other:
        with link.pointed_to(other.address):
            httpx.get(link.url)
        httpx.get(link.url)
        assert (len(other.seen), len(behind.seen)) == (1, 1)


def test_two_servers_are_used_side_by_side(toxiproxy_server: Toxiproxy, behind: Upstream) -> None:
    with started_toxiproxy_again() as second:
        first_link = toxiproxy_server.link("side", upstream=behind.address)
        second_link = second.link("side", upstream=behind.address)
        with first_link.toxic(Latency(latency_s=0.1)):
            assert second_link.toxics() == {}
            assert first_link.toxics() != {}
        first_link.remove()
        assert "side" in second.link_names()
        assert "side" not in toxiproxy_server.link_names()


def started_toxiproxy_again():  # type: ignore[no-untyped-def]
    return started_toxiproxy(say=lambda line: None)


def test_the_library_is_left_as_it_was(link: Link) -> None:
    before = toxiproxy.api.APIConsumer.host, toxiproxy.api.APIConsumer.port, toxiproxy.api.requests
    with link.toxic(Latency(latency_s=0.1)):
        after = (
            toxiproxy.api.APIConsumer.host,
            toxiproxy.api.APIConsumer.port,
            toxiproxy.api.requests,
        )
    assert after == before
    assert inspect.ismodule(before[2])


def test_a_server_that_never_answers_costs_the_time_limit_and_no_more() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        quiet = Toxiproxy(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3)
        began_s = time.monotonic()
        with pytest.raises(ToxiproxyError, match="does not answer") as failed:
            quiet.link_names()
        assert time.monotonic() - began_s < 2.0
        assert failed.value.status is None
        quiet.close()


def test_an_error_of_the_server_is_an_error() -> None:
    """The library takes a 500 for success."""
    with failing_api(
        b"HTTP/1.1 500 No\r\ncontent-length: 4\r\nconnection: close\r\n\r\nboom"
    ) as url:
        broken = Toxiproxy(url)
        with pytest.raises(ToxiproxyError, match=r"500.*boom") as failed:
            broken.link_names()
        assert failed.value.status == 500
        broken.close()


def test_a_bad_proxy_is_not_called_a_bad_toxic(
    toxiproxy_server: Toxiproxy, behind: Upstream
) -> None:
    with pytest.raises(ToxiproxyError) as refused:
        toxiproxy_server.link("bad", upstream=behind.address, listen="not-an-address")
    assert not isinstance(refused.value.__cause__, toxiproxy.exceptions.InvalidToxic)
    assert refused.value.status is not None


def test_making_a_link_again_replaces_it(toxiproxy_server: Toxiproxy, behind: Upstream) -> None:
    first = toxiproxy_server.link("again", upstream="127.0.0.1:1")
    second = toxiproxy_server.link("again", upstream=behind.address)
    assert second.upstream == behind.address
    assert httpx.get(second.url).status_code == 200
    first.remove()
    second.remove()


def test_the_version_is_text(toxiproxy_server: Toxiproxy) -> None:
    """``git`` when built from source, so it is never compared."""
    assert isinstance(toxiproxy_server.version(), str)
    assert toxiproxy_server.version()


@pytest.mark.parametrize("url", ["https://127.0.0.1:8474", "ftp://x", "http://"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="8474"):
        Toxiproxy(url)


class failing_api:  # noqa: N801 - used like a function
    """Answers one connection with the given bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        conn, _ = self._socket.accept()
        with conn:
            conn.recv(65536)
            conn.sendall(self._answer)
