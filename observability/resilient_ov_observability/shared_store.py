"""The numbers of one of several processes, kept in the files of ``PROMETHEUS_MULTIPROC_DIR``.

The client library owns the files and puts them together at a scrape. I/O: its memory maps. They
are made at the first number that is counted, on a thread of their own, because making them takes
longer than an event loop may stand still; what is counted meanwhile waits in memory.
"""

import threading
from collections.abc import Callable
from functools import partial
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
        self._ready = self._broken = False
        self._maker: threading.Thread | None = None
        self._waiting: list[Callable[[], None]] = []
        renew_in_children(self)

    def add(self, slot: int, amount: float) -> None:
        """Add to a counter or gauge."""
        if self._ready or not self._later(partial(self._add, slot, amount)):
            self._add(slot, amount)

    def set(self, slot: int, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._gauges[slot] = value
            if self._ready:
                self._child(slot).set(value)

    def record(
        self, counters: tuple[int, ...], histogram: int, value: float, trace_id: str | None = None
    ) -> None:
        """Add one to each counter and observe ``value``; multiprocess mode has no exemplars."""
        del trace_id
        if self._ready or not self._later(partial(self._record, counters, histogram, value)):
            self._record(counters, histogram, value)

    def settle(self) -> None:
        """Wait until what was counted so far is in the files; at once if nothing was."""
        maker = self._maker
        if maker is not None:
            maker.join()

    def renew_after_fork(self) -> None:
        """Begin again: the library starts this process's files with zeros."""
        self._lock = threading.RLock()
        series = self._plan.series
        self._gauges = {
            slot: value for slot, value in self._gauges.items() if series[slot][0].survives_fork
        }
        self._ready = self._broken = False
        self._maker = None
        self._waiting = []

    def _add(self, slot: int, amount: float) -> None:
        self._child(slot).inc(amount)

    def _record(self, counters: tuple[int, ...], histogram: int, value: float) -> None:
        for slot in counters:
            self._child(slot).inc()
        self._child(histogram).observe(value)

    def _later(self, count: Callable[[], None]) -> bool:
        """Keep a number until the files are there (lost if they cannot be); False when they are."""
        with self._lock:
            if self._ready:
                return False
            if self._broken:
                return True
            self._waiting.append(count)
            if self._maker is None:
                self._maker = threading.Thread(
                    target=self._make, name="resilient-ov-metrics-files", daemon=True
                )
                self._maker.start()
            return True

    def _make(self) -> None:
        try:
            self._make_files()
        except Exception:  # noqa: BLE001 - no folder, no space: memory works without metrics
            with self._lock:
                self._broken = True
                self._waiting = []

    def _make_files(self) -> None:
        """Make every series that has a number from the start, then count what has waited."""
        for slot, (metric, _values) in enumerate(self._plan.series):
            if metric.initial is not None and not isnan(metric.initial):
                self._child(slot)
        with self._lock:
            for slot, value in self._gauges.items():
                self._child(slot).set(value)
            for count in self._waiting:
                count()
            self._waiting = []
            self._ready = True

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
