"""Resilience: what the policy layer decides, and why: attempts, breakers, holds, limits.

No I/O here.
"""

from typing import Final

from resilient_ov_grafana.dashboards.frame import Board, Row
from resilient_ov_grafana.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    RED,
    YELLOW,
    Limits,
    Lines,
    Query,
    Stack,
    States,
    Unit,
)
from resilient_ov_grafana.promql import CLIENT

UID = "resilient-ov-resilience"
_MODES: Final = (
    "normal",
    "shadow",
    "forced_open",
    "forced_closed",
    "retries_off",
    "disabled",
)
_MODE_COLORS: Final = (GREEN, BLUE, RED, YELLOW, YELLOW, GREY)


def resilience() -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="resilient-ov / Resilience",
        about="What the policy layer does with a sick server. Breakers, limits and budgets are"
        " per process: ten workers have ten of each.",
        rows=(_breakers(), _attempts(), _limits()),
    )


def _breakers() -> Row:
    mode = "+".join(
        f"{number} * max by (group) ({CLIENT.select('openviking_switch_state', mode=mode)})"
        for number, mode in enumerate(_MODES)
        if number
    )
    succeeded = CLIENT.select("openviking_last_success_timestamp_seconds")
    return Row(
        title="Breakers, holds, switches",
        panels=(
            States(
                title="Breakers",
                about="The worst state over the chosen processes. Open = nothing is sent and the"
                " agent waits for nothing; half-open = one probe is on its way.",
                queries=[
                    Query(
                        expr=CLIENT.gauge("max", "openviking_breaker_state", by="group"),
                        legend="{{group}}",
                    )
                ],
                unit=Unit.COUNT,
                width=12,
                states={0: ("closed", GREEN), 1: ("half-open", YELLOW), 2: ("open", RED)},
            ),
            States(
                title="Switches",
                about="What an operator set with `resilient-ov switch`. Not normal for long:"
                " forgotten?",
                queries=[Query(expr=mode, legend="{{group}}")],
                unit=Unit.COUNT,
                width=12,
                states={
                    number: (mode, color)
                    for number, (mode, color) in enumerate(zip(_MODES, _MODE_COLORS, strict=True))
                },
            ),
            Lines(
                title="Breakers opening",
                about="Openings per second, which the bars above may be too coarse to show. A"
                " steady back and forth: the server answers probes and fails under load.",
                queries=[
                    Query(
                        expr=CLIENT.rate(
                            "openviking_breaker_transitions_total", by="group", to_state="open"
                        ),
                        legend="{{group}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Requests never sent, by reason",
                about="open, host_open, probe_in_flight: breakers. auth_hold, retry_after: holds."
                " bulkhead, executor: we are full. switch: an operator.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_refused_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Auth failures and auth holds",
                about="Attempts that the server refused with 401 or 403, and requests held back"
                " after three of them. A new key is picked up without a restart.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_attempts_total", outcome="auth"),
                        legend="refused by the server",
                    ),
                    Query(
                        expr=CLIENT.rate("openviking_refused_total", reason="auth_hold"),
                        legend="held back",
                    ),
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Shadow: would have been refused",
                about="Only under the switch `shadow`: what the policy would have refused.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_would_refuse_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Lines(
                title="Since an operation last succeeded",
                about="Grows in quiet hours too; together with refusals or failures it tells"
                " since when.",
                queries=[
                    Query(
                        expr=f"time() - max by (operation) ({succeeded} > 0)",
                        legend="{{operation}}",
                    )
                ],
                unit=Unit.SECONDS,
                width=16,
            ),
        ),
    )


def _attempts() -> Row:
    attempts = CLIENT.rate("openviking_attempts_total")
    sent = CLIENT.rate("openviking_requests_total", status="!refused")
    return Row(
        title="Attempts and retries",
        panels=(
            Stack(
                title="Attempts by outcome",
                about="Every request on the wire, by how it ended.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_attempts_total", by="outcome"),
                        legend="{{outcome}}",
                        exemplar=True,
                    )
                ],
                unit=Unit.REQUESTS,
            ),
            Stack(
                title="Operations by status",
                about="One per operation, retries included. unknown = sent, no answer: settled by"
                " reading back.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_requests_total", by="status"),
                        legend="{{status}}",
                    )
                ],
                unit=Unit.REQUESTS,
            ),
            Lines(
                title="Attempts for each request",
                about="How much load retries add. The budget allows 1.1 of all calls and a small"
                " reserve; above that something is wrong.",
                queries=[Query(expr=f"{attempts} / {sent}", legend="attempts / requests")],
                unit=Unit.COUNT,
                limits=Limits(base=GREEN, steps={1.05: YELLOW, 1.1: RED}),
                decimals=3,
            ),
            Stack(
                title="Retries by reason",
                about="Further attempts that were scheduled.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_retries_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Lines(
                title="Retries the budget refused",
                about="Retries that were due when the budget of the process was spent: a long or"
                " broad failure.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_retry_budget_exhausted_total"),
                        legend="refused",
                    )
                ],
                unit=Unit.RATE,
            ),
            Lines(
                title="Time of an operation",
                about="95th percentile, retries and waits included. Dots are traces.",
                queries=[
                    Query(
                        expr=CLIENT.quantile(
                            0.95, "openviking_request_duration_seconds", by="operation"
                        ),
                        legend="{{operation}}",
                        exemplar=True,
                    )
                ],
                unit=Unit.SECONDS,
            ),
        ),
    )


def _limits() -> Row:
    return Row(
        title="Limits and our own health",
        panels=(
            Lines(
                title="Requests in flight",
                about="Inside the bulkhead, all chosen processes. Limits per process: 16 for"
                " recall, 8 for the others unless configured.",
                queries=[
                    Query(
                        expr=CLIENT.gauge("sum", "openviking_in_flight", by="group"),
                        legend="{{group}}",
                    )
                ],
                unit=Unit.COUNT,
            ),
            Lines(
                title="Connection pools replaced",
                about="Pools found poisoned and swapped for new ones.",
                queries=[
                    Query(expr=CLIENT.rate("openviking_pool_healed_total"), legend="replaced")
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Events a sink did not take",
                about="Log, metrics, trace or status failed for us; memory goes on, what you see"
                " here may lack something.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_sink_errors_total", by="sink"),
                        legend="{{sink}}",
                    )
                ],
                unit=Unit.RATE,
            ),
        ),
    )
