"""The dashboards that are shipped: made by the code, clean by the linter, valid by the schema."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from grafana.tests.expressions import SHIPPED, boards, panels
from grafana.tests.linter import RULES, findings
from resilient_ov_grafana.generate import files
from resilient_ov_grafana.targets import Targets

SCHEMA = json.loads((Path(__file__).parent / "dashboard-11.6.schema.json").read_text("utf-8"))
# Grafana reads these two in an annotation of Prometheus; the published schema knows neither.
UNKNOWN_TO_SCHEMA = {"expr", "titleFormat"}


def board(uid="resilient-ov-overview"):
    return copy.deepcopy(dict(boards())[uid])


def test_what_is_committed_is_what_the_code_makes() -> None:
    committed = {
        str(path.relative_to(SHIPPED)): path.read_text("utf-8")
        for path in SHIPPED.rglob("*")
        if path.is_file()
    }
    assert committed == files(Targets())


@pytest.mark.parametrize("uid", [uid for uid, _ in boards()])
def test_the_linter_finds_nothing(uid) -> None:
    assert findings(board(uid)) == []


def first_query(change):
    def spoil(found):
        target = next(panels(found))["targets"][0]
        target["expr"] = change(target["expr"])

    return spoil


def first_panel(**values):
    return lambda found: next(panels(found)).update(values)


SPOILED = {
    "template_datasource": lambda b: b["templating"]["list"][0].update(label="Prometheus"),
    "template_choice": lambda b: b["templating"]["list"][1].update(multi=False),
    "template_on_time_change_reload": lambda b: b["templating"]["list"][1].update(refresh=1),
    "panel_datasource": first_panel(datasource={"type": "prometheus", "uid": "mine"}),
    "panel_title_description": first_panel(description=""),
    "panel_units": lambda b: next(panels(b))["fieldConfig"]["defaults"].update(unit="bogus"),
    "panel_no_targets": first_panel(targets=[]),
    "panel_place": first_panel(gridPos={"x": 20, "y": 1, "w": 8, "h": 4}),
    "target_rate_interval": first_query(lambda _: "rate(openviking_attempts_total[5m])"),
    "target_job_instance": first_query(lambda _: 'openviking_up{job=~"$job"}'),
    "target_counter_agg": first_query(
        lambda _: 'openviking_attempts_total{job=~"$job", instance=~"$instance"}'
    ),
    "zero_only_in_numerators": first_query(lambda expr: f"{expr} or vector(0)"),
    "uneditable": lambda b: b.update(editable=True),
    "shared_frame": lambda b: b.update(links=[]),
}


@pytest.mark.parametrize("rule", SPOILED)
def test_the_linter_finds_what_each_rule_is_for(rule) -> None:
    spoiled = board()
    SPOILED[rule](spoiled)
    assert rule in {found.partition(":")[0] for found in findings(spoiled)}


def test_the_linter_finds_what_is_no_promql() -> None:
    spoiled = board()
    first_query(lambda _: "sum(")(spoiled)
    rule = next(rule for rule in RULES if rule.__name__ == "target_promql")
    assert list(rule(spoiled))


def test_every_rule_of_the_linter_is_tried() -> None:
    assert {rule.__name__ for rule in RULES} == SPOILED.keys() | {"target_promql"}


def for_schema(found):
    for note in found["annotations"]["list"]:
        for name in UNKNOWN_TO_SCHEMA:
            note.pop(name, None)
    return found


@pytest.mark.parametrize("uid", [uid for uid, _ in boards()])
def test_grafanas_schema_accepts_it(uid) -> None:
    jsonschema.validate(for_schema(board(uid)), SCHEMA)


def test_grafanas_schema_refuses_a_wrong_type() -> None:
    spoiled = for_schema(board())
    spoiled["panels"][1]["fieldConfig"]["defaults"]["decimals"] = "two"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoiled, SCHEMA)


def test_every_panel_of_latency_shows_exemplars() -> None:
    timed = [
        (uid, panel["title"])
        for uid, found in boards()
        for panel in panels(found)
        if panel["type"] == "timeseries"
        and any("duration_seconds_bucket" in target["expr"] for target in panel["targets"])
        and not any(target.get("exemplar") for target in panel["targets"])
    ]
    assert timed == []
