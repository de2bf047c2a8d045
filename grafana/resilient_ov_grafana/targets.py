"""What an operator may set: the objective, the addresses in annotations, the pace.

No I/O here.
"""

from dataclasses import dataclass
from typing import Final

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))
CANARY_LATE_S: Final = 600.0
"""Two rounds of a probe that is looped every 300 s."""
_REPOSITORY: Final = "https://github.com/resilient-ov/resilient-ov"


class TargetsError(ValueError):
    """A target is out of its range; names the field, the range and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Parameters of dashboards and rules. Raises ``TargetsError`` when one is out of range.

    Attributes:
        recall_objective: share of recalls that must not be degraded, 0.5..0.99999.
        period_days: length of the error budget, 1..90 days.
        delivery_seconds: a write is late when it waits longer than this, 1..86400 s.
        job: job name of the client's scrape, as in the shipped ``prometheus.yml``.
        grafana_url: where alerts link to, without a trailing slash.
        runbook_url: the runbook's page; alerts append ``#`` and their name in lower case.
        webhook_url: where the shipped Alertmanager configuration sends notifications.
        faster: every duration in rules and routes is divided by this; 1 is what is shipped,
            tests use 60. Names of recorded series keep their nominal window.

    """

    recall_objective: float = 0.995
    period_days: int = 30
    delivery_seconds: float = 300.0
    job: str = "resilient-ov"
    grafana_url: str = "http://localhost:3000"
    runbook_url: str = f"{_REPOSITORY}/blob/main/grafana/RUNBOOK.md"
    webhook_url: str = "http://localhost:9095/alerts"
    faster: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check("recall_objective", self.recall_objective, 0.5, 0.99999)
        _check("period_days", self.period_days, 1, 90)
        _check("delivery_seconds", self.delivery_seconds, 1, 86_400)
        _check("faster", self.faster, 1, 60)

    @property
    def error_budget(self) -> float:
        """Share of recalls that may be degraded."""
        return round(1.0 - self.recall_objective, 12)

    def span(self, seconds: float) -> str:
        """Return a duration at this pace, as PromQL writes it: ``5m``."""
        return duration(seconds / self.faster)


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that tells it exactly; 90 s is ``90s``."""
    milliseconds = round(seconds * 1000)
    for size, unit in _UNITS:
        if milliseconds >= size and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0s"


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise TargetsError(f"{name}: must be {least}..{most}, not {value}")
