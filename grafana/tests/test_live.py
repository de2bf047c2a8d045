"""Dashboards and rules on a real Prometheus that scrapes the product while things break.

One run of about two minutes for all tests of this file.
"""

import json
import math
import re
from pathlib import Path
from shutil import which

import pytest

from grafana.tests.expressions import all_asked, boards, panels, plain, selectors
from grafana.tests.live.expectations import DOWN, MOVES
from grafana.tests.live.server import Metrics
from grafana.tests.live.stage import (
    CALM,
    HEALED,
    JOB,
    OUTAGE,
    RENAMED,
    RENAMED_METRIC,
    stage,
)
from resilient_ov_chaos.toxiproxy.server import ToolMissingError

pytestmark = [pytest.mark.timeout(400)]
WEBHOOK_S = 10.0
FIRED = {
    "OpenVikingBreakerOpen",
    "OpenVikingAuthHold",
    "OpenVikingDegraded",
    "OpenVikingWritesLate",
    "OpenVikingWritesDropped",
    "OpenVikingStateNotPersistent",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    for program, package in (
        ("prometheus", "prometheus"),
        ("prometheus-alertmanager", "prometheus-alertmanager"),
    ):
        if which(program) is None:
            pytest.skip(
                f"{program} is missing: apt-get install -y --no-install-recommends {package}"
            )
    try:
        with stage(tmp_path_factory.mktemp("live")) as lived:
            yield lived
    except ToolMissingError as missing:
        pytest.skip(str(missing))


def filled(expr: str, job: str = JOB) -> str:
    return plain(expr, interval="5s", shown="10s", job=job)


def numbers(series) -> list[float]:
    return [float(value) for _, value in series["values"] if not math.isnan(float(value))]


def asked_panels():
    return [
        (uid, panel, target)
        for uid, board in boards()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def without_data(run, job: str = JOB) -> list[str]:
    """Panels of which some query never returned a number."""
    return [
        f"{uid} / {panel['title']} / {target['refId']}"
        for uid, panel, target in asked_panels()
        if not any(numbers(series) for series in run.over_time(filled(target["expr"], job)))
    ]


def test_every_expression_parses(run) -> None:
    for asked in all_asked():
        assert run.ask("format_query", query=filled(asked.expr)), asked.where


def test_every_panel_shows_data(run) -> None:
    assert without_data(run) == []


def test_a_renamed_metric_is_noticed(run) -> None:
    """The same page, scraped once more with one metric under another name."""
    empty = without_data(run, RENAMED)
    users = [
        f"{uid} / {panel['title']} / {target['refId']}"
        for uid, panel, target in asked_panels()
        if RENAMED_METRIC in target["expr"]
    ]
    assert users
    assert empty == users


def test_every_variable_has_values(run) -> None:
    for asked in all_asked():
        if asked.kind == "variable":
            match = {"match[]": filled(asked.expr), "start": run.began_s, "end": run.ended_s}
            assert run.ask(f"label/{asked.label}/values", **match), asked.where


def test_every_annotation_marks_something(run) -> None:
    for asked in all_asked():
        if asked.kind == "annotation":
            assert run.over_time(filled(asked.expr)), asked.where


def test_every_rule_is_healthy_and_finds_its_series(run) -> None:
    told = [rule for group in run.ask("rules")["groups"] for rule in group["rules"]]
    assert len(told) == len([asked for asked in all_asked() if asked.kind in {"record", "alert"}])
    assert [rule["name"] for rule in told if rule["health"] != "ok"] == []
    for asked in all_asked():
        if asked.kind == "record":
            name = asked.where
            assert any(numbers(series) for series in run.over_time(name)), name
        if asked.kind == "alert":
            for selector in selectors(asked.expr):
                assert run.over_time(selector.prettify()), f"{asked.where}: {selector}"


@pytest.mark.parametrize("moves", MOVES, ids=lambda moves: f"{moves.board} / {moves.panel}")
def test_a_panel_moves_when_something_breaks(moves, run) -> None:
    board = dict(boards())[moves.board]
    (panel,) = [each for each in panels(board) if each["title"] == moves.panel]
    exprs = [filled(target["expr"]) for target in panel["targets"]]
    found = [series for expr in exprs for series in run.over_time(expr)]
    chosen = [
        series
        for series in found
        if not moves.series
        or any(re.fullmatch(moves.series, value) for value in series["metric"].values())
    ]
    calm = within(chosen, run.phases[CALM], settle_s=3.0)
    broken = [
        value
        for phase in moves.phases
        for value in within(chosen, run.phases[phase], settle_s=0.0, after_s=5.0)
    ]
    assert calm, "nothing while all was well"
    assert broken, "nothing in the fault"
    if moves.way == DOWN:
        assert min(broken) < min(calm)
    else:
        assert max(broken) > max(calm)


def within(found, phase, *, settle_s: float, after_s: float = 0.0) -> list[float]:
    began_s, ended_s = phase
    return [
        float(value)
        for series in found
        for at_s, value in series["values"]
        if began_s + settle_s <= at_s <= ended_s + after_s and not math.isnan(float(value))
    ]


def test_every_expected_panel_exists() -> None:
    titles = {(uid, panel["title"]) for uid, board in boards() for panel in panels(board)}
    assert {(moves.board, moves.panel) for moves in MOVES} <= titles


def test_the_outage_reaches_the_webhook_and_its_end_too(run) -> None:
    began_s, ended_s = run.phases[OUTAGE]
    told_s = run.first("OpenVikingBreakerOpen", "firing", began_s)
    healed_s = run.first("OpenVikingBreakerOpen", "resolved", ended_s)
    print(f"firing after {told_s} s, resolved after {healed_s} s, starved {run.starved_s:.2f} s")
    assert told_s is not None
    assert told_s <= WEBHOOK_S + run.starved_s
    assert healed_s is not None
    assert healed_s <= run.phases[HEALED][1] - ended_s


def test_what_should_fire_has_fired_and_nothing_in_the_calm(run) -> None:
    firing = run.over_time(f'ALERTS{{alertstate="firing", job="{JOB}"}}')
    assert {series["metric"]["alertname"] for series in firing} >= FIRED
    phase = run.phases[CALM]
    calm = {
        series["metric"]["alertname"] for series in firing if within([series], phase, settle_s=3.0)
    }
    assert calm & FIRED == set()


def test_exemplars_lead_to_traces(run) -> None:
    name = f'openviking_call_duration_seconds_bucket{{job="{JOB}"}}'
    found = run.ask("query_exemplars", query=name, start=run.began_s, end=run.ended_s)
    assert any("trace_id" in each["labels"] for series in found for each in series["exemplars"])


def test_the_servers_page_is_that_of_a_real_one() -> None:
    recorded = json.loads(
        (Path(__file__).parent / "openviking-0.5.2-metrics.json").read_text("utf-8")
    )
    metrics = Metrics()
    labels = ("x", "GET", "/r", "200")
    metrics.count.labels(*labels).inc()
    metrics.took.labels(*labels).observe(0.1)
    metrics.inside.labels("x", "/r").set(0)
    shown = {
        sample.name: set(sample.labels)
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert {name: set(recorded[name]) for name in shown} == shown
