import asyncio
import gzip
import subprocess
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry

from resilient_ov_observability import exposure
from resilient_ov_observability.metrics import MetricsSink
from tests.unit.observability.builders import operation

LINE = 'openviking_requests_total{operation="search",status="ok"} 1.0'


@pytest.fixture
def registry():
    registry = CollectorRegistry()
    MetricsSink(registry).emit(operation())
    return registry


async def ask(app, path="/metrics", query=b"", headers=(), kind="http", method="GET"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query,
        "headers": list(headers),
    }
    await app(scope, receive, send)
    return sent


def ask_wsgi(app, **changes):
    started = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "QUERY_STRING": ""}
    body = b"".join(app({**environ, **changes}, lambda *told: started.append(told)))
    return started[0][0], dict(started[0][1]), body


def test_the_page_shows_the_registry(registry):
    assert LINE in exposure.metrics_page(registry).decode()


def test_the_page_of_a_registry_nobody_counted_on_is_all_zero():
    assert LINE.replace("1.0", "0.0") in exposure.metrics_page(CollectorRegistry()).decode()


def test_the_default_is_the_registry_of_the_process():
    assert "openviking_requests_total" in exposure.metrics_page().decode()


def test_the_asgi_app_serves_the_page(registry):
    start, body = asyncio.run(ask(exposure.metrics_asgi_app(registry)))
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/plain")
    assert LINE in body["body"].decode()


def test_the_asgi_app_speaks_openmetrics_and_gzip(registry):
    headers = [(b"Accept", b"application/openmetrics-text"), (b"accept-encoding", b"gzip")]
    start, body = asyncio.run(ask(exposure.metrics_asgi_app(registry), headers=headers))
    assert dict(start["headers"])[b"content-encoding"] == b"gzip"
    assert gzip.decompress(body["body"]).rstrip().endswith(b"# EOF")


def test_the_asgi_app_shows_only_the_names_asked_for(registry):
    query = b"name[]=openviking_stale_reads_total"
    _start, body = asyncio.run(ask(exposure.metrics_asgi_app(registry), query=query))
    lines = [line for line in body["body"].decode().splitlines() if line[0] != "#"]
    assert lines == ["openviking_stale_reads_total 0.0"]


def test_the_asgi_app_refuses_to_be_written_to(registry):
    start, _body = asyncio.run(ask(exposure.metrics_asgi_app(registry), method="POST"))
    assert start["status"] == 405


def test_the_asgi_app_leaves_other_traffic_alone(registry):
    assert asyncio.run(ask(exposure.metrics_asgi_app(registry), kind="websocket")) == []


def test_the_page_is_not_made_on_the_event_loop(registry, monkeypatch):
    seen = []

    def collect(self):
        seen.append(threading.current_thread())
        yield from registry.collect()

    monkeypatch.setattr(exposure.ScrapedRegistry, "collect", collect)
    asyncio.run(ask(exposure.metrics_asgi_app(registry)))
    assert seen
    assert threading.main_thread() not in seen


def test_a_page_that_cannot_be_made_is_told_to_the_scraper(registry, monkeypatch):
    def collect(self):
        raise OSError("/secret/path is gone")

    monkeypatch.setattr(exposure.ScrapedRegistry, "collect", collect)
    status, _headers, body = ask_wsgi(exposure.metrics_wsgi_app(registry))
    assert status.startswith("503")
    assert body == b"# the metrics cannot be read: OSError\n"
    start, _body = asyncio.run(ask(exposure.metrics_asgi_app(registry)))
    assert start["status"] == 503


def test_a_scrape_that_is_given_up_harms_nobody(registry, monkeypatch):
    go = threading.Event()

    def collect(self):
        go.wait(5.0)
        yield from registry.collect()

    monkeypatch.setattr(exposure.ScrapedRegistry, "collect", collect)

    async def given_up():
        scrape = asyncio.ensure_future(ask(exposure.metrics_asgi_app(registry)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        scrape.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scrape
        go.set()
        for thread in threading.enumerate():
            if thread.name == "resilient-ov-scrape":
                thread.join()
        await asyncio.sleep(0)

    asyncio.run(given_up())


def test_the_wsgi_app_serves_the_page(registry):
    status, headers, body = ask_wsgi(exposure.metrics_wsgi_app(registry))
    assert status == "200 OK"
    assert headers["Content-Type"].startswith("text/plain")
    assert LINE in body.decode()


def test_without_the_library_the_apps_answer_503(monkeypatch):
    monkeypatch.setattr(exposure, "optional", lambda _name: None)
    status, _headers, body = ask_wsgi(exposure.metrics_wsgi_app())
    assert status == "503 Service Unavailable"
    assert b"prometheus_client" in body
    start, body = asyncio.run(ask(exposure.metrics_asgi_app()))
    assert start["status"] == 503
    assert b"prometheus_client" in body["body"]


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()


def test_live_gauges_of_the_living_stay(tmp_path, child):
    kept = tmp_path / f"gauge_livemax_{child.pid}.db"
    kept.touch()
    assert exposure.mark_dead_processes(tmp_path) == ()
    assert kept.exists()


def test_live_gauges_of_the_dead_go_and_everything_else_stays(tmp_path, child):
    child.kill()
    child.wait()
    pid = child.pid
    names = [
        f"gauge_livemin_{pid}.db",
        f"gauge_livesum_{pid}.db",
        f"gauge_max_{pid}.db",
        f"counter_{pid}.db",
    ]
    for name in [*names, "notes.txt"]:
        (tmp_path / name).touch()
    assert exposure.mark_dead_processes(tmp_path) == (pid,)
    assert {entry.name for entry in tmp_path.iterdir()} == {*names[2:], "notes.txt"}


def test_a_killed_process_nobody_waited_for_is_dead(tmp_path, child):
    child.kill()
    while exposure._lives(child.pid):
        pass
    (tmp_path / f"gauge_livemax_{child.pid}.db").touch()
    assert exposure.mark_dead_processes(tmp_path) == (child.pid,)


def test_a_process_of_another_user_lives(monkeypatch):
    def kill(pid, signal):
        raise PermissionError

    monkeypatch.setattr(exposure.os, "kill", kill)
    assert exposure._lives(1)


def test_without_proc_an_answering_process_lives(monkeypatch):
    def no_proc(self):
        raise FileNotFoundError

    monkeypatch.setattr(exposure.Path, "read_bytes", no_proc)
    assert exposure._lives(exposure.os.getpid())


def test_files_that_cannot_be_removed_do_not_stop_the_scrape(tmp_path, child, monkeypatch):
    child.kill()
    child.wait()
    (tmp_path / f"gauge_livemax_{child.pid}.db").touch()

    def refuse(path):
        raise PermissionError

    monkeypatch.setattr(exposure._multiprocess().os, "remove", refuse)
    assert exposure.mark_dead_processes(tmp_path) == (child.pid,)
