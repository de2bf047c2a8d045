"""How fast a run goes: the product's settings, the length of the phases, the pace of the traffic.

Rule: pure. What a scenario expects is told in these terms, so it holds for every pace.
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """One pace. All times in seconds; the first block are settings of the product."""

    name: str
    get_context_s: float
    search_s: float
    add_s: float
    warm_s: float
    flush_s: float
    open_s: float
    max_open_s: float
    settle_s: float

    baseline_s: float
    fault_s: float
    recovery_s: float
    """Longest wait for the end of a recovery."""
    think_s: float
    """What the model takes for an answer, on average."""
    further: dict[str, object] = field(default_factory=dict[str, object])
    """Settings of the product that one scenario needs."""

    @property
    def last_flush_s(self) -> float:
        """Time for a shutdown after the recovery, which has to drain on a busy machine too."""
        return 3.0 * self.flush_s

    def config(self) -> dict[str, object]:
        """Return what goes into the product's ``backend_config``."""
        config: dict[str, object] = {
            "budgets": {
                "get_context_seconds": self.get_context_s,
                "search_seconds": self.search_s,
                "add_seconds": self.add_s,
                "warm_seconds": self.warm_s,
            },
            "breaker": {"open_seconds": self.open_s, "max_open_seconds": self.max_open_s},
            "session": {"settle_seconds": self.settle_s},
        }
        for section, values in self.further.items():
            known = config.get(section)
            merged = isinstance(known, dict) and isinstance(values, dict)
            config[section] = {**known, **values} if merged else values  # type: ignore[dict-item]
        return config


SHIPPED: Final = Knobs(
    name="shipped",
    get_context_s=2.0,
    search_s=3.0,
    add_s=3.0,
    warm_s=3.0,
    flush_s=6.0,
    open_s=5.0,
    max_open_s=30.0,
    settle_s=5.0,
    baseline_s=3.0,
    fault_s=20.0,
    recovery_s=60.0,
    think_s=0.25,
)
"""The product as it is shipped."""

QUICK: Final = Knobs(
    name="quick",
    get_context_s=0.8,
    search_s=0.8,
    add_s=1.2,
    warm_s=1.5,
    flush_s=1.5,
    open_s=0.8,
    max_open_s=1.6,
    settle_s=0.8,
    baseline_s=1.0,
    fault_s=5.0,
    recovery_s=20.0,
    think_s=0.12,
)
"""Everything about four times as fast, for every commit."""

PACES: Final = {each.name: each for each in (QUICK, SHIPPED)}
