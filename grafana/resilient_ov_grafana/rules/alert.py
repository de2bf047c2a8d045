"""What an alert is: an expression with its numbers apart, so that tests can turn them.

No I/O here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from resilient_ov_grafana.targets import Targets


class Severity(StrEnum):
    """Critical wakes somebody up, a warning is looked at in working hours."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert.

    Attributes:
        expr: PromQL in which ``$limits[NAME]`` stands for a number of ``limits``.
        limits: name -> threshold.
        for_s: how long it must be true, seconds at the shipped pace.
        keep_s: how long it goes on firing afterwards; bridges gaps between probes.
        board: uid of the dashboard it links to.
        labels: further labels, which tell alerts of one name apart.

    """

    name: str
    severity: Severity
    summary: str
    description: str
    board: str
    expr: str
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    for_s: float = 0.0
    keep_s: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """Name with what tells it from others of the same name."""
        return "-".join([self.name, *self.labels.values()])

    def rule(self, targets: Targets) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        expr = self.expr
        for name, value in self.limits.items():
            expr = expr.replace(f"$limits[{name}]", f"{value:.12g}")
        rule: dict[str, Any] = {"alert": self.name, "expr": expr}
        if self.for_s:
            rule["for"] = targets.span(self.for_s)
        if self.keep_s:
            rule["keep_firing_for"] = targets.span(self.keep_s)
        rule["labels"] = {"severity": self.severity.value, **self.labels}
        rule["annotations"] = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{targets.runbook_url}#{self.name.lower()}",
            "dashboard_url": f"{targets.grafana_url}/d/{self.board}"
            "?var-job={{ $labels.job }}&from=now-1h&to=now",
        }
        return rule
