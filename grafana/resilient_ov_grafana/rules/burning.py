"""Alerts on the speed at which the recall error budget burns, over a long and a short window.

No I/O here.

Factors and windows are those of the Google SRE workbook, chapter 5 (multi-window, multi-burn-rate
alerts): 2 % of a 30 day budget in 1 h, 5 % in 6 h, 10 % in 1 d and in 3 d. The long window needs a
minimum of traffic, because at ten calls an hour one failed call would be a burn rate of 20.
"""

from dataclasses import dataclass
from typing import Final

from resilient_ov_grafana.rules.alert import Alert, Severity
from resilient_ov_grafana.rules.recording import calls_rate, error_ratio
from resilient_ov_grafana.targets import Targets

FAST: Final = "OpenVikingRecallBudgetBurnsFast"
SLOW: Final = "OpenVikingRecallBudgetBurnsSlowly"
_BOARD: Final = "resilient-ov-overview"


@dataclass(frozen=True, slots=True)
class _Burn:
    name: str
    severity: Severity
    factor: float
    long: str
    short: str
    for_s: float
    calls_per_hour: float


_BURNS: Final = (
    _Burn(FAST, Severity.CRITICAL, 14.4, "1h", "5m", 120, 60),
    _Burn(FAST, Severity.CRITICAL, 6, "6h", "30m", 900, 60),
    _Burn(SLOW, Severity.WARNING, 3, "1d", "2h", 3_600, 6),
    _Burn(SLOW, Severity.WARNING, 1, "3d", "6h", 10_800, 6),
)


def burning(targets: Targets) -> list[Alert]:
    """Return the alerts."""
    return [_alert(burn, targets) for burn in _BURNS]


def _alert(burn: _Burn, targets: Targets) -> Alert:
    long, short, calls = error_ratio(burn.long), error_ratio(burn.short), calls_rate(burn.long)
    return Alert(
        name=burn.name,
        severity=burn.severity,
        summary="Recalls of {{ $labels.job }} fail too often",
        description=(
            "{{ $value | humanizePercentage }} of the recalls of the last"
            f" {burn.long} were degraded; the objective allows"
            f" {targets.error_budget * 100:.6g}%. At {burn.factor:g} times that speed the error"
            f" budget of {targets.period_days} days lasts"
            f" {targets.period_days / burn.factor:.2g} days."
        ),
        board=_BOARD,
        expr=(
            f"{long} > $limits[share]\n"
            f"and {short} > $limits[share]\n"
            f"and {calls} * 3600 >= $limits[calls_per_hour]\n"
        ),
        limits={
            "share": burn.factor * targets.error_budget,
            "calls_per_hour": burn.calls_per_hour,
        },
        for_s=burn.for_s,
        labels={"window": burn.long},
    )
