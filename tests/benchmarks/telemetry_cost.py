"""What watching costs: thread CPU of the events of one successful operation, per layer.

Usage: python tests/benchmarks/telemetry_cost.py [--json]

The bounds are those of the whole policy on a success (flow included), so what is printed here
must leave room for the flow. Minimum of 25 rounds of 400 operations; null transport.
"""

import gc
import json
import logging
import sys
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from resilient_ov import events
from resilient_ov.adapters.clock import SystemClock
from resilient_ov.domain.exchange import Operation
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.status import StatusBoard
from resilient_ov_observability.tracing import TraceSink

ROUNDS = 25
OPERATIONS = 400
ORIGIN = events.Origin(
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    user_hash="df_" + "0" * 40,
    session_hash="df_" + "a" * 52,
)
BOUNDS_US = {"metrics only": 12.0, "+ API-only span": 30.0, "+ SDK span and event": 100.0}


def operation_events(sink: events.EventSink) -> None:
    """Emit what one successful operation emits."""
    sink.emit(events.ENTERED[events.Group.RECALL])
    sink.emit(events.LEFT[events.Group.RECALL])
    sink.emit(
        events.OperationFinished(
            operation=Operation.SEARCH,
            group=events.Group.RECALL,
            status=events.OperationStatus.OK,
            duration_s=0.034,
            origin=ORIGIN,
            request_id="0123456789abcdef0123456789abcdef",
            status_code=200,
            result_count=3,
        )
    )


def sinks(trace: TraceSink | None) -> events.EventSink:
    """Return all sinks as one, the metrics on a registry of their own."""
    clock = SystemClock()
    metrics = MetricsSink(
        CollectorRegistry(), exemplar_trace_id=None if trace is None else trace.current_trace_id
    )
    made: dict[events.SinkName, events.EventSink] = {
        events.SinkName.METRICS: metrics,
        events.SinkName.STATUS: StatusBoard(clock=clock),
        events.SinkName.LOG: LogSink(clock=clock, account_alias="acct_0"),
    }
    if trace is not None:
        made[events.SinkName.TRACE] = trace
    return events.fan_out(made)


def metrics_only() -> Callable[[], None]:
    """Metrics, status and a log nobody reads; no spans."""
    logging.getLogger("resilient_ov").setLevel(logging.INFO)
    sink = sinks(None)
    return lambda: operation_events(sink)


def with_span() -> Callable[[], None]:
    """The same inside the span of its call."""
    trace = TraceSink()
    sink = sinks(trace)
    call = events.CallFinished(
        call=events.Call.SEARCH,
        outcome=events.CallOutcome.OK,
        duration_s=0.035,
        origin=ORIGIN,
    )

    def run() -> None:
        with trace.scope_call(events.Call.SEARCH):
            operation_events(sink)
            sink.emit(call)

    return run


def with_sdk_and_event() -> Callable[[], None]:
    """The same with a recording span and a log line per operation."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    logger = logging.getLogger("resilient_ov")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return with_span()


LAYERS = {
    "metrics only": metrics_only,
    "+ API-only span": with_span,
    "+ SDK span and event": with_sdk_and_event,
}


def cost_us(run: Callable[[], None]) -> float:
    """Return the thread CPU of one operation in microseconds, the best of the rounds."""
    for _ in range(OPERATIONS // 5):
        run()
    gc.collect()
    gc.freeze()
    best = float("inf")
    for _ in range(ROUNDS):
        began_s = time.thread_time()
        for _ in range(OPERATIONS):
            run()
        best = min(best, time.thread_time() - began_s)
    return best / OPERATIONS * 1e6


def main() -> None:
    """Print the table, or the figures for a machine."""
    figures = {name: cost_us(make()) for name, make in LAYERS.items()}
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    print(f"telemetry of one operation, thread CPU, min of {ROUNDS} x {OPERATIONS}; no seed")
    print(f"{'layer':24} {'us':>8} {'bound, flow included':>22} {'left for the flow':>18}")
    for name, figure in figures.items():
        bound = BOUNDS_US[name]
        print(f"{name:24} {figure:8.1f} {bound:22.0f} {bound - figure:18.1f}")
    if any(figure > BOUNDS_US[name] for name, figure in figures.items()):
        sys.exit("a layer alone is over its bound")


if __name__ == "__main__":
    main()
