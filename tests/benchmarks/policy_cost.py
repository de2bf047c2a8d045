"""Gate: CPU time that the policy costs one successful operation, with its metrics, span and event.

Run `python -m tests.benchmarks.policy_cost`; exits 1 above a bound. Everything is the product's
own but the transport, which answers at once; each figure is the least of 25 rounds, so that what
else the machine does is left out.
"""

import argparse
import gc
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry

from resilient_ov import events
from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.stamina_retry import StaminaAttempts
from resilient_ov.domain.exchange import Answer, Identity, Operation, Search, Success
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.domain.ports import Attempt
from resilient_ov.drivers import SyncDriver
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.permits import Gate, Permit
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings
from resilient_ov.testing.workers import ManualWorkers
from resilient_ov.usecases.call import CallContext, Calls, origin_of
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.tracing import TraceSink
from tests.benchmarks.frame import Figure, run

ROUNDS = 25
OPERATIONS_A_ROUND = 2_000

_FIND = Search(
    identity=Identity(user="df_benchmark"),
    query="anything",
    targets=(memories_uri(),),
    limit=8,
    score_threshold=0.55,
)
_FOUND = Success(value=(), status=200)
_ENDED = events.CallFinished(
    call=events.Call.SEARCH,
    outcome=events.CallOutcome.EMPTY,
    duration_s=0.01,
    origin=origin_of("df_benchmark"),
)


class AnswersAtOnce:
    """A memory server without a wire."""

    def send(self, attempt: Attempt) -> Answer:
        return _FOUND

    def close(self) -> None: ...


class Nowhere(SpanExporter):
    """Takes spans and drops them."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Swallow(logging.Handler):
    """Takes log records and drops them."""

    def emit(self, record: logging.LogRecord) -> None: ...


def gate_alone() -> Callable[[], None]:
    """One permit asked for and reported."""
    gate = Gate(
        breaker=BreakerSettings(),
        limits=LimitSettings(),
        retry=RetrySettings(),
        fraction=SystemDice().fraction,
    )
    rule = OPERATIONS[Operation.SEARCH]

    def once() -> None:
        permit = gate.admit(
            rule, now_s=100.0, deadline_s=102.0, budget_s=2.0, identity="df_benchmark"
        )
        assert isinstance(permit, Permit)
        permit.succeeded(100.01, 0.01)

    return once


def operation(
    sinks: dict[events.SinkName, events.EventSink], traces: TraceSink | None = None
) -> Callable[[], None]:
    """One operation through the flow, its driver and the sinks; with ``traces`` in its span."""
    clock, dice = SystemClock(), SystemDice()
    calls = Calls(
        gate=Gate(
            breaker=BreakerSettings(),
            limits=LimitSettings(),
            retry=RetrySettings(),
            fraction=dice.fraction,
        ),
        series=StaminaAttempts,
        max_attempts=RetrySettings().max_attempts,
        sink=events.fan_out(sinks),
        on_changes=lambda _: None,
        clock=clock,
        dice=dice,
    )
    driver = SyncDriver(AnswersAtOnce(), ManualWorkers(), clock, time.sleep)
    origin = origin_of("df_benchmark")

    def once() -> None:
        context = CallContext.starting(clock, budget_s=2.0, origin=origin)
        driver.run(calls.perform(context, _FIND))

    def in_span(traces: TraceSink) -> None:
        with traces.scope_call(events.Call.SEARCH):
            once()
            traces.emit(_ENDED)

    return once if traces is None else partial(in_span, traces)


def metrics() -> dict[events.SinkName, events.EventSink]:
    """The sink of the metrics, on a registry of its own."""
    return {events.SinkName.METRICS: MetricsSink(CollectorRegistry())}


def with_spans() -> Callable[[], None]:
    """Metrics and the span of a call; whether an SDK is there is the caller's."""
    traces = TraceSink()
    return operation({**metrics(), events.SinkName.TRACE: traces}, traces)


def sdk() -> TracerProvider:
    """Set an SDK that batches spans, for good."""
    provider = TracerProvider()
    # Room for all spans of a round: a full queue would log, and that is not what is measured.
    provider.add_span_processor(
        BatchSpanProcessor(Nowhere(), max_queue_size=2 * OPERATIONS_A_ROUND)
    )
    trace.set_tracer_provider(provider)
    return provider


def with_spans_and_lines() -> Callable[[], None]:
    """All of it, with a log that wants successes."""
    logger = logging.getLogger("resilient_ov")
    logger.addHandler(Swallow())
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    traces = TraceSink()
    lines = LogSink(clock=SystemClock())
    return operation(
        {**metrics(), events.SinkName.LOG: lines, events.SinkName.TRACE: traces}, traces
    )


def least_us(
    once: Callable[[], None],
    rounds: int,
    operations: int,
    between: Callable[[], object] = lambda: None,
) -> float:
    """Return the CPU time of this thread for one operation, in microseconds.

    ``between`` runs before each round and is not counted: what a round piles up would be walked
    by the garbage collector in the next one.
    """
    for _ in range(operations // 10):
        once()
    gc.collect()
    gc.freeze()
    least_s = float("inf")
    for _ in range(rounds):
        between()
        began_s = time.thread_time()
        for _ in range(operations):
            once()
        least_s = min(least_s, time.thread_time() - began_s)
    return least_s / operations * 1e6


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    rounds = 5 if asked.quick else ROUNDS

    def figure(
        name: str,
        once: Callable[[], None],
        most_us: float | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> Figure:
        value = least_us(once, rounds, OPERATIONS_A_ROUND, between)
        return Figure(name=name, value=value, unit="us", samples=rounds, most=most_us)

    yield figure("gate alone", gate_alone())
    yield figure("flow without sinks", operation({}))
    yield figure("flow, metrics", operation(metrics()), 12.0)
    yield figure("flow, metrics, span without an SDK", with_spans(), 30.0)
    # Last: once an SDK is set, it is there for good.
    exported = sdk().force_flush
    yield figure("flow, metrics, SDK span and line", with_spans_and_lines(), 100.0, exported)


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
