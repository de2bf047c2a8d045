import asyncio
import json
import logging

import httpx
import pytest
from prometheus_client import CollectorRegistry

from resilient_ov import events
from resilient_ov.settings import MetricsSettings, TracingSettings
from resilient_ov_observability import observer as module
from resilient_ov_observability.http_spans import SpanTransport, SuppressedTransport
from resilient_ov_observability.observer import Observer
from tests.unit.observability.builders import ManualClock, call, operation


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def make(registry):
    def observer(metrics=None, tracing=None):
        return Observer(
            metrics=MetricsSettings(**(metrics or {})),
            tracing=TracingSettings(**(tracing or {})),
            clock=ManualClock(),
            account_alias="acct_1",
            registry=registry,
        )

    return observer


class Exporter:
    """In the place of the exporter, which needs sockets."""

    made: list["Exporter"] = []  # noqa: RUF012 - one list for the test is the point

    def __init__(self, **arguments):
        self.arguments, self.started, self.closed = arguments, 0, 0
        self.made.append(self)

    def start(self):
        self.started += 1

    def close(self):
        self.closed += 1


@pytest.fixture
def exporters(monkeypatch):
    Exporter.made.clear()
    monkeypatch.setattr(module, "MetricsExporter", Exporter)
    return Exporter.made


def test_one_event_reaches_every_sink(make, registry, spans, caplog):
    caplog.set_level(logging.DEBUG, "resilient_ov")
    observer = make()
    with observer.scope_call(events.Call.SEARCH):
        observer.sink.emit(operation())
        observer.sink.emit(call())
    labels = {"operation": "search", "status": "ok"}
    assert registry.get_sample_value("openviking_requests_total", labels) == 1.0
    assert observer.status.snapshot()["healthy"] is True
    assert spans.only.name == "openviking.search"
    assert json.loads(caplog.messages[0])["event"] == "openviking.search"


def test_what_is_switched_off_is_left_out(make, registry, spans):
    observer = make(metrics={"enabled": False}, tracing={"enabled": False})
    with observer.scope_call(events.Call.SEARCH):
        observer.sink.emit(operation())
        observer.sink.emit(call())
    assert registry.get_sample_value("openviking_stale_reads_total") is None
    assert spans.all == ()
    assert observer.status.snapshot()["healthy"] is True
    observer.close()


@pytest.mark.parametrize(
    ("tracing", "kind"),
    [
        ({}, SuppressedTransport),
        ({"enabled": False}, SuppressedTransport),
        ({"http_spans": True}, SpanTransport),
    ],
)
def test_transports_are_wrapped_as_the_settings_say(make, spans, tracing, kind):
    inner = httpx.MockTransport(lambda request: httpx.Response(204))
    assert type(make(tracing=tracing).wrap(inner)) is kind


def test_the_exporter_starts_with_the_first_call_and_not_before(make, exporters):
    observer = make(metrics={"port": 9_400, "host": "127.0.0.1"})
    (exporter,) = exporters
    assert exporter.started == 0
    assert (exporter.arguments["host"], exporter.arguments["port"]) == ("127.0.0.1", 9_400)
    with observer.scope_call(events.Call.SEARCH):
        pass
    assert exporter.started == 1
    observer.close()
    assert exporter.closed == 1


@pytest.mark.parametrize("metrics", [{}, {"enabled": False, "port": 9_400}])
def test_without_a_port_or_metrics_there_is_no_exporter(make, exporters, metrics):
    make(metrics=metrics)
    assert exporters == []


def test_the_taken_port_is_told_in_the_log(make, exporters, caplog):
    caplog.set_level(logging.INFO, "resilient_ov")
    make(metrics={"port": 9_400})
    exporters[0].arguments["on_port_in_use"]()
    assert "openviking.metrics.port_in_use" in caplog.text


def test_the_page_and_the_app_show_the_registry_of_the_host(make):
    observer = make()
    observer.sink.emit(events.StaleRead())
    assert b"openviking_stale_reads_total 1.0" in observer.metrics_page()
    sent = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": []}
    asyncio.run(observer.metrics_app()(scope, receive, send))
    assert b"openviking_stale_reads_total 1.0" in sent[1]["body"]


def test_the_exemplar_is_the_trace_of_the_calls_span(make, registry, spans):
    from prometheus_client.openmetrics.exposition import generate_latest

    observer = make()
    with observer.scope_call(events.Call.SEARCH):
        observer.sink.emit(operation())
    assert f'trace_id="{spans.only.context.trace_id:032x}"' in generate_latest(registry).decode()
