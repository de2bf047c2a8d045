"""The numbers of one of several processes, kept in the files of ``PROMETHEUS_MULTIPROC_DIR``.

The client library owns the files and puts them together at a scrape. I/O: its memory maps, from
the first number that is counted on; making the store and setting gauges before that does none.
"""

import threading
from math import isnan
from typing import Any

from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.metric import Kind, Metric
from resilient_ov_observability.store import Plan


class SharedStore:
    """A store on the client library's multiprocess values.

    A gauge without a number to start with (None, NaN) gets its series when it is first set: NaN
    has no minimum, so one idle worker would hide a sick one.
    """

    def __init__(self, plan: Plan, registry: Any) -> None:
        self._plan = plan
        self._registry = registry
        self._lock = threading.RLock()
        self._parents: dict[str, Any] = {}
        self._children: list[Any] = [None] * len(plan.series)
        self._gauges: dict[int, float] = {
            slot: metric.initial
            for slot, (metric, _values) in enumerate(plan.series)
            if metric.kind is Kind.GAUGE and metric.initial and not isnan(metric.initial)
        }
        self._begun = False
        renew_in_children(self)

    def add(self, slot: int, amount: float) -> None:
        """Add to a counter or gauge."""
        if not self._begun:
            self._begin()
        self._child(slot).inc(amount)

    def set(self, slot: int, value: float) -> None:
        """Set a gauge."""
        self._gauges[slot] = value
        if self._begun:
            self._child(slot).set(value)

    def record(
        self, counters: tuple[int, ...], histogram: int, value: float, trace_id: str | None = None
    ) -> None:
        """Add one to each counter and observe ``value``; multiprocess mode has no exemplars."""
        del trace_id
        if not self._begun:
            self._begin()
        for slot in counters:
            self._child(slot).inc()
        self._child(histogram).observe(value)

    def renew_after_fork(self) -> None:
        """Begin again: the library starts this process's files with zeros."""
        self._lock = threading.RLock()
        series = self._plan.series
        self._gauges = {
            slot: value for slot, value in self._gauges.items() if series[slot][0].survives_fork
        }
        self._begun = False

    def _begin(self) -> None:
        """Make every series that has a number from the start, and the gauges set so far."""
        with self._lock:
            if self._begun:
                return
            for slot, (metric, _values) in enumerate(self._plan.series):
                if metric.initial is not None and not isnan(metric.initial):
                    self._child(slot)
            for slot, value in self._gauges.items():
                self._child(slot).set(value)
            self._begun = True

    def _child(self, slot: int) -> Any:
        child = self._children[slot]
        return self._new_child(slot) if child is None else child

    def _new_child(self, slot: int) -> Any:
        metric, values = self._plan.series[slot]
        with self._lock:
            parent = self._parents.get(metric.name)
            if parent is None:
                parent = self._parents[metric.name] = _parent(metric, self._registry)
            child = self._children[slot] = parent.labels(*values) if values else parent
        return child


def _parent(metric: Metric, registry: Any) -> Any:
    import prometheus_client

    common = (metric.name, metric.help, metric.label_names)
    if metric.kind is Kind.COUNTER:
        return prometheus_client.Counter(*common, registry=registry)
    if metric.kind is Kind.HISTOGRAM:
        return prometheus_client.Histogram(*common, registry=registry, buckets=metric.edges)
    mode: Any = metric.mode.value if metric.mode else "all"
    return prometheus_client.Gauge(*common, registry=registry, multiprocess_mode=mode)
