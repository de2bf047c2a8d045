"""The exporter on real sockets, across processes."""

import http.client
import os
import socket
import threading
import time
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry

from resilient_ov.events import PoolHealed
from resilient_ov_observability import exporter as module
from resilient_ov_observability.exporter import MetricsExporter
from resilient_ov_observability.metrics import MetricsSink


def until(condition, *, within_s=5.0):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def scrape(address, path="/metrics"):
    host, port = address
    with closing(http.client.HTTPConnection(host, port, timeout=5.0)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def registry():
    registry = CollectorRegistry()
    MetricsSink(registry).emit(PoolHealed())
    return registry


@pytest.fixture
def make(registry):
    made = []

    def exporter(**changes):
        made.append(
            MetricsExporter(**{"host": "127.0.0.1", "port": 0, "registry": registry, **changes})
        )
        return made[-1]

    yield exporter
    for one in made:
        one.close()


def started(exporter):
    exporter.start()
    until(lambda: exporter.address is not None)
    return exporter.address


def test_nothing_is_bound_before_start(make):
    assert make().address is None


def test_a_scrape_gets_the_page(make):
    status, page = scrape(started(make()))
    assert status == 200
    assert "openviking_pool_healed_total 1.0" in page


def test_starting_twice_is_starting_once(make):
    exporter = make()
    address = started(exporter)
    exporter.start()
    assert exporter.address == address


def test_ipv6_is_served(make):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback on this machine")
    assert scrape(started(make(host="::1")))[0] == 200


def test_close_frees_the_port_quickly_and_twice(make):
    exporter = make()
    host, port = started(exporter)
    began_s = time.monotonic()
    exporter.close()
    exporter.close()
    assert time.monotonic() - began_s < 1.0
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((host, port))


def test_a_closed_exporter_does_not_start_again(make):
    exporter = make()
    exporter.close()
    exporter.start()
    assert exporter.address is None


def test_a_port_in_use_is_told_once_and_taken_when_it_is_free(make):
    told = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        exporter = make(port=port, on_port_in_use=lambda: told.append(True), retry_s=0.02)
        exporter.start()
        until(lambda: told)
        time.sleep(0.2)
        assert told == [True]
        assert exporter.address is None
    until(lambda: exporter.address is not None)
    assert scrape(("127.0.0.1", port))[0] == 200


def test_an_address_that_cannot_be_resolved_is_no_error(make):
    told = []
    exporter = make(host="no-such-host.invalid", on_port_in_use=lambda: told.append(True))
    exporter.start()
    until(lambda: told)


def test_a_scraper_that_says_nothing_does_not_hold_the_others_up(make, monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 0.3)
    address = started(make())
    with socket.create_connection(address) as silent:
        assert scrape(address)[0] == 200
        silent.settimeout(5.0)
        assert silent.recv(1) == b""


def test_nothing_is_written_to_stderr(make, capfd):
    address = started(make())
    scrape(address, "/favicon.ico")
    with socket.create_connection(address) as rude:
        rude.sendall(b"NONSENSE\r\n\r\n")
        rude.recv(100)
    assert capfd.readouterr().err == ""


def test_a_forked_child_leaves_the_socket_to_its_parent(make):
    exporter = make()
    address = started(exporter)
    fileno = exporter._server.fileno()
    child = os.fork()
    if child == 0:
        try:
            os.fstat(fileno)
            os._exit(1)  # still open: the port would outlive the parent
        except OSError:
            os._exit(0 if exporter.address is None else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scrape(address)[0] == 200


def test_a_forked_child_takes_the_place_of_its_parent(make):
    exporter = make(retry_s=0.05)
    host, port = started(exporter)
    successor = MetricsExporter(host=host, port=port, registry=None, retry_s=0.05)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        successor.start()
        end = time.monotonic() + 8.0
        while successor.address is None and time.monotonic() < end:
            time.sleep(0.01)
        os.write(write, b"1" if successor.address else b"0")
        time.sleep(5.0)
        os._exit(0)
    os.close(write)
    try:
        exporter.close()
        assert os.read(read, 1) == b"1"
        assert scrape((host, port))[0] == 200
    finally:
        os.close(read)
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_the_thread_is_a_daemon(make):
    started(make())
    mine = [thread for thread in threading.enumerate() if thread.name == "resilient-ov-metrics"]
    assert mine
    assert all(thread.daemon for thread in mine)
