"""Recorded series: recalls and their errors per job over the windows of the burn rates.

No I/O here.
"""

from typing import Final

from resilient_ov_grafana.promql import FAILED, READS
from resilient_ov_grafana.targets import Targets

WINDOWS: Final = {
    "5m": 300,
    "30m": 1_800,
    "1h": 3_600,
    "2h": 7_200,
    "6h": 21_600,
    "1d": 86_400,
    "3d": 259_200,
}
"""Window -> seconds."""
_FROM_RECORDED_S: Final = 86_400
"""From here on a window is put together from 5 min rates; raw series are too many samples."""
BUDGET_LEFT: Final = "job:openviking_recall_error_budget:remaining_ratio"
P95: Final = "job_instance_call:openviking_call_duration_seconds:p95_5m"

Rule = dict[str, str]


def calls_rate(window: str) -> str:
    """Return the name of recalls per second over a window."""
    return f"job:openviking_recall_calls:rate{window}"


def error_ratio(window: str) -> str:
    """Return the name of the share of degraded recalls over a window."""
    return f"job:openviking_recall_errors:ratio_rate{window}"


def recording_rules(targets: Targets) -> list[Rule]:
    """Return the rules in the order in which they need each other."""
    errors = "job:openviking_recall_errors:rate5m"
    rules = [
        _rule(calls_rate("5m"), _calls(targets.span(WINDOWS["5m"]))),
        _rule(errors, _errors(targets.span(WINDOWS["5m"]))),
        _rule(error_ratio("5m"), f"{errors} / {calls_rate('5m')}"),
    ]
    for window, seconds in WINDOWS.items():
        if window == "5m":
            continue
        span = targets.span(seconds)
        if seconds < _FROM_RECORDED_S:
            rules.append(_rule(calls_rate(window), _calls(span)))
            rules.append(_rule(error_ratio(window), f"{_errors(span)} / {calls_rate(window)}"))
        else:
            over = f"{calls_rate('5m')}[{span}]"
            rules.append(_rule(calls_rate(window), f"avg_over_time({over})"))
            bad = f"avg_over_time({errors}[{span}])"
            rules.append(_rule(error_ratio(window), f"{bad} / {calls_rate(window)}"))
    period = targets.span(targets.period_days * 86_400)
    spent = f"sum_over_time({errors}[{period}]) / sum_over_time({calls_rate('5m')}[{period}])"
    rules.append(_rule(BUDGET_LEFT, f"1 - {spent} / {targets.error_budget}"))
    waited = f"openviking_call_duration_seconds_bucket[{targets.span(300)}]"
    rules.append(
        _rule(
            P95,
            f"histogram_quantile(0.95, sum by (job, instance, call, le) (rate({waited})))",
        )
    )
    return rules


def _calls(span: str) -> str:
    chosen = f'call=~"{READS}", outcome!="cancelled"'
    return f"sum by (job) (rate(openviking_calls_total{{{chosen}}}[{span}]))"


def _errors(span: str) -> str:
    chosen = f'call=~"{READS}", outcome=~"{FAILED}"'
    return f"sum by (job) (rate(openviking_calls_total{{{chosen}}}[{span}]))"


def _rule(name: str, expr: str) -> Rule:
    return {"record": name, "expr": expr}
