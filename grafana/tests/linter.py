"""The rules of Grafana's dashboard linter, re-implemented, and some of our own.

Each rule yields what is wrong; a dashboard without findings is fine. Named like the originals.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import promql_parser as promql

from grafana.tests.expressions import nodes, of_board, panels, plain, selectors

Board = dict[str, Any]
# Of Grafana's list of units (packages/grafana-data/src/valueFormats/categories.ts), those we use.
UNITS = {"s", "cps", "percentunit", "short", "reqps"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What a recording rule has put together has no instance; Prometheus itself makes ALERTS.
WITHOUT_INSTANCE = re.compile(r"job:.+|ALERTS")


def variable(board: Board, name: str) -> dict[str, Any]:
    found = [each for each in board["templating"]["list"] if each["name"] == name]
    return found[0] if found else {}


def template_datasource(board: Board) -> Iterator[str]:
    source = variable(board, "datasource")
    if source.get("type") != "datasource" or source.get("query") != "prometheus":
        yield "no variable datasource of type prometheus"
    if source.get("label") != "Data source":
        yield "the variable datasource is not labelled Data source"


def template_choice(board: Board) -> Iterator[str]:
    """template-job and template-instance."""
    wanted = {"job", "instance"}
    for name in wanted:
        if not variable(board, name):
            yield f"no variable {name}"
    for each in board["templating"]["list"]:
        if each["type"] != "query":
            continue
        if not (each.get("multi") and each.get("includeAll") and each.get("allValue") == ".+"):
            yield f"{each['name']}: not multi, with All as .+"
        if each.get("datasource") != SOURCE:
            yield f"{each['name']}: another data source"


def template_on_time_change_reload(board: Board) -> Iterator[str]:
    for each in board["templating"]["list"]:
        if each["type"] == "query" and each.get("refresh") != 2:
            yield f"{each['name']}: not refreshed when the time changes"


def panel_datasource(board: Board) -> Iterator[str]:
    for panel in panels(board):
        for holder in (panel, *panel["targets"]):
            if holder.get("datasource") != SOURCE:
                yield f"{panel['title']}: a data source that is not the variable"
    for note in board["annotations"]["list"]:
        if note.get("datasource") != SOURCE:
            yield f"{note['name']}: a data source that is not the variable"


def panel_title_description(board: Board) -> Iterator[str]:
    titles = [panel.get("title") for panel in panels(board)]
    for panel in panels(board):
        if not panel.get("title") or not panel.get("description"):
            yield f"panel {panel['id']}: no title or no description"
        if titles.count(panel.get("title")) > 1:
            yield f"{panel['title']}: two panels have this title"


def panel_units(board: Board) -> Iterator[str]:
    for panel in panels(board):
        told = panel["fieldConfig"]["defaults"]
        if told.get("unit") not in UNITS:
            yield f"{panel['title']}: unit {told.get('unit')}"
        if told.get("min") != 0 or not told.get("noValue"):
            yield f"{panel['title']}: no min 0, or no text where there is nothing"


def panel_no_targets(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if not panel.get("targets"):
            yield f"{panel['title']}: no query"


def panel_place(board: Board) -> Iterator[str]:
    """Ids are there and differ; no panel lies over another or outside."""
    ids = [panel.get("id") for panel in board["panels"]]
    if None in ids or len(set(ids)) != len(ids):
        yield "ids are missing or repeated"
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        if cells & taken or place["x"] + place["w"] > 24:
            yield f"{panel['title']}: lies over another panel, or outside"
        taken |= cells


def target_promql(board: Board) -> Iterator[str]:
    for asked in of_board("", board):
        try:
            promql.parse(plain(asked.expr))
        except ValueError as error:
            yield f"{asked.where}: {error}"


def target_rate_interval(board: Board) -> Iterator[str]:
    for asked in of_board("", board):
        for window in re.findall(r"\[(.+?)\]", asked.expr):
            if window not in {"$__rate_interval", "$__range"}:
                yield f"{asked.where}: a range of {window}"
        for function in re.findall(r"\b(i?rate)\([^[]+\[(?!\$__rate_interval\])", asked.expr):
            yield f"{asked.where}: {function} over something else than $__rate_interval"


def target_job_instance(board: Board) -> Iterator[str]:
    """target-job and target-instance; both of the client or both of the server."""
    for asked in of_board("", board):
        if asked.kind == "variable":
            continue
        for selector in selectors(asked.expr):
            match = {each.name: each.value for each in selector.matchers.matchers}
            chosen = (match.get("job"), match.get("instance"))
            allowed = {("$job", "$instance"), ("$server_job", "$server_instance")}
            if WITHOUT_INSTANCE.fullmatch(selector.name):
                allowed = {("$job", None)}
            if chosen not in allowed:
                yield f"{asked.where}: {selector.name} is not filtered by job and instance"


def target_counter_agg(board: Board) -> Iterator[str]:
    for asked in of_board("", board):
        inside = list(nodes(promql.parse(plain(asked.expr))))
        calls = [node for node in inside if isinstance(node, promql.Call)]
        ranged = [
            node.args[0].vector_selector
            for node in calls
            if node.func.name in {"rate", "irate", "increase"}
        ]
        rated = sum(is_counter(selector.name) for selector in ranged)
        used = sum(is_counter(selector.name) for selector in selectors(asked.expr))
        if used != rated:
            yield f"{asked.where}: a counter outside rate, irate and increase"


def is_counter(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


def zero_only_in_numerators(board: Board) -> Iterator[str]:
    """`or vector(0)` anywhere else turns "no data" into "all is well"."""
    for asked in of_board("", board):
        numerators = len(re.findall(r"or vector\(0\)\) /", asked.expr))
        if asked.expr.count("vector(0)") != numerators:
            yield f"{asked.where}: or vector(0) outside a numerator"


def uneditable(board: Board) -> Iterator[str]:
    if board.get("editable") is not False:
        yield "editable"
    if "__inputs" in board or not re.fullmatch(r"resilient-ov-[a-z-]+", board.get("uid", "")):
        yield "it asks for inputs, or has no stable uid"


def shared_frame(board: Board) -> Iterator[str]:
    """Crosshair, links both ways that keep time and variables, annotations, tag."""
    if board.get("graphTooltip") != 1:
        yield "no shared crosshair"
    links = [link for link in board["links"] if link.get("tags") == ["resilient-ov"]]
    if not links or not all(link["keepTime"] and link["includeVars"] for link in links):
        yield "no link by tag that keeps time and variables"
    if board.get("tags") != ["resilient-ov"]:
        yield "not tagged: the others cannot link to it"
    names = {note["name"] for note in board["annotations"]["list"] if note.get("titleFormat")}
    if names != {"Breaker opened", "Breaker closed", "Deployed", "Alert"}:
        yield f"annotations are {sorted(names)}"


RULES: tuple[Callable[[Board], Iterator[str]], ...] = (
    template_datasource,
    template_choice,
    template_on_time_change_reload,
    panel_datasource,
    panel_title_description,
    panel_units,
    panel_no_targets,
    panel_place,
    target_promql,
    target_rate_interval,
    target_job_instance,
    target_counter_agg,
    zero_only_in_numerators,
    uneditable,
    shared_frame,
)


def findings(board: Board) -> list[str]:
    return [f"{rule.__name__}: {found}" for rule in RULES for found in rule(board)]
