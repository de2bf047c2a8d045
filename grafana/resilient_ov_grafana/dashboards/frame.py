"""What surrounds the panels of every dashboard: variables, annotations, links, places.

No I/O here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as shapes

from resilient_ov_grafana.dashboards.panels import DATASOURCE, Panel
from resilient_ov_grafana.promql import CLIENT

TAG: Final = "resilient-ov"
_COLUMNS: Final = 24
_TITLES: Final = {
    "Breaker opened": "{{group}}: breaker opened",
    "Breaker closed": "{{group}}: breaker closed",
    "Deployed": "version {{version}}",
    "Alert": "{{alertname}}",
}
"""Annotation -> its text; the builder has no field for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard; the uid stays the same for ever, links and bookmarks hold it.

    Attributes:
        with_server: has the variables that choose the server's own metrics.

    """

    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    with_server: bool = False

    def json(self) -> str:
        """Return the dashboard as Grafana reads it, the same text each time."""
        board = dashboard.Dashboard(self.title).uid(self.uid).description(self.about)
        board.tags([TAG]).readonly().timezone("browser").refresh("30s").time("now-1h", "now")
        board.tooltip(shapes.DashboardCursorSync.CROSSHAIR)
        board.variables(self._variables())
        board.annotations(_annotations())
        link = dashboard.DashboardLink("resilient-ov").type(shapes.DashboardLinkType.DASHBOARDS)
        board.link(link.tags([TAG]).keep_time(keep_time=True).include_vars(include_vars=True))
        self._place(board)
        text = json.dumps(board.build(), cls=JSONEncoder)
        return json.dumps(_patched(json.loads(text)), indent=2, sort_keys=True) + "\n"

    def _variables(self) -> list[Any]:
        source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        shown = [
            source,
            _choice("job", "Job", "label_values(openviking_client_info, job)"),
            _choice(
                "instance",
                "Instance",
                'label_values(openviking_client_info{job=~"$job"}, instance)',
            ),
        ]
        if self.with_server:
            asked = "openviking_service_readiness"
            shown += [
                _choice("server_job", "Server job", f"label_values({asked}, job)"),
                _choice(
                    "server_instance",
                    "Server",
                    f'label_values({asked}{{job=~"$server_job"}}, instance)',
                ),
            ]
        return shown

    def _place(self, board: dashboard.Dashboard) -> None:
        number, top = 1, 0
        for row in self.rows:
            head = dashboard.Row(row.title).id(number)
            head.grid_pos(shapes.GridPos(h=1, w=_COLUMNS, x=0, y=top))
            board.with_row(head)
            number, top, left, tallest = number + 1, top + 1, 0, 0
            for panel in row.panels:
                if left + panel.width > _COLUMNS:
                    top, left, tallest = top + tallest, 0, 0
                place = shapes.GridPos(h=panel.height, w=panel.width, x=left, y=top)
                board.with_panel(panel.build().id(number).grid_pos(place))
                number, left = number + 1, left + panel.width
                tallest = max(tallest, panel.height)
            top += tallest


def _choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    asked: dict[str, object] = {
        "qryType": 1,
        "query": query,
        "refId": "PrometheusVariableQueryEditor-VariableQuery",
    }
    variable = dashboard.QueryVariable(name).label(label).datasource(DATASOURCE).query(asked)
    variable.refresh(shapes.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(shapes.VariableSort.ALPHABETICAL_ASC)
    everything = shapes.VariableOption(selected=True, text=["All"], value=["$__all"])
    return (
        variable.multi(multi=True).include_all(include_all=True).all_value(".+").current(everything)
    )


def _annotations() -> list[Any]:
    moved = "openviking_breaker_transitions_total"
    opened = CLIENT.select(moved, to_state="open")
    closed = CLIENT.select(moved, to_state="closed")
    version = CLIENT.select("openviking_client_info")
    return [
        _note(
            "Breaker opened", "red", f"sum by (group) (increase({opened}[$__rate_interval])) > 0"
        ),
        _note(
            "Breaker closed", "green", f"sum by (group) (increase({closed}[$__rate_interval])) > 0"
        ),
        _note(
            "Deployed",
            "blue",
            f"count by (version) ({version}) unless count by (version)"
            f" ({version} offset $__rate_interval)",
        ),
        _note(
            "Alert",
            "orange",
            'ALERTS{job=~"$job", alertname=~"OpenViking.+", alertstate="firing"}',
        ),
    ]


def _note(name: str, color: str, expr: str) -> dashboard.AnnotationQuery:
    note = dashboard.AnnotationQuery().name(name).datasource(DATASOURCE).icon_color(color)
    return note.enable(enable=True).hide(hide=False).expr(expr)


def _patched(board: dict[str, Any]) -> dict[str, Any]:
    for note in board["annotations"]["list"]:
        note["titleFormat"] = _TITLES[note["name"]]
    for variable in board["templating"]["list"]:
        # The builder writes fields of interval variables into all of them.
        for name in ("auto", "auto_count", "auto_min"):
            variable.pop(name, None)
    return board
