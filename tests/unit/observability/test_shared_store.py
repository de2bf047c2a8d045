"""Multiprocess mode inside one process; several real ones are in tests/integration."""

import pytest
from prometheus_client import CollectorRegistry, values

from resilient_ov import events
from resilient_ov_observability import metric_set
from resilient_ov_observability.exposure import ScrapedRegistry, metrics_page, multiprocess_dir
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.shared_store import SharedStore
from tests.unit.observability.builders import breaker, operation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    opened = []

    class Kept(values.MmapedDict):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            opened.append(self)

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "MmapedDict", Kept)
    monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue())
    yield tmp_path
    for file in opened:
        file.close()


@pytest.fixture
def registry():
    return CollectorRegistry()


def shown(registry):
    lines = metrics_page(registry).decode().splitlines()
    return {
        name: float(number)
        for name, number in (line.rsplit(" ", 1) for line in lines if line[0] != "#")
    }


def test_the_library_decides_which_store_it_is(folder, registry):
    assert metric_set.is_multiprocess()
    assert isinstance(metric_set.shared_metric_set(registry).store, SharedStore)
    assert multiprocess_dir() == folder


def test_nothing_is_written_before_something_is_counted(folder, registry):
    sink = MetricsSink(registry)
    sink.emit(events.ConfigLoaded(version="1", server_profile="0.5", account_alias="a"))
    sink.emit(events.StatePersistence(persistent=False))
    assert list(folder.iterdir()) == []
    sink.emit(events.StaleRead())
    samples = shown(registry)
    assert samples["openviking_stale_reads_total"] == 1.0
    assert samples["openviking_state_persistent"] == 0.0
    assert [number for name, number in samples.items() if "client_info" in name] == [1.0]


def test_every_series_is_there_from_the_first_count_on(folder, registry):
    MetricsSink(registry).emit(operation())
    counted = {name for name in shown(registry) if "client_info" not in name}
    alone = CollectorRegistry()
    alone.register(metric_set.LocalStore(metric_set.PLAN))
    lines = [
        f"{sample.name}{sorted(sample.labels.items())}"
        for metric in alone.collect()
        for sample in metric.samples
    ]
    assert len(counted) == len(lines)


def test_events_reach_their_series(folder, registry):
    sink = MetricsSink(registry)
    sink.emit(operation(duration_s=0.3))
    sink.emit(breaker(events.BreakerState.OPEN))
    sink.emit(events.ENTERED[events.Group.RECALL])
    samples = shown(registry)
    assert samples['openviking_request_duration_seconds_bucket{le="0.5",operation="search"}'] == 1.0
    assert samples['openviking_breaker_state{group="recall"}'] == 2.0
    assert samples['openviking_in_flight{group="recall"}'] == 1.0
    assert samples["openviking_up"] == 0.0


def test_up_is_no_series_before_it_is_known(folder, registry):
    sink = MetricsSink(registry)
    sink.emit(events.StaleRead())
    assert "openviking_up" not in shown(registry)
    sink.emit(operation())
    assert shown(registry)["openviking_up"] == 1.0


def test_a_forked_child_begins_again_with_what_is_still_true(folder, registry):
    sink = MetricsSink(registry)
    store = metric_set.shared_metric_set(registry).store
    sink.emit(operation())
    sink.emit(events.SwitchChanged(group=events.Group.RECALL, mode=events.SwitchMode.SHADOW))
    sink.emit(events.PendingChanged(writes=5, in_doubt=1))
    store._lock.acquire()
    store.renew_after_fork()
    # What the library does to a child: its own files, all zero.
    for child in store._children:
        for gauge in (getattr(child, "_value", None),):
            if gauge is not None:
                gauge.set(0.0)
    sink.emit(events.StaleRead())
    samples = shown(registry)
    assert samples["openviking_up"] == 1.0
    assert samples["openviking_state_persistent"] == 1.0
    assert samples['openviking_switch_state{group="recall",mode="shadow"}'] == 1.0
    assert samples['openviking_switch_state{group="recall",mode="normal"}'] == 0.0
    assert samples["openviking_pending_writes"] == 0.0


def test_a_scrape_can_be_restricted_to_names(folder, registry):
    MetricsSink(registry).emit(operation())
    restricted = ScrapedRegistry(registry).restricted_registry(["openviking_stale_reads_total"])
    assert [m.name for m in restricted.collect()] == ["openviking_stale_reads"]


def test_what_is_counted_while_the_files_are_made_waits_and_is_not_lost(folder, registry):
    sink = MetricsSink(registry)
    store = metric_set.shared_metric_set(registry).store
    with store._lock:
        sink.emit(operation(duration_s=0.3))
        sink.emit(events.StaleRead())
        sink.emit(events.StatePersistence(persistent=False))
        assert not store._ready
    samples = shown(registry)
    assert store._ready
    assert samples['openviking_requests_total{operation="search",status="ok"}'] == 1.0
    assert samples["openviking_stale_reads_total"] == 1.0
    assert samples["openviking_state_persistent"] == 0.0


def test_files_that_cannot_be_made_cost_the_metrics_and_nothing_grows(
    folder, registry, monkeypatch
):
    sink = MetricsSink(registry)
    store = metric_set.shared_metric_set(registry).store
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder / "missing"))
    for _ in range(100):
        sink.emit(operation())
        store.settle()
    assert store._waiting == []
    assert not store._ready


def test_settling_what_never_began_returns_at_once(folder, registry):
    MetricsSink(registry)
    metric_set.shared_metric_set(registry).store.settle()
