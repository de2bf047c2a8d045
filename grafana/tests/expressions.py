"""Every PromQL expression that is shipped, where it stands, and what it asks for.

Rule: read from the generated files, so from what a user gets; the code is not asked.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

GRAFANA = Path(__file__).parents[1]
SHIPPED = GRAFANA / "resilient_ov_grafana" / "shipped"
BOARDS = sorted((SHIPPED / "dashboards").glob("*.json"))
RULES = sorted((SHIPPED / "prometheus" / "rules").glob("*.yml"))
RUNBOOK = GRAFANA / "RUNBOOK.md"
LABEL_VALUES = re.compile(r"label_values\((.+), *(\w+)\)")


@dataclass(frozen=True)
class Asked:
    """One expression; `kind` is panel, variable, annotation, record or alert."""

    kind: str
    where: str
    expr: str
    label: str = ""


def boards() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in BOARDS:
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def of_board(uid: str, board: dict[str, Any]) -> Iterator[Asked]:
    for panel in panels(board):
        for target in panel["targets"]:
            where = f"{uid} / {panel['title']} / {target['refId']}"
            yield Asked("panel", where, target["expr"])
    for note in board["annotations"]["list"]:
        yield Asked("annotation", f"{uid} / {note['name']}", note["expr"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found = LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert found, f"{uid} / {variable['name']}: not label_values(selector, label)"
            yield Asked("variable", f"{uid} / {variable['name']}", found[1], found[2])


def rules() -> Iterator[dict[str, Any]]:
    for path in RULES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


def all_asked() -> list[Asked]:
    found = [asked for uid, board in boards() for asked in of_board(uid, board)]
    for rule in rules():
        kind = "alert" if "alert" in rule else "record"
        window = rule.get("labels", {}).get("window", "")
        found.append(Asked(kind, f"{rule[kind]} {window}".strip(), rule["expr"]))
    return found


def plain(expr: str, *, interval: str = "5m", shown: str = "1h", **variables: str) -> str:
    """An expression as Grafana sends it: macros and variables filled in."""
    expr = expr.replace("$__rate_interval", interval).replace("$__range", shown)
    return re.sub(r"\$(\w+)", lambda found: variables.get(found[1], ".+"), expr)


def nodes(expr: Any) -> Iterator[Any]:
    """An expression and everything in it, from outside inwards."""
    yield expr
    match expr:
        case promql.BinaryExpr():
            inner = [expr.lhs, expr.rhs]
        case (
            promql.AggregateExpr() | promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr()
        ):
            inner = [expr.expr]
        case promql.Call():
            inner = list(expr.args)
        case promql.MatrixSelector():
            inner = [expr.vector_selector]
        case _:
            inner = []
    for each in inner:
        yield from nodes(each)


def selectors(expr: str) -> list[promql.VectorSelector]:
    """Its selectors; variables stay as they are."""
    windows = expr.replace("$__rate_interval", "5m").replace("$__range", "1h")
    found = nodes(promql.parse(windows))
    return [node for node in found if isinstance(node, promql.VectorSelector)]


def grouping_labels(expr: str) -> set[str]:
    """Every label that an aggregation keeps."""
    return {
        label
        for node in nodes(promql.parse(plain(expr)))
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None
        for label in re.findall(r"\w+", str(node.modifier).partition("(")[2])
    }
