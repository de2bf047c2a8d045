"""Overview: whether memory helps the agent, and whether we keep what we promised.

No I/O here.
"""

from resilient_ov_grafana.dashboards.frame import Board, Row
from resilient_ov_grafana.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    RED,
    YELLOW,
    Figure,
    Limits,
    Lines,
    Query,
    Stack,
    Total,
    Unit,
)
from resilient_ov_grafana.promql import CLIENT, FAILED, READS, WRITES
from resilient_ov_grafana.rules.recording import BUDGET_LEFT, WINDOWS, error_ratio
from resilient_ov_grafana.targets import CANARY_LATE_S, Targets

UID = "resilient-ov-overview"
_JOB = 'job=~"$job"'


def overview(targets: Targets) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="resilient-ov / Overview",
        about="Is memory helping the agent? Start here; the links lead to causes.",
        rows=(_now(targets), _felt(), _objectives(targets), _worth()),
    )


def _now(targets: Targets) -> Row:
    counted = CLIENT.increase("openviking_calls_total", call=READS, outcome="!cancelled")
    failed = CLIENT.increase("openviking_calls_total", call=READS, outcome=FAILED)
    goal = targets.recall_objective
    late = targets.delivery_seconds
    return Row(
        title="Now",
        panels=(
            Figure(
                title="OpenViking",
                about="DOWN when any process has an open breaker, an auth hold, or three failed"
                " attempts in a row. The agent goes on without memory meanwhile.",
                queries=[Query(expr=CLIENT.gauge("min", "openviking_up"))],
                unit=Unit.COUNT,
                width=4,
                states={0: ("DOWN", RED), 1: ("up", GREEN)},
                no_value="no attempt yet",
            ),
            Total(
                title="Recalls answered",
                about="Share of recalls in the time shown that were not degraded; cancelled ones"
                f" do not count. Objective: {goal:.6g}.",
                queries=[Query(expr=f"1 - {failed} / {counted}")],
                unit=Unit.SHARE,
                width=4,
                decimals=2,
                limits=Limits(base=RED, steps={goal: GREEN}),
                no_value="no recalls",
            ),
            Figure(
                title="Error budget left",
                about=f"Of the last {targets.period_days} days; 0 % = the objective is just met,"
                " below = it is missed.",
                queries=[Query(expr=f"min ({BUDGET_LEFT}{{{_JOB}}})")],
                unit=Unit.SHARE,
                width=4,
                decimals=0,
                limits=Limits(base=RED, steps={0.0: YELLOW, 0.25: GREEN}),
                no_value="no recalls",
            ),
            Figure(
                title="Oldest waiting write",
                about=f"Writes are promised within {late:g} s. What waits is in the memory of the"
                " gateway: do not restart it while this is high.",
                queries=[Query(expr=CLIENT.gauge("max", "openviking_oldest_pending_seconds"))],
                unit=Unit.SECONDS,
                width=4,
                decimals=0,
                limits=Limits(base=GREEN, steps={late / 5: YELLOW, late: RED}),
            ),
            Total(
                title="Messages given up",
                about="In the time shown, for any reason. Promised: none, except by your own"
                " switch or purge. See Delivery for the reasons.",
                queries=[Query(expr=CLIENT.increase("openviking_messages_dropped_total"))],
                unit=Unit.COUNT,
                width=4,
                decimals=0,
                limits=Limits(base=GREEN, steps={1.0: RED}),
            ),
            Total(
                title="Messages stored twice",
                about="In the time shown: found twice on the server after it applied a write late."
                " Promised: none that goes unseen.",
                queries=[
                    Query(expr=CLIENT.increase("openviking_messages_total", result="duplicated"))
                ],
                unit=Unit.COUNT,
                width=4,
                decimals=0,
                limits=Limits(base=GREEN, steps={1.0: YELLOW}),
            ),
        ),
    )


def _felt() -> Row:
    waited = "openviking_call_duration_seconds"
    return Row(
        title="What the agent got",
        panels=(
            Stack(
                title="Recalls by outcome",
                about="What recalls returned. ok = memories, empty = none fit, degraded_* = none"
                " because of trouble.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_calls_total", by="outcome", call=READS),
                        legend="{{outcome}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Writes by outcome",
                about="What writes ended with. pending = the call is back, delivery goes on in the"
                " background.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_calls_total", by="outcome", call=WRITES),
                        legend="{{outcome}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Calls without memory by reason",
                about="Why calls went on without memory. auth and scope are configuration,"
                " the others are the server or the network.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_degraded_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Lines(
                title="Time the agent waited for a recall",
                about="Includes everything: queue, retries, back-off. It ends at the budget"
                " (2 s for get_context, 3 s for search unless configured). Dots are traces.",
                queries=[
                    Query(
                        expr=CLIENT.quantile(share, waited, by="call", call=READS),
                        legend=f"{{{{call}}}} p{share * 100:g}",
                        exemplar=True,
                    )
                    for share in (0.5, 0.95, 0.99)
                ],
                unit=Unit.SECONDS,
            ),
            Lines(
                title="Time the agent waited for a write",
                about="add ends at its budget (3 s unless configured), add_nowait does not wait.",
                queries=[
                    Query(
                        expr=CLIENT.quantile(share, waited, by="call", call=WRITES),
                        legend=f"{{{{call}}}} p{share * 100:g}",
                        exemplar=True,
                    )
                    for share in (0.5, 0.95)
                ],
                unit=Unit.SECONDS,
            ),
            Lines(
                title="Returned after the deadline by",
                about="99th percentile of how late calls came back after their budget. Promised:"
                " 25 ms on a machine that is not busy.",
                queries=[
                    Query(
                        expr=CLIENT.quantile(
                            0.99, "openviking_deadline_overshoot_seconds", by="call"
                        ),
                        legend="{{call}}",
                    )
                ],
                unit=Unit.SECONDS,
                limits=Limits(base=GREEN, steps={0.025: YELLOW, 0.1: RED}),
            ),
        ),
    )


def _objectives(targets: Targets) -> Row:
    goal = targets.recall_objective
    ratio = "job:openviking_recall_errors:ratio_rate5m"
    return Row(
        title="Objectives",
        panels=(
            Lines(
                title="Recalls answered (5 min)",
                about=f"Share of recalls not degraded, by job. Objective: {goal:.6g}.",
                queries=[Query(expr=f"1 - {ratio}{{{_JOB}}}", legend="{{job}}")],
                unit=Unit.SHARE,
                limits=Limits(base=RED, steps={goal: GREEN}),
                decimals=2,
            ),
            Lines(
                title="Speed at which the error budget burns",
                about="1 = the budget lasts exactly its period. Pages at 14.4 over 1 h and 6 over"
                " 6 h, tickets at 3 over 1 d and 1 over 3 d.",
                queries=[
                    Query(
                        expr=f"{error_ratio(window)}{{{_JOB}}} / {targets.error_budget}",
                        legend=f"{{{{job}}}} {window}",
                    )
                    for window in WINDOWS
                    if window in {"5m", "1h", "6h", "1d", "3d"}
                ],
                unit=Unit.COUNT,
                limits=Limits(base=GREEN, steps={1.0: YELLOW, 14.4: RED}),
            ),
            Lines(
                title="Canary: since it last came round",
                about="Age of the last full loop (write, commit, extract, recall) of"
                " `resilient-ov check --loop`. Flat 0 without a canary.",
                queries=[
                    Query(
                        expr="min by (instance) ((time() - {0}) * ({0} > bool 0))".format(
                            CLIENT.select("openviking_canary_last_success_timestamp_seconds")
                        ),
                        legend="{{instance}}",
                    )
                ],
                unit=Unit.SECONDS,
                width=4,
                limits=Limits(base=GREEN, steps={CANARY_LATE_S: RED}),
            ),
            Stack(
                title="Canary: steps",
                about="Steps of the looping check by how they ended.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_canary_runs_total", by="step, outcome"),
                        legend="{{step}} {{outcome}}",
                    )
                ],
                unit=Unit.RATE,
                width=4,
            ),
        ),
    )


def _worth() -> Row:
    characters, hits = "openviking_injection_chars", "openviking_search_results"
    return Row(
        title="What the memories were worth",
        panels=(
            Lines(
                title="Memory in the prompt",
                about="Characters handed to the agent, by share of prompts. Near 0 for long: the"
                " extraction may be failing.",
                queries=[
                    Query(expr=CLIENT.quantile(0.5, characters), legend="p50"),
                    Query(expr=CLIENT.quantile(0.95, characters), legend="p95"),
                ],
                unit=Unit.COUNT,
            ),
            Lines(
                title="Hits of an answered search",
                about="Hits kept after the score threshold and the scope check.",
                queries=[
                    Query(expr=CLIENT.quantile(0.5, hits, by="operation"), legend="p50"),
                    Query(expr=CLIENT.quantile(0.95, hits, by="operation"), legend="p95"),
                ],
                unit=Unit.COUNT,
            ),
            Lines(
                title="Stale answers and rejected hits",
                about="Stale: an earlier answer stood in (off unless configured). Rejected: hits"
                " outside what the user may see; a burst means that the server mixes up users.",
                queries=[
                    Query(expr=CLIENT.rate("openviking_stale_reads_total"), legend="stale"),
                    Query(expr=CLIENT.rate("openviking_hits_rejected_total"), legend="rejected"),
                ],
                unit=Unit.RATE,
                width=4,
            ),
            Figure(
                title="Version",
                about="Client version and server profile of the processes.",
                queries=[
                    Query(
                        expr="count by (version, server_profile)"
                        f" ({CLIENT.select('openviking_client_info')})",
                        legend="{{version}} on {{server_profile}}",
                    )
                ],
                unit=Unit.COUNT,
                width=4,
                limits=Limits(base=BLUE, steps={0.0: GREY}),
            ),
        ),
    )
