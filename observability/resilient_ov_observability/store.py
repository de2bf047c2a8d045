"""Holds the numbers behind the catalogue.

A slot is the place of one series; it is looked up once and used as a number from then on, so a
series that is not in the catalogue cannot come into being. No I/O here.
"""

from collections.abc import Iterable
from typing import Protocol

from resilient_ov_observability.metric import Kind, Metric


class Store(Protocol):
    """Adds up numbers. Safe from any thread; never blocks for longer than an addition."""

    def add(self, slot: int, amount: float) -> None:
        """Add to a counter or gauge."""
        ...

    def set(self, slot: int, value: float) -> None:
        """Set a gauge."""
        ...

    def record(
        self, counters: tuple[int, ...], histogram: int, value: float, trace_id: str | None = None
    ) -> None:
        """Add one to each counter and observe ``value``; ``trace_id`` may become an exemplar."""
        ...

    def settle(self) -> None:
        """Wait until everything counted so far can be seen by a scrape."""
        ...


class Plan:
    """Which slot each series of a list of metrics has."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = tuple(metrics)
        self.series: list[tuple[Metric, tuple[str, ...]]] = [
            (metric, values) for metric in self.metrics for values in metric.series()
        ]
        self._slots = {
            (metric.name, values): slot for slot, (metric, values) in enumerate(self.series)
        }

    def slot(self, name: str, *values: str) -> int:
        """Return the slot of a series.

        Raises:
            KeyError: the catalogue has no such series.

        """
        return self._slots[name, values]


class SharedGauges:
    """Puts the gauges of several managers of one process together before they are stored."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self._modes = {
            slot: metric.mode
            for slot, (metric, _values) in enumerate(plan.series)
            if metric.kind is Kind.GAUGE and metric.mode is not None
        }
        self._store = store
        self._parts: dict[int, dict[int, float]] = {}

    def set(self, slot: int, holder: int, value: float) -> None:
        """Set a holder's part of a gauge; what is stored is what all parts show together."""
        parts = self._parts.setdefault(slot, {})
        parts[holder] = value
        # A copy, because another thread may bring in a new holder meanwhile.
        self._store.set(slot, self._modes[slot].combine(tuple(parts.values())))

    def withdraw(self, holder: int) -> None:
        """Take back every part of a holder that is gone; the last one's values stay."""
        for slot, parts in list(self._parts.items()):
            if parts.pop(holder, None) is not None and parts:
                self._store.set(slot, self._modes[slot].combine(tuple(parts.values())))
