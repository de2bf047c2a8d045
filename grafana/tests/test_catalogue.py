"""The metrics of the product and what is asked of them agree, both ways, labels included."""

import json
import re
from pathlib import Path

import pytest

from grafana.tests.expressions import Asked, all_asked, grouping_labels, rules, selectors
from resilient_ov_observability.catalogue import CATALOGUE
from resilient_ov_observability.metric import Kind

# Metric -> labels of a real OpenViking 0.5.2, as its /metrics page showed them after some traffic.
SERVER = json.loads((Path(__file__).parent / "openviking-0.5.2-metrics.json").read_text("utf-8"))
SCRAPED = {"job", "instance"}
RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
# Made by Prometheus itself.
PROMETHEUS = {
    "up": set[str](),
    "ALERTS": {"alertname", "alertstate", "severity"},
}
PARTS = re.compile(r"_(bucket|count|sum)$")


def known_labels(name: str) -> set[str] | None:
    """The labels a series of this name can have; None when there is no such series."""
    if name in PROMETHEUS:
        return PROMETHEUS[name]
    if name in RECORDED:
        return grouping_labels(RECORDED[name]) - {"le"} | SCRAPED
    metric = CATALOGUE.get(name)
    if metric is not None and metric.kind is not Kind.HISTOGRAM:
        return set(metric.label_names)
    histogram = CATALOGUE.get(PARTS.sub("", name))
    if histogram is not None and histogram.kind is Kind.HISTOGRAM:
        return {*histogram.label_names, "le"}
    return set(SERVER[name]) if name in SERVER else None


def wrong_in(asked: Asked) -> list[str]:
    wrong = []
    grouped = grouping_labels(asked.expr)
    available: set[str] = set(SCRAPED)
    for selector in selectors(asked.expr):
        labels = known_labels(selector.name)
        if labels is None:
            wrong.append(f"{asked.where}: there is no metric {selector.name}")
            continue
        available |= labels
        for matcher in selector.matchers.matchers:
            if matcher.name not in labels | SCRAPED:
                wrong.append(f"{asked.where}: {selector.name} has no label {matcher.name}")
            elif "$" not in matcher.value and not value_exists(
                selector.name, matcher.name, matcher.value
            ):
                wrong.append(f"{asked.where}: {matcher.name} is never {matcher.value}")
    return wrong + [f"{asked.where}: nothing has the label {each}" for each in grouped - available]


def value_exists(name: str, label: str, pattern: str) -> bool:
    metric = CATALOGUE.get(PARTS.sub("", name)) or CATALOGUE.get(name)
    values = {each.name: each.values for each in metric.labels} if metric else {}
    if label not in values:
        return True
    words = pattern.split("|")
    return all(any(re.fullmatch(word, value) for value in values[label]) for word in words)


@pytest.mark.parametrize("asked", all_asked(), ids=lambda asked: asked.where)
def test_what_is_asked_exists(asked: Asked) -> None:
    assert wrong_in(asked) == []


@pytest.mark.parametrize(
    "expr",
    [
        "openviking_unheard_of",
        "sum by (user) (openviking_up)",
        'openviking_up{group="recall"}',
        'rate(openviking_attempts_total{outcome="exploded"}[5m])',
        'openviking_queue_pending{session="x"}',
    ],
)
def test_what_does_not_exist_is_found(expr: str) -> None:
    assert wrong_in(Asked("panel", "here", expr))


def test_every_metric_of_the_catalogue_is_shown_or_watched() -> None:
    used = {selector.name for asked in all_asked() for selector in selectors(asked.expr)}
    shown = used | {PARTS.sub("", name) for name in used}
    assert set(CATALOGUE) - shown == set()
