"""The kinds of panels, each with the house style: source, unit, legend, thresholds.

No I/O here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from grafana_foundation_sdk.builders import common as parts
from grafana_foundation_sdk.builders import (
    dashboard,
    prometheus,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as shapes

DATASOURCE: Final = shapes.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "#8e8e8e"
MEANING: Final = {
    "ok|stored|completed|accepted|served": GREEN,
    "empty|skipped|stale|withheld|reconciled|present|absent": BLUE,
    "pending|unknown|deferred|cancelled|expired|rate_limited|refused": YELLOW,
    "degraded_.+|dropped|duplicated|failed|error|gave_up|unknowable|auth|auth_hold|connect|tls"
    "|timeout|reset|protocol|server_error|client_error|unavailable|deadline": RED,
}
"""Names of parts of a whole -> colour; several of one colour get its shades."""
Builder = timeseries.Panel | stat.Panel | statetimeline.Panel


class Unit(StrEnum):
    """Units of Grafana that are used here."""

    SECONDS = "s"
    RATE = "cps"
    SHARE = "percentunit"
    COUNT = "short"
    REQUESTS = "reqps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a panel; ``exemplar`` shows trace ids as dots beside the lines."""

    expr: str
    legend: str = ""
    exemplar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Colours from values upwards; ``base`` below the first."""

    base: str
    steps: Mapping[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What all panels have.

    Attributes:
        about: what is shown, and what to think of it; the reader is on call.
        width: in 24ths of the dashboard.
        limits: thresholds, where there is an objective.
        states: names and colours of values.
        no_value: text where there is nothing to show.

    """

    title: str
    about: str
    queries: Sequence[Query]
    unit: Unit
    width: int = 8
    limits: Limits | None = None
    states: Mapping[float, tuple[str, str]] = field(default_factory=dict[float, tuple[str, str]])
    no_value: str = "-"
    decimals: int | None = None

    height = 8

    def build(self) -> Builder:
        """Return the panel without its place."""
        raise NotImplementedError

    def dressed(self, panel: Any) -> Any:
        """Return a builder with what all kinds share."""
        panel.title(self.title).description(self.about).datasource(DATASOURCE)
        panel.unit(self.unit.value).min(0).no_value(self.no_value)
        if self.decimals is not None:
            panel.decimals(self.decimals)
        if self.limits is not None:
            panel.thresholds(_thresholds(self.limits))
        if self.states:
            panel.mappings([_names(self.states)])
        for letter, query in zip("ABCDEFGH", self.queries, strict=False):
            panel.with_target(self.target(query, letter))
        return panel

    def target(self, query: Query, letter: str) -> prometheus.Dataquery:
        """Return a query over the dashboard's time."""
        target = prometheus.Dataquery().ref_id(letter).expr(query.expr).datasource(DATASOURCE)
        return target.legend_format(query.legend).range().exemplar(query.exemplar)


class Lines(Panel):
    """Lines over time."""

    stacked = False

    def build(self) -> Builder:
        """Return the panel without its place."""
        legend = parts.VizLegendOptions().show_legend(show_legend=True)
        legend.display_mode(common.LegendDisplayMode.TABLE)
        legend.placement(common.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"])
        tooltip = parts.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
        panel = timeseries.Panel().legend(legend).tooltip(tooltip.sort(common.SortOrder.DESCENDING))
        panel.line_width(2).fill_opacity(60 if self.stacked else 10)
        panel.show_points(common.VisibilityMode.NEVER)
        if self.stacked:
            panel.stacking(parts.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
        if self.limits is not None:
            style = common.GraphThresholdsStyleMode.DASHED
            panel.thresholds_style(parts.GraphThresholdsStyleConfig().mode(style))
        for names, color in MEANING.items() if self.stacked else ():
            shades = {"mode": "shades", "fixedColor": color}
            panel.override_by_regexp(
                f"/^({names})$/", [shapes.DynamicConfigValue(id_val="color", value=shades)]
            )
        dressed: timeseries.Panel = self.dressed(panel)
        return dressed


class Stack(Lines):
    """Lines over time, one on the other: parts of a whole."""

    stacked = True


class Figure(Panel):
    """One number, its colour the verdict."""

    height = 5

    def build(self) -> Builder:
        """Return the panel without its place."""
        shown = parts.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(values=False)
        panel = stat.Panel().reduce_options(shown)
        panel.color_mode(common.BigValueColorMode.BACKGROUND)
        panel.graph_mode(common.BigValueGraphMode.NONE)
        panel.text_mode(
            common.BigValueTextMode.VALUE
            if len(self.queries) == 1 and not self.queries[0].legend
            else common.BigValueTextMode.VALUE_AND_NAME
        )
        dressed: stat.Panel = self.dressed(panel)
        return dressed


class Total(Figure):
    """One number over the whole time that the dashboard shows."""

    def target(self, query: Query, letter: str) -> prometheus.Dataquery:
        """Return a query at the end of the dashboard's time."""
        return Figure.target(self, query, letter).instant()


class States(Panel):
    """One bar for each series, coloured by its state."""

    def build(self) -> Builder:
        """Return the panel without its place."""
        panel = statetimeline.Panel().merge_values(merge_values=True).fill_opacity(85)
        panel.show_value(common.VisibilityMode.NEVER).row_height(0.85)
        legend = parts.VizLegendOptions().show_legend(show_legend=True)
        panel.legend(legend.placement(common.LegendPlacement.BOTTOM))
        dressed: statetimeline.Panel = self.dressed(panel)
        return dressed


def _thresholds(limits: Limits) -> dashboard.ThresholdsConfig:
    steps = [shapes.Threshold(value=None, color=limits.base)]
    steps += [shapes.Threshold(value=at, color=color) for at, color in limits.steps.items()]
    return dashboard.ThresholdsConfig().mode(shapes.ThresholdsMode.ABSOLUTE).steps(steps)


def _names(states: Mapping[float, tuple[str, str]]) -> shapes.ValueMap:
    return shapes.ValueMap(
        options={
            f"{value:g}": shapes.ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(states.items())
        }
    )
