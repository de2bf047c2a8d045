"""One page over several workers: every kind of number against values worked out by hand."""

import json
import math
import os
import subprocess
import sys
import textwrap

import pytest

WORKER = """
import json, os, sys
from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov.events import *
from resilient_ov_observability.metric_set import shared_metric_set
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.exposure import metrics_page
sink = MetricsSink(wall_s=lambda: {wall_s})
def op(status=OperationStatus.OK, duration_s=0.1):
    return OperationFinished(
        operation=Operation.SEARCH, group=Group.RECALL, status=status, duration_s=duration_s
    )
def tell(*what):
    print(json.dumps(what), flush=True)
def done():
    shared_metric_set().store.settle()
    tell("done")
{body}
done()
for line in sys.stdin:
    exec(line)
    done()
"""

FIRST = """
for _ in range(3): sink.emit(op(duration_s=0.02))
sink.emit(op(OperationStatus.ERROR, duration_s=3.0))
sink.emit(ENTERED[Group.RECALL])
sink.emit(PendingChanged(writes=4, in_doubt=1, commits=2, oldest_s=7.0))
sink.emit(ConfigLoaded(version="x", server_profile="0.5", account_alias="a"))
"""
SECOND = """
for _ in range(2): sink.emit(op(duration_s=0.3))
sink.emit(ENTERED[Group.RECALL]); sink.emit(ENTERED[Group.RECALL])
sink.emit(PendingChanged(writes=5, in_doubt=3))
sink.emit(BreakerChanged(
    group=Group.RECALL, from_state=BreakerState.CLOSED, to_state=BreakerState.OPEN
))
sink.emit(StatePersistence(persistent=False))
"""


TRANSITION = (
    'openviking_breaker_transitions_total{from_state="closed",group="recall",to_state="open"}'
)


class Worker:
    """A process that emits what it is told."""

    def __init__(self, folder, body, wall_s):
        code = WORKER.format(body=textwrap.dedent(body), wall_s=wall_s)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
        )
        self.wait()

    def wait(self):
        told = json.loads(self.process.stdout.readline())
        return told if told == ["done"] else [told, self.wait()][0]

    def run(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.wait()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def workers(tmp_path):
    made = []

    def make(body, wall_s=1000.0):
        made.append(Worker(tmp_path, body, wall_s))
        return made[-1]

    yield make
    for worker in made:
        worker.end()


def page(worker):
    (text,) = worker.run("tell(metrics_page().decode())")
    samples = {}
    for line in text.splitlines():
        if line[0] != "#":
            name, number = line.rsplit(" ", 1)
            samples[name] = float(number)
    return samples


def test_two_workers_show_one_page(workers):
    first, _second = workers(FIRST, 1000.0), workers(SECOND, 2000.0)
    shown = page(first)
    expected = {
        # counters and histograms: sums
        'openviking_requests_total{operation="search",status="ok"}': 5,
        'openviking_requests_total{operation="search",status="error"}': 1,
        'openviking_attempts_total{operation="search",outcome="ok"}': 5,
        'openviking_request_duration_seconds_count{operation="search"}': 6,
        'openviking_request_duration_seconds_sum{operation="search"}': 3 * 0.02 + 2 * 0.3 + 3.0,
        'openviking_request_duration_seconds_bucket{le="0.025",operation="search"}': 3,
        'openviking_request_duration_seconds_bucket{le="0.5",operation="search"}': 5,
        'openviking_request_duration_seconds_bucket{le="2.0",operation="search"}': 5,
        'openviking_request_duration_seconds_bucket{le="3.0",operation="search"}': 6,
        'openviking_requests_total{operation="health",status="ok"}': 0,
        # livesum
        "openviking_pending_writes": 9,
        'openviking_in_flight{group="recall"}': 3,
        'openviking_in_flight{group="append"}': 0,
        # livemax
        "openviking_in_doubt_batches": 3,
        "openviking_pending_commits": 2,
        "openviking_oldest_pending_seconds": 7,
        'openviking_breaker_state{group="recall"}': 2,
        'openviking_breaker_state{group="host"}': 0,
        'openviking_switch_state{group="recall",mode="normal"}': 1,
        'openviking_switch_state{group="recall",mode="shadow"}': 0,
        # livemin
        "openviking_state_persistent": 0,
        "openviking_up": 0,
        # max
        'openviking_last_success_timestamp_seconds{operation="search"}': 2000,
    }
    assert {name: shown.get(name) for name in expected} == pytest.approx(expected)
    assert [name for name in shown if "client_info" in name and shown[name] == 1.0]
    assert not any(math.isnan(number) for number in shown.values())


def test_a_killed_worker_leaves_its_counts_and_takes_its_states(workers):
    first, second = workers(FIRST, 1000.0), workers(SECOND, 2000.0)
    # Not waited for: its parent (this test) keeps it as a zombie, as a busy master would.
    second.process.kill()
    os.waitid(os.P_PID, second.process.pid, os.WEXITED | os.WNOWAIT)
    shown = page(first)
    expected = {
        'openviking_requests_total{operation="search",status="ok"}': 5,
        'openviking_request_duration_seconds_count{operation="search"}': 6,
        TRANSITION: 1,
        'openviking_last_success_timestamp_seconds{operation="search"}': 2000,
        "openviking_pending_writes": 4,
        "openviking_in_doubt_batches": 1,
        'openviking_in_flight{group="recall"}': 1,
        'openviking_breaker_state{group="recall"}': 0,
        "openviking_state_persistent": 1,
        "openviking_up": 1,
    }
    assert {name: shown.get(name) for name in expected} == pytest.approx(expected)


def test_an_idle_worker_hides_no_sick_one_and_no_well_one(workers):
    idle = workers("sink.emit(StaleRead())")
    assert "openviking_up" not in page(idle)
    well = workers("sink.emit(op())")
    assert page(idle)["openviking_up"] == 1
    well.run(
        "sink.emit(BreakerChanged(group=Group.HOST, from_state=BreakerState.CLOSED,"
        " to_state=BreakerState.OPEN))"
    )
    assert page(idle)["openviking_up"] == 0


def test_making_a_sink_writes_no_file(workers, tmp_path):
    worker = workers(
        'sink.emit(ConfigLoaded(version="x", server_profile="0.5", account_alias="a"))'
    )
    assert list(tmp_path.iterdir()) == []
    worker.run("sink.emit(StaleRead())")
    assert [name for name in page(worker) if "client_info" in name]


def test_a_forked_worker_starts_from_zero_and_keeps_what_is_still_true(workers):
    parent = workers(FIRST)
    parent.run(
        "sink.emit(SwitchChanged(group=Group.COMMIT, mode=SwitchMode.SHADOW));"
        "sink.emit(BreakerChanged(group=Group.APPEND, from_state=BreakerState.CLOSED,"
        " to_state=BreakerState.OPEN))"
    )
    fork = (
        "r, w = os.pipe(); child = os.fork();"
        "(os.close(r), sink.emit(op()), os.write(w, metrics_page()), os.close(w), os._exit(0))"
        " if child == 0 else None;"
        "os.close(w); text = open(r).read(); os.waitpid(child, 0);"
        "tell(text); tell(metrics_page().decode())"
    )
    parent.process.stdin.write(fork + "\n")
    parent.process.stdin.flush()
    during, after = (
        dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        for text in (json.loads(parent.process.stdout.readline())[0] for _ in range(2))
    )
    assert json.loads(parent.process.stdout.readline()) == ["done"]
    ok = 'openviking_requests_total{operation="search",status="ok"}'
    assert (during[ok], after[ok]) == ("4.0", "4.0")
    assert during['openviking_in_flight{group="recall"}'] == "1.0"
    assert during["openviking_pending_writes"] == "4.0"
    assert during["openviking_state_persistent"] == "1.0"
    assert during['openviking_switch_state{group="commit",mode="shadow"}'] == "1.0"
    assert during['openviking_switch_state{group="commit",mode="normal"}'] == "0.0"
    assert during['openviking_breaker_state{group="append"}'] == "2.0"
    assert during["openviking_up"] == "0.0"


def test_the_page_has_no_created_samples_and_the_same_series_as_one_process(workers):
    worker = workers("sink.emit(op())")
    shared = set(page(worker))
    code = (
        "from resilient_ov.events import *; from resilient_ov.domain.exchange import Operation;"
        "from prometheus_client import CollectorRegistry;"
        "from resilient_ov_observability.metrics import MetricsSink;"
        "from resilient_ov_observability.exposure import metrics_page;"
        "registry = CollectorRegistry(); sink = MetricsSink(registry);"
        "sink.emit(OperationFinished(operation=Operation.SEARCH, group=Group.RECALL,"
        " status=OperationStatus.OK, duration_s=0.1));"
        "print(metrics_page(registry).decode())"
    )
    environment = {key: text for key, text in os.environ.items() if "MULTIPROC" not in key}
    alone = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    lines = [line for line in alone.stdout.splitlines() if line and line[0] != "#"]
    assert shared == {line.rsplit(" ", 1)[0] for line in lines}
