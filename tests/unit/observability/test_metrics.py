import importlib
import random
import string
import subprocess
import sys
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov_observability import metric_set, metrics
from resilient_ov_observability.metrics import MetricsSink
from tests.unit.observability.builders import (
    ORIGIN,
    breaker,
    call,
    degraded,
    failed_attempt,
    failed_operation,
    operation,
)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def sink(registry):
    return MetricsSink(registry, wall_s=lambda: 1_700_000_000.0)


def value(registry, name, **labels):
    return registry.get_sample_value(name, labels)


def series(registry):
    """Every series with its labels, not its value."""
    page = generate_latest(registry).decode()
    return sorted(line.rpartition(" ")[0] for line in page.splitlines() if line[0] != "#")


def test_everything_is_there_with_zero_before_the_first_event(registry, sink):
    lines = generate_latest(registry).decode().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
    not_zero = {name for name, number in samples.items() if float(number) != 0.0}
    assert {name.split("{")[0] for name in not_zero} == {
        "openviking_up",
        "openviking_state_persistent",
        "openviking_switch_state",
    }
    assert isnan(value(registry, "openviking_up"))
    assert value(registry, "openviking_state_persistent") == 1.0
    for group in ("recall", "append", "commit", "session"):
        assert value(registry, "openviking_switch_state", group=group, mode="normal") == 1.0
        assert value(registry, "openviking_switch_state", group=group, mode="disabled") == 0.0


CASES = [
    (
        call(outcome=events.CallOutcome.STALE),
        "openviking_calls_total",
        {"call": "get_context", "outcome": "stale"},
        1,
    ),
    (call(duration_s=0.7), "openviking_call_duration_seconds_sum", {"call": "get_context"}, 0.7),
    (
        call(overshoot_s=0.02),
        "openviking_deadline_overshoot_seconds_sum",
        {"call": "get_context"},
        0.02,
    ),
    (operation(), "openviking_requests_total", {"operation": "search", "status": "ok"}, 1),
    (operation(), "openviking_attempts_total", {"operation": "search", "outcome": "ok"}, 1),
    (
        operation(),
        "openviking_last_success_timestamp_seconds",
        {"operation": "search"},
        1_700_000_000.0,
    ),
    (
        operation(duration_s=0.3),
        "openviking_request_duration_seconds_sum",
        {"operation": "search"},
        0.3,
    ),
    (
        operation(duration_s=2.0),
        "openviking_request_duration_seconds_bucket",
        {"operation": "search", "le": "2.0"},
        1,
    ),
    (
        operation(duration_s=2.1),
        "openviking_request_duration_seconds_bucket",
        {"operation": "search", "le": "2.0"},
        0,
    ),
    (
        operation(duration_s=99.0),
        "openviking_request_duration_seconds_bucket",
        {"operation": "search", "le": "+Inf"},
        1,
    ),
    (
        failed_operation(),
        "openviking_requests_total",
        {"operation": "search", "status": "error"},
        1,
    ),
    (failed_operation(), "openviking_attempts_total", {"operation": "search", "outcome": "ok"}, 0),
    (failed_operation(), "openviking_last_success_timestamp_seconds", {"operation": "search"}, 0),
    (
        failed_attempt(),
        "openviking_attempts_total",
        {"operation": "search", "outcome": "connect"},
        1,
    ),
    (
        events.RetryScheduled(
            operation=Operation.SEARCH, reason=events.RetryReason.RESET, attempt=2, delay_s=0.1
        ),
        "openviking_retries_total",
        {"operation": "search", "reason": "reset"},
        1,
    ),
    (
        events.RetryBudgetExhausted(operation=Operation.SEARCH),
        "openviking_retry_budget_exhausted_total",
        {},
        1,
    ),
    (events.ENTERED[events.Group.APPEND], "openviking_in_flight", {"group": "append"}, 1),
    (breaker(events.BreakerState.OPEN), "openviking_breaker_state", {"group": "recall"}, 2),
    (breaker(events.BreakerState.HALF_OPEN), "openviking_breaker_state", {"group": "recall"}, 1),
    (
        breaker(events.BreakerState.OPEN),
        "openviking_breaker_transitions_total",
        {"group": "recall", "from_state": "closed", "to_state": "open"},
        1,
    ),
    (breaker(events.BreakerState.OPEN), "openviking_up", {}, 0),
    (
        events.HoldChanged(group=events.Group.HOST, kind=events.HoldKind.AUTH, hold_s=30.0),
        "openviking_up",
        {},
        0,
    ),
    (
        events.Refused(group=events.Group.RECALL, reason=events.RefusalReason.OPEN),
        "openviking_refused_total",
        {"group": "recall", "reason": "open"},
        1,
    ),
    (
        events.WouldRefuse(group=events.Group.RECALL, reason=events.RefusalReason.BULKHEAD),
        "openviking_would_refuse_total",
        {"group": "recall", "reason": "bulkhead"},
        1,
    ),
    (
        events.SwitchChanged(group=events.Group.COMMIT, mode=events.SwitchMode.FORCED_OPEN),
        "openviking_switch_state",
        {"group": "commit", "mode": "forced_open"},
        1,
    ),
    (
        events.SwitchChanged(group=events.Group.COMMIT, mode=events.SwitchMode.FORCED_OPEN),
        "openviking_switch_state",
        {"group": "commit", "mode": "normal"},
        0,
    ),
    (
        events.CommitFinished(status=events.CommitStatus.GAVE_UP),
        "openviking_commit_total",
        {"status": "gave_up"},
        1,
    ),
    (
        events.MessagesCounted(result=events.MessageResult.STORED, count=7),
        "openviking_messages_total",
        {"result": "stored"},
        7,
    ),
    (
        events.MessagesDropped(reason=events.DropReason.QUEUE_FULL, count=3),
        "openviking_messages_dropped_total",
        {"reason": "queue_full"},
        3,
    ),
    (
        events.MessagesDropped(reason=events.DropReason.QUEUE_FULL, count=3),
        "openviking_messages_total",
        {"result": "dropped"},
        3,
    ),
    (
        events.Reconciled(result=events.ReconciliationResult.ABSENT),
        "openviking_reconciliations_total",
        {"result": "absent"},
        1,
    ),
    (
        events.Rebased(reason=events.RebaseReason.EDITED),
        "openviking_watermark_rebases_total",
        {"reason": "edited"},
        1,
    ),
    (
        events.ExtractionTask(status=events.ExtractionStatus.FAILED),
        "openviking_extraction_tasks_total",
        {"status": "failed"},
        1,
    ),
    (events.PendingChanged(writes=5, in_doubt=2), "openviking_pending_writes", {}, 5),
    (events.PendingChanged(writes=5, in_doubt=2), "openviking_in_doubt_batches", {}, 2),
    (events.PendingChanged(writes=0, in_doubt=0, commits=4), "openviking_pending_commits", {}, 4),
    (
        events.PendingChanged(writes=0, in_doubt=0, oldest_s=9.5),
        "openviking_oldest_pending_seconds",
        {},
        9.5,
    ),
    (
        events.StateError(reason=events.StateErrorReason.FOREIGN_WRITER),
        "openviking_state_errors_total",
        {"reason": "foreign_writer"},
        1,
    ),
    (events.StatePersistence(persistent=False), "openviking_state_persistent", {}, 0),
    (events.SearchFinished(results=3), "openviking_search_results_sum", {"operation": "search"}, 3),
    (events.SearchFinished(results=3), "openviking_injection_chars_count", {}, 0),
    (
        events.SearchFinished(results=3, injection_chars=0),
        "openviking_injection_chars_count",
        {},
        1,
    ),
    (events.SearchFinished(results=3, rejected=2), "openviking_hits_rejected_total", {}, 2),
    (events.StaleRead(), "openviking_stale_reads_total", {}, 1),
    (
        degraded(events.DegradeReason.SYNC_ON_LOOP),
        "openviking_degraded_total",
        {"reason": "sync_on_loop"},
        1,
    ),
    (events.PoolHealed(), "openviking_pool_healed_total", {}, 1),
    (
        events.SinkError(sink=events.SinkName.LOG),
        "openviking_sink_errors_total",
        {"sink": "log"},
        1,
    ),
    (
        events.ConfigLoaded(version="1", server_profile="0.5", account_alias="a"),
        "openviking_client_info",
        {"version": metrics.VERSION, "server_profile": "0.5"},
        1,
    ),
    (
        events.CanaryFinished(step=events.CanaryStep.WRITE, outcome=events.CanaryOutcome.LATE),
        "openviking_canary_runs_total",
        {"step": "write", "outcome": "late"},
        1,
    ),
    (
        events.CanaryFinished(step=events.CanaryStep.RECALL, outcome=events.CanaryOutcome.OK),
        "openviking_canary_last_success_timestamp_seconds",
        {},
        1_700_000_000.0,
    ),
    (
        events.CanaryFinished(step=events.CanaryStep.WRITE, outcome=events.CanaryOutcome.OK),
        "openviking_canary_last_success_timestamp_seconds",
        {},
        0,
    ),
]


@pytest.mark.parametrize(("event", "name", "labels", "expected"), CASES)
def test_an_event_reaches_its_series(registry, sink, event, name, labels, expected):
    sink.emit(event)
    assert value(registry, name, **labels) == pytest.approx(expected)
    assert value(registry, "openviking_sink_errors_total", sink="metrics") == 0.0


def test_every_metric_of_the_catalogue_is_moved_by_some_event():
    moved = {name for _event, name, _labels, _expected in CASES}
    moved = {
        name.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket") for name in moved
    }
    assert moved == set(metric_set.CATALOGUE)


def test_every_event_is_counted_or_deliberately_not(sink):
    known = set(events.Event.__args__)
    assert known - set(sink.handlers()) == {events.SwitchStanding}
    sink.emit(
        events.SwitchStanding(group=events.Group.RECALL, mode=events.SwitchMode.SHADOW, since_s=1.0)
    )


def test_in_flight_comes_back_to_zero(registry, sink):
    for change in (events.ENTERED, events.ENTERED, events.LEFT, events.LEFT):
        sink.emit(change[events.Group.RECALL])
    assert value(registry, "openviking_in_flight", group="recall") == 0.0


def test_pending_of_who_lost_the_sweeper_lock_goes_to_zero(registry, sink):
    sink.emit(events.PendingChanged(writes=1, in_doubt=1, commits=4, oldest_s=9.0))
    sink.emit(events.PendingChanged(writes=1, in_doubt=1))
    assert value(registry, "openviking_pending_commits") == 0.0
    assert value(registry, "openviking_oldest_pending_seconds") == 0.0


def test_up_follows_attempts_breakers_and_holds(registry, sink):
    def up():
        return value(registry, "openviking_up")

    sink.emit(failed_attempt())
    assert isnan(up())
    sink.emit(operation())
    assert up() == 1.0
    for _ in range(3):
        sink.emit(failed_attempt())
    assert up() == 0.0
    sink.emit(operation())
    assert up() == 1.0
    sink.emit(
        events.HoldChanged(group=events.Group.RECALL, kind=events.HoldKind.RETRY_AFTER, hold_s=9.0)
    )
    assert up() == 1.0
    sink.emit(breaker(events.BreakerState.OPEN))
    assert up() == 0.0


def test_the_last_success_is_set_at_most_once_a_second(registry):
    wall = [100.0]
    sink = MetricsSink(registry, wall_s=lambda: wall[0])
    shown = []
    for moment in (100.0, 100.5, 101.0, 101.9):
        wall[0] = moment
        sink.emit(operation())
        shown.append(
            value(registry, "openviking_last_success_timestamp_seconds", operation="search")
        )
    assert shown == [100.0, 100.0, 101.0, 101.0]


def test_latency_carries_the_trace_id_as_an_exemplar(registry, sink):
    sink.emit(operation(duration_s=0.3, origin=events.Origin(trace_id="abc-123")))
    page = openmetrics.generate_latest(registry).decode()
    line = next(
        li
        for li in page.splitlines()
        if 'request_duration_seconds_bucket{le="0.5",operation="search"}' in li
    )
    assert line.endswith('# {trace_id="abc-123"} 0.3 1700000000.0')


def test_the_span_in_force_is_the_better_exemplar(registry):
    found: list[str | None] = ["f" * 32]
    sink = MetricsSink(registry, exemplar_trace_id=lambda: found[0])
    sink.emit(call(duration_s=0.3))
    assert 'trace_id="' + "f" * 32 in openmetrics.generate_latest(registry).decode()
    found[0] = None
    sink.emit(call(duration_s=0.3))
    assert 'trace_id="trace-1"' in openmetrics.generate_latest(registry).decode()


@pytest.mark.parametrize("trace_id", ["x" * 101, "two words", "line\nbreak", "ünïcode"])
def test_a_trace_id_that_may_not_be_told_is_no_exemplar(registry, sink, trace_id):
    sink.emit(operation(origin=events.Origin(trace_id=trace_id)))
    assert "trace_id" not in openmetrics.generate_latest(registry).decode()


def test_two_sinks_share_the_series_of_a_registry(registry):
    one, two = MetricsSink(registry), MetricsSink(registry)
    one.emit(operation())
    two.emit(operation())
    assert value(registry, "openviking_requests_total", operation="search", status="ok") == 2.0


def test_the_gauges_of_two_sinks_are_put_together(registry):
    one, two = MetricsSink(registry), MetricsSink(registry)
    one.emit(breaker(events.BreakerState.OPEN))
    two.emit(breaker(events.BreakerState.CLOSED))
    one.emit(events.PendingChanged(writes=2, in_doubt=1))
    two.emit(events.PendingChanged(writes=5, in_doubt=0))
    two.emit(operation())
    assert value(registry, "openviking_breaker_state", group="recall") == 2.0
    assert value(registry, "openviking_pending_writes") == 7.0
    assert value(registry, "openviking_in_doubt_batches") == 1.0
    assert value(registry, "openviking_up") == 0.0
    one.close()
    assert value(registry, "openviking_breaker_state", group="recall") == 0.0
    assert value(registry, "openviking_pending_writes") == 5.0
    assert value(registry, "openviking_up") == 1.0


def test_another_registry_has_series_of_its_own(registry):
    other = CollectorRegistry()
    MetricsSink(registry)
    MetricsSink(other).emit(operation())
    assert value(registry, "openviking_requests_total", operation="search", status="ok") == 0.0
    assert value(other, "openviking_requests_total", operation="search", status="ok") == 1.0


def test_a_reloaded_module_finds_the_series_again(registry):
    MetricsSink(registry).emit(operation())
    importlib.reload(metric_set)
    importlib.reload(metrics)
    again = metrics.MetricsSink(registry)
    again.emit(operation())
    assert again.working
    assert value(registry, "openviking_requests_total", operation="search", status="ok") == 2.0


def test_names_taken_by_somebody_else_switch_metrics_off(registry):
    Counter("openviking_calls", "somebody else's", registry=registry)
    sink = MetricsSink(registry)
    sink.emit(operation())
    sink.emit(breaker(events.BreakerState.OPEN))
    sink.close()
    assert not sink.working
    assert sink.handlers() == {}
    assert "openviking_requests_total" not in generate_latest(registry).decode()


def test_series_do_not_depend_on_users_statuses_codes_or_exceptions(registry, sink):
    sink.emit(operation())
    sink.emit(breaker(events.BreakerState.OPEN))
    before = series(registry)
    dice = random.Random(7)

    def word():
        return "".join(dice.choices(string.printable, k=dice.randint(0, 40)))

    for _ in range(10_000):
        origin = events.Origin(trace_id=word(), user_hash=word(), session_hash=word())
        sink.emit(
            failed_operation(
                origin=origin,
                status_code=dice.randint(-1, 10**6),
                error_type=word(),
                reason=dice.choice([*events.RefusalReason, word()]),
                request_id=word(),
                task_id=word(),
            )
        )
        sink.emit(
            failed_attempt(
                dice.choice([*events.AttemptOutcome, word()]), status_code=dice.randint(0, 999)
            )
        )
        sink.emit(
            operation(
                operation=dice.choice([*Operation, word()]), status=dice.choice(["ok", word()])
            )
        )
        sink.emit(call(outcome=dice.choice([*events.CallOutcome, word()]), error_type=word()))
        sink.emit(events.Refused(group=word(), reason=word()))
        sink.emit(degraded(word()))
        sink.emit(events.ConfigLoaded(version=word(), server_profile=word(), account_alias=word()))
    assert series(registry) == before
    assert value(registry, "openviking_sink_errors_total", sink="metrics") > 0.0


@pytest.mark.parametrize(
    "event",
    [
        operation(operation="no such"),
        operation(status="no such"),
        operation(operation=["not", "hashable"]),
        events.Refused(group="no such", reason=events.RefusalReason.OPEN),
        events.MessagesCounted(result=events.MessageResult.STORED, count="three"),
        operation(duration_s="long"),
        events.BreakerChanged(
            group=events.Group.RECALL,
            from_state=events.BreakerState.OPEN,
            to_state=events.BreakerState.OPEN,
        ),
    ],
)
def test_a_word_outside_the_catalogue_is_an_error_of_the_sink_and_nothing_else(
    registry, sink, event
):
    before = generate_latest(registry)
    sink.emit(event)
    name = 'openviking_sink_errors_total{sink="metrics"}'
    after = generate_latest(registry).decode().replace(f"{name} 1.0", f"{name} 0.0")
    assert after == before.decode()


@given(counts=st.lists(st.integers(-5, 50)))
@settings(max_examples=30, deadline=None)
def test_a_counter_never_falls(counts):
    registry = CollectorRegistry()
    sink = MetricsSink(registry)
    for count in counts:
        sink.emit(events.MessagesDropped(reason=events.DropReason.REJECTED, count=count))
    total = sum(count for count in counts if count > 0)
    assert value(registry, "openviking_messages_dropped_total", reason="rejected") == total


@given(durations=st.lists(st.floats(0.0, 20.0), max_size=30))
@settings(max_examples=30, deadline=None)
def test_a_histogram_counts_what_lies_at_or_below_each_edge(durations):
    registry = CollectorRegistry()
    sink = MetricsSink(registry)
    for duration_s in durations:
        sink.emit(operation(duration_s=duration_s))
    name = "openviking_request_duration_seconds"
    for edge in metric_set.CATALOGUE[name].edges:
        expected = sum(duration <= edge for duration in durations)
        assert value(registry, f"{name}_bucket", operation="search", le=repr(edge)) == expected
    assert value(registry, f"{name}_count", operation="search") == len(durations)
    assert value(registry, f"{name}_sum", operation="search") == pytest.approx(sum(durations))


WITHOUT_LIBRARY = """
import sys
{breakage}
from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.exposure import metrics_page, metrics_asgi_app
sink = MetricsSink()
assert not sink.working
sink.emit(events.PoolHealed())
sink.close()
assert b"prometheus_client" in metrics_page()
metrics_asgi_app()
print("fine")
"""


@pytest.mark.parametrize("state", ["missing", "broken"])
def test_memory_works_without_the_library(state, tmp_path):
    if state == "missing":
        breakage = "sys.modules['prometheus_client'] = None"
    else:
        (tmp_path / "prometheus_client.py").write_text("raise RuntimeError('half installed')")
        breakage = f"sys.path.insert(0, {str(tmp_path)!r})"
    code = WITHOUT_LIBRARY.format(breakage=breakage)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("fine\n", "")


def test_a_forked_child_forgets_what_speaks_of_its_parent(registry, sink):
    sink.emit(events.ENTERED[events.Group.RECALL])
    sink.emit(events.PendingChanged(writes=5, in_doubt=1))
    sink.emit(events.StatePersistence(persistent=False))
    sink.emit(operation())
    store = metric_set.shared_metric_set(registry).store
    store._lock.acquire()
    sink.renew_after_fork()
    store.renew_after_fork()
    sink.emit(operation())
    assert value(registry, "openviking_in_flight", group="recall") == 0.0
    assert value(registry, "openviking_pending_writes") == 0.0
    assert value(registry, "openviking_state_persistent") == 0.0
    assert value(registry, "openviking_up") == 1.0


def test_the_exemplar_of_an_origin_without_trace_is_none(registry, sink):
    sink.emit(operation(origin=events.Origin()))
    assert ORIGIN.trace_id not in openmetrics.generate_latest(registry).decode()
