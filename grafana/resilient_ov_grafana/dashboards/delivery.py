"""Delivery: what became of every message: stored, waiting, in doubt, given up.

No I/O here.
"""

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
    Total,
    Unit,
)
from resilient_ov_grafana.promql import CLIENT
from resilient_ov_grafana.targets import Targets

UID = "resilient-ov-delivery"


def delivery(targets: Targets) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="resilient-ov / Delivery",
        about="Nothing is stored twice, nothing is lost silently: the books. What waits is in"
        " the memory of the gateways.",
        rows=(_books(), _waiting(targets), _settled()),
    )


def _books() -> Row:
    def result(title: str, about: str, wanted: str, limits: Limits | None) -> Panel:
        return Total(
            title=title,
            about=about,
            queries=[Query(expr=CLIENT.increase("openviking_messages_total", result=wanted))],
            unit=Unit.COUNT,
            width=4,
            decimals=0,
            limits=limits,
        )

    return Row(
        title="The books of the time shown",
        panels=(
            result("Stored", "Messages accepted by the server.", "stored", None),
            result(
                "Found stored after doubt",
                "Sent without an answer, then found by reading back: not sent again.",
                "reconciled",
                None,
            ),
            result(
                "Stored twice",
                "The server applied a write after it was proven absent.",
                "duplicated",
                Limits(base=GREEN, steps={1.0: YELLOW}),
            ),
            result(
                "Given up",
                "For the reasons below.",
                "dropped",
                Limits(base=GREEN, steps={1.0: RED}),
            ),
            Figure(
                title="State on disk",
                about="0 = it cannot be written, so nothing is sent: an unrecorded write could be"
                " repeated. Mend the volume; no restart is needed.",
                queries=[Query(expr=CLIENT.gauge("min", "openviking_state_persistent"))],
                unit=Unit.COUNT,
                width=4,
                states={0: ("NOT WRITABLE", RED), 1: ("writable", GREEN)},
            ),
            Figure(
                title="Batches in doubt",
                about="Sent, no answer, not yet settled. Their sessions wait.",
                queries=[Query(expr=CLIENT.gauge("max", "openviking_in_doubt_batches"))],
                unit=Unit.COUNT,
                width=4,
                limits=Limits(base=GREEN, steps={1.0: YELLOW}),
            ),
        ),
    )


def _waiting(targets: Targets) -> Row:
    late = targets.delivery_seconds
    return Row(
        title="Waiting",
        panels=(
            Lines(
                title="Messages waiting",
                about="In the memory of each process. They are lost with it, except what the host"
                " presents again.",
                queries=[
                    Query(
                        expr=CLIENT.gauge("sum", "openviking_pending_writes", by="instance"),
                        legend="{{instance}}",
                    )
                ],
                unit=Unit.COUNT,
            ),
            Lines(
                title="Age of the oldest",
                about=f"Objective: {late:g} s.",
                queries=[
                    Query(
                        expr=CLIENT.gauge("max", "openviking_oldest_pending_seconds"),
                        legend="oldest",
                    )
                ],
                unit=Unit.SECONDS,
                limits=Limits(base=GREEN, steps={late: RED}),
            ),
            Lines(
                title="Sessions waiting for a commit",
                about="Their messages are stored but no memory is made of them yet.",
                queries=[
                    Query(expr=CLIENT.gauge("max", "openviking_pending_commits"), legend="sessions")
                ],
                unit=Unit.COUNT,
            ),
            Stack(
                title="Messages by result",
                about="What became of messages.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_messages_total", by="result"),
                        legend="{{result}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Messages given up, by reason",
                about="queue_full, shutdown, process_ended: an outage outlasted us. rejected,"
                " too_large, unknowable: the server. disabled, purged: an operator.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_messages_dropped_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
            ),
            Stack(
                title="Commits by status",
                about="skipped is fine: there was nothing new to archive.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_commit_total", by="status"),
                        legend="{{status}}",
                    )
                ],
                unit=Unit.RATE,
            ),
        ),
    )


def _settled() -> Row:
    return Row(
        title="Doubt, state, extraction",
        panels=(
            Stack(
                title="Doubt settled by reading back",
                about="present: it had arrived. absent: sent again. deferred: looked at later."
                " unknowable: given up.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_reconciliations_total", by="result"),
                        legend="{{result}}",
                    )
                ],
                unit=Unit.RATE,
                width=6,
            ),
            Stack(
                title="Corrections of what is stored",
                about="session_gone and server_behind: the server lost data, perhaps restored"
                " from a backup. edited: a user changed a message.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_watermark_rebases_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
                width=6,
            ),
            Stack(
                title="Trouble with state on disk",
                about="foreign_writer: somebody else writes the same sessions; that is detected,"
                " not prevented.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_state_errors_total", by="reason"),
                        legend="{{reason}}",
                    )
                ],
                unit=Unit.RATE,
                width=6,
            ),
            Stack(
                title="Extraction tasks by end",
                about="Failed: the server has the messages but made no memory of them; ask its"
                " models.",
                queries=[
                    Query(
                        expr=CLIENT.rate("openviking_extraction_tasks_total", by="status"),
                        legend="{{status}}",
                    )
                ],
                unit=Unit.RATE,
                width=6,
            ),
        ),
    )
