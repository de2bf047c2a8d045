"""What a metric is: name, kind, labels with their closed values, buckets, gauge mode.

No I/O here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product


class Kind(StrEnum):
    """Type of a metric, as Prometheus spells it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class GaugeMode(StrEnum):
    """How the gauges of several processes (and of several managers of one) become one."""

    LIVEMAX = "livemax"
    LIVEMIN = "livemin"
    LIVESUM = "livesum"
    MAX = "max"
    """The greatest ever, also of processes that have ended."""

    def combine(self, values: Iterable[float]) -> float:
        """Return what several holders of one gauge show together."""
        if self is GaugeMode.LIVESUM:
            return sum(values)
        return min(values) if self is GaugeMode.LIVEMIN else max(values)


@dataclass(frozen=True, slots=True)
class Label:
    """A label and every value it can ever have."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, name: str, words: Iterable[str]) -> "Label":
        """Make a label from an enum or other words."""
        return cls(name, tuple(str(word) for word in words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the catalogue.

    Attributes:
        name: full name, suffix included.
        help: one sentence, shown to the reader of the metrics page.
        labels: in order; the series are all combinations of their values.
        distinct: two of the labels never have the same value.
        edges: upper bucket edges of a histogram, ascending, without +Inf.
        mode: how a gauge is put together; None for the others.
        initial: value before anything happened; None = no series until it is set. NaN shows as
            NaN in one process and, because NaN has no minimum, as no series in several.
        survives_fork: a forked child goes on with its parent's value.

    """

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    distinct: bool = False
    edges: tuple[float, ...] = ()
    mode: GaugeMode | None = None
    initial: float | None = 0.0
    survives_fork: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the names of the labels, in order."""
        return tuple(label.name for label in self.labels)

    def series(self) -> Iterator[tuple[str, ...]]:
        """Yield the label values of every series this metric can have."""
        for values in product(*(label.values for label in self.labels)):
            if not self.distinct or len(set(values[-2:])) == 2:
                yield values

    def sample_count(self) -> int:
        """Return how many samples the metric shows at most."""
        per_series = len(self.edges) + 3 if self.kind is Kind.HISTOGRAM else 1
        return sum(1 for _ in self.series()) * per_series
