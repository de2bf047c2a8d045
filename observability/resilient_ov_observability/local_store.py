"""The numbers of one process, kept in plain lists and shown to a Prometheus registry.

Own lists instead of the client library's children: one lock per event instead of one per number
halves the cost of a success, and the library's ``_created`` samples stay away.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.metric import Kind, Metric
from resilient_ov_observability.redaction import exemplar_trace_id
from resilient_ov_observability.store import Plan


class _Row:
    """One histogram: counts per bucket (not cumulative), their sum, the last exemplar of each."""

    __slots__ = ("counts", "edges", "exemplars", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0
        self.exemplars: list[tuple[str, float, float] | None] = [None] * (len(edges) + 1)


class LocalStore:
    """A store for a process of its own; also a collector for a ``CollectorRegistry``."""

    def __init__(self, plan: Plan, wall_s: Callable[[], float] = time.time) -> None:
        self._plan = plan
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._values = [metric.initial or 0.0 for metric, _values in plan.series]
        self._absent = {
            slot for slot, (metric, _values) in enumerate(plan.series) if metric.initial is None
        }
        self._rows: list[_Row] = [_Row(metric.edges) for metric, _values in plan.series]
        renew_in_children(self)

    def add(self, slot: int, amount: float) -> None:
        """Add to a counter or gauge."""
        # This and `record` are on the path of every request, and on CPython 3.12 `with lock` costs
        # four times as much as these two calls; `acquire` is watched by guards of event loops.
        lock = self._lock
        lock.__enter__()
        try:
            self._values[slot] += amount
        finally:
            lock.release()

    def set(self, slot: int, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[slot] = value
            self._absent.discard(slot)

    def record(
        self, counters: tuple[int, ...], histogram: int, value: float, trace_id: str | None = None
    ) -> None:
        """Add one to each counter and observe ``value``."""
        row = self._rows[histogram]
        bucket = bisect_left(row.edges, value)
        values, lock = self._values, self._lock
        lock.__enter__()
        try:
            for slot in counters:
                values[slot] += 1.0
            row.total += value
            row.counts[bucket] += 1
        finally:
            lock.release()
        if trace_id is not None:
            row.exemplars[bucket] = (trace_id, value, self._wall_s())

    def settle(self) -> None:
        """Return at once: what is counted can be seen."""

    def renew_after_fork(self) -> None:
        """Take a new lock and forget the gauges that speak of the parent alone."""
        self._lock = threading.Lock()
        for slot, (metric, _values) in enumerate(self._plan.series):
            if metric.kind is Kind.GAUGE and not metric.survives_fork:
                self._values[slot] = metric.initial or 0.0

    # -- the collector protocol of prometheus_client

    def describe(self) -> Iterator[Any]:
        """Yield the metrics without samples: what the registry checks for collisions."""
        for metric in self._plan.metrics:
            yield _family(metric)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics with their samples, all of one instant."""
        with self._lock:
            values, absent = list(self._values), set(self._absent)
            rows = [(row.total, list(row.counts), list(row.exemplars)) for row in self._rows]
        family: Any = None
        shown: Metric | None = None
        for slot, (metric, labels) in enumerate(self._plan.series):
            if metric is not shown:
                if family is not None:
                    yield family
                family, shown = _family(metric), metric
            if metric.kind is Kind.HISTOGRAM:
                total, counts, exemplars = rows[slot]
                family.add_metric(labels, _buckets(metric, counts, exemplars), total)
            elif slot not in absent:
                family.add_metric(labels, values[slot])
        if family is not None:
            yield family


def _family(metric: Metric) -> Any:
    # Imported here: a store is only ever asked for its metrics by the library itself.
    from prometheus_client import core

    kinds = {
        Kind.COUNTER: core.CounterMetricFamily,
        Kind.GAUGE: core.GaugeMetricFamily,
        Kind.HISTOGRAM: core.HistogramMetricFamily,
    }
    return kinds[metric.kind](metric.name, metric.help, labels=metric.label_names)


def _buckets(
    metric: Metric, counts: list[int], exemplars: list[tuple[str, float, float] | None]
) -> list[tuple[Any, ...]]:
    """Return cumulative (edge, count, exemplar) triples, +Inf last."""
    from prometheus_client.samples import Exemplar

    shown: list[tuple[Any, ...]] = []
    below = 0
    for edge, count, exemplar in zip((*metric.edges, float("inf")), counts, exemplars, strict=True):
        below += count
        trace_id = exemplar_trace_id(exemplar[0]) if exemplar else None
        if exemplar is None or trace_id is None:
            shown.append((_le(edge), below))
        else:
            told = Exemplar({"trace_id": trace_id}, exemplar[1], exemplar[2])
            shown.append((_le(edge), below, told))
    return shown


def _le(edge: float) -> str:
    return "+Inf" if edge == float("inf") else repr(float(edge))
