"""Client and server side by side: tells the server, the network and us apart.

No I/O here.
"""

from typing import Final

from resilient_ov_grafana.dashboards.frame import Board, Row
from resilient_ov_grafana.dashboards.panels import (
    GREEN,
    RED,
    YELLOW,
    Figure,
    Limits,
    Lines,
    Panel,
    Query,
    Stack,
    Unit,
)
from resilient_ov_grafana.promql import CLIENT, SERVER

UID = "resilient-ov-side-by-side"
_SERVED: Final = "openviking_http_request_duration_seconds"
_ASKED: Final = "openviking_request_duration_seconds"
_ROUTES: Final = (
    ("Recall", "search", "/api/v1/search/find"),
    ("Append", "messages.add", "/api/v1/sessions/{session_id}/messages/batch"),
    ("Commit", "session.commit", "/api/v1/sessions/{session_id}/commit"),
)


def side_by_side() -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="resilient-ov / Client and server",
        about="Our view beside OpenViking's own metrics (0.5.2, its /metrics switched on)."
        " A gap between the lines is the network, a queue, or retries.",
        rows=(_latency(), _load()),
        with_server=True,
    )


def _latency() -> Row:
    panels: list[Panel] = []
    for name, operation, route in _ROUTES:
        ours = CLIENT.quantile(0.95, _ASKED, operation=operation)
        theirs = SERVER.quantile(0.95, _SERVED, route=_literal(route))
        panels.append(
            Lines(
                title=f"{name}: client and server",
                about=f"95th percentile of {operation} at our end and of its route at the"
                " server's. The server's buckets are coarser.",
                queries=[
                    Query(expr=ours, legend="client", exemplar=True),
                    Query(expr=theirs, legend="server"),
                    Query(expr=f"{ours} - {theirs}", legend="client - server"),
                ],
                unit=Unit.SECONDS,
            )
        )
    return Row(title="The same request, seen from both ends", panels=panels)


def _load() -> Row:
    counted = "openviking_http_requests_total"
    sent, served = CLIENT.rate("openviking_attempts_total"), SERVER.rate(counted)
    failed = CLIENT.rate(
        "openviking_attempts_total",
        outcome="server_error|connect|tls|timeout|reset|protocol",
    )
    errors = SERVER.rate(counted, status="5..")
    return Row(
        title="Load and health",
        panels=(
            Lines(
                title="Attempts sent and requests served",
                about="Served below sent: requests are lost on the way. Served above sent: the"
                " server has other clients too.",
                queries=[
                    Query(expr=sent, legend="sent by us"),
                    Query(expr=served, legend="served"),
                ],
                unit=Unit.REQUESTS,
            ),
            Lines(
                title="Failures, client and server",
                about="Share of our attempts that failed, and of the server's answers that are"
                " 5xx. Failures of ours that the server does not know come from the network.",
                queries=[
                    Query(expr=f"{failed} / {sent}", legend="client"),
                    Query(expr=f"({errors} or vector(0)) / {served}", legend="server"),
                ],
                unit=Unit.SHARE,
            ),
            Stack(
                title="Answers by route",
                about="What the server answered, all its clients.",
                queries=[
                    Query(expr=SERVER.rate(counted, by="route"), legend="{{route}}"),
                ],
                unit=Unit.REQUESTS,
            ),
            Figure(
                title="Server says it is ready",
                about="Its own probe. Green here proves nothing about its models: watch"
                " recalls and extractions.",
                queries=[Query(expr=SERVER.gauge("min", "openviking_service_readiness"))],
                unit=Unit.COUNT,
                width=8,
                states={0: ("NOT READY", RED), 1: ("ready", GREEN)},
            ),
            Lines(
                title="Requests inside",
                about="In flight in our bulkheads, and inside the server.",
                queries=[
                    Query(expr=CLIENT.gauge("sum", "openviking_in_flight"), legend="client"),
                    Query(
                        expr=SERVER.gauge("sum", "openviking_http_inflight_requests"),
                        legend="server",
                    ),
                ],
                unit=Unit.COUNT,
            ),
            Lines(
                title="The server's queues",
                about="Work it has accepted and not begun; SessionCommit is the extraction.",
                queries=[
                    Query(
                        expr=SERVER.gauge("sum", "openviking_queue_pending", by="queue"),
                        legend="{{queue}}",
                    )
                ],
                unit=Unit.COUNT,
                limits=Limits(base=GREEN, steps={100.0: YELLOW}),
            ),
        ),
    )


def _literal(route: str) -> str:
    """Return a route as a regular expression, escaped for a PromQL string."""
    return route.replace("{", r"\\{").replace("}", r"\\}")
