"""Alerts and recorded series, judged by Prometheus' own promtool."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
import yaml

from grafana.tests.alert_cases import CASES, JOB, Case, recalls
from grafana.tests.expressions import RULES, RUNBOOK, SHIPPED
from resilient_ov_grafana.generate import in_yaml
from resilient_ov_grafana.rules.alert import Alert
from resilient_ov_grafana.rules.alerts import alerts
from resilient_ov_grafana.rules.recording import recording_rules
from resilient_ov_grafana.targets import Targets

TARGETS = Targets()
ALERTS = {alert.key: alert for alert in alerts(TARGETS)}
DAY = 1440


def tool(name: str, package: str) -> str:
    found = which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install -y --no-install-recommends {package}")
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    return tool("promtool", "prometheus")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=100
    )


def test_promtool_accepts_the_rules(promtool) -> None:
    checked = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_promtool_accepts_the_configuration(promtool) -> None:
    checked = run(promtool, "check", "config", SHIPPED / "prometheus" / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_amtool_accepts_the_routes() -> None:
    amtool = tool("amtool", "prometheus-alertmanager")
    checked = run(amtool, "check-config", SHIPPED / "alertmanager" / "alertmanager.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def group(case: Case) -> dict[str, object]:
    """One case as promtool reads it."""
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    alert = ALERTS[case.key]
    wanted = []
    own = {"severity": alert.severity.value, **alert.labels}
    window = f',window="{case.window}"' if case.window else ""
    if case.fires is not None:
        told = {**case.fires, **own, "alertname": case.alert, "alertstate": "firing"}
        inner = ",".join(f'{name}="{value}"' for name, value in told.items())
        wanted = [{"labels": f"ALERTS{{{inner}}}", "value": 1}]
    test: dict[str, object] = {
        "interval": "1m",
        "name": f"{case.key}: {case.about}",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{case.alert}",alertstate="firing"{window}}}',
                "eval_time": case.at,
                "exp_samples": wanted,
            }
        ],
    }
    if case.says and case.fires is not None:
        rule = alert.rule(TARGETS)["annotations"]
        told = {
            "summary": case.summary,
            "description": case.says,
            "runbook_url": rule["runbook_url"],
            "dashboard_url": f"http://localhost:3000/d/{alert.board}"
            "?var-job=resilient-ov&from=now-1h&to=now",
        }
        labels = {**case.fires, **own}
        test["alert_rule_test"] = [
            {
                "eval_time": case.at,
                "alertname": case.alert,
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": told}],
            }
        ]
    return test


def judged(
    promtool: str, folder: Path, alert: Alert, cases: list[Case]
) -> subprocess.CompletedProcess[str]:
    """Let promtool test one alert, with every series it builds on."""
    rules: list[Mapping[str, object]] = [*recording_rules(TARGETS), alert.rule(TARGETS)]
    (folder / "rules.yml").write_text(in_yaml({"groups": [{"name": "tried", "rules": rules}]}))
    tests = []
    for every in sorted({case.every for case in cases}):
        path = folder / f"every-{every}.yml"
        chosen = [group(case) for case in cases if case.every == every]
        path.write_text(
            in_yaml({"rule_files": ["rules.yml"], "evaluation_interval": every, "tests": chosen})
        )
        tests.append(path)
    return run(promtool, "test", "rules", *tests)


def cases_of(key: str) -> list[Case]:
    return [case for case in CASES if case.key == key]


@pytest.mark.parametrize("key", ALERTS)
def test_an_alert_fires_when_it_should_and_only_then(key, promtool, tmp_path) -> None:
    tested = judged(promtool, tmp_path, ALERTS[key], cases_of(key))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("key", ALERTS)
def test_an_alert_has_a_firing_and_a_silent_case_and_its_words_are_pinned(key) -> None:
    cases = cases_of(key)
    assert any(case.fires is not None and case.says for case in cases)
    assert any(case.fires is None for case in cases)


def doubled() -> list[tuple[str, Alert]]:
    found = []
    for key, alert in ALERTS.items():
        if alert.for_s:
            found.append((f"{key}: for", replace(alert, for_s=2 * alert.for_s)))
        for name, value in alert.limits.items():
            limits = {**alert.limits, name: 2 * value}
            found.append((f"{key}: {name}", replace(alert, limits=limits)))
    return found


@pytest.mark.parametrize(("what", "alert"), doubled(), ids=[what for what, _ in doubled()])
def test_a_doubled_number_is_noticed(what, alert, promtool, tmp_path) -> None:
    # Only the cases that fire can notice, and the long ones cost seconds.
    cases = [case for case in cases_of(alert.key) if case.fires is not None]
    assert judged(promtool, tmp_path, alert, cases).returncode != 0


def test_the_budget_of_thirty_days(promtool, tmp_path) -> None:
    """Spent at just its speed for 30 days it is gone; at half the speed, half is left."""
    tests = [
        {
            "interval": "5m",
            "input_series": [
                {"series": series, "values": values}
                for series, values in recalls(10, share, 31 * DAY // 5).items()
            ],
            "promql_expr_test": [
                {
                    "expr": "round(job:openviking_recall_error_budget:remaining_ratio, 0.001)",
                    "eval_time": "720h",
                    "exp_samples": [{"labels": '{job="resilient-ov"}', "value": left}],
                }
            ],
        }
        for share, left in ((0.005, 0), (0.0025, 0.5))
    ]
    (tmp_path / "tests.yml").write_text(
        in_yaml(
            {
                "rule_files": [str(path) for path in RULES if "recording" in path.name],
                "evaluation_interval": "2h",
                "tests": tests,
            }
        )
    )
    tested = run(promtool, "test", "rules", tmp_path / "tests.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def anchor(heading: str) -> str:
    """How GitHub makes an anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_alert_has_its_heading_in_the_runbook_and_the_other_way_round() -> None:
    text = RUNBOOK.read_text("utf-8")
    headings = {anchor(found) for found in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}
    told = [
        rule["annotations"]["runbook_url"]
        for path in RULES
        for rules in yaml.safe_load(path.read_text("utf-8"))["groups"]
        for rule in rules["rules"]
        if "alert" in rule
    ]
    anchors = {url.partition("#")[2] for url in told}
    assert anchors <= headings
    assert {each for each in headings if each.startswith("openviking")} == anchors
    assert {url.partition("#")[0] for url in told} == {TARGETS.runbook_url}


def test_every_entry_of_the_runbook_says_what_is_felt_seen_and_done() -> None:
    entries = re.split(r"^### (?=OpenViking)", RUNBOOK.read_text("utf-8"), flags=re.MULTILINE)[1:]
    wrong = [
        entry.splitlines()[0]
        for entry in entries
        if not all(word in entry for word in ("**Felt:**", "**See:**", "**Do:**"))
    ]
    assert wrong == []


def test_every_alert_links_to_a_dashboard_that_is_shipped() -> None:
    shipped = {path.stem for path in (SHIPPED / "dashboards").glob("*.json")}
    assert {alert.board for alert in ALERTS.values()} <= shipped


def test_other_targets_reach_the_rules() -> None:
    other = Targets(recall_objective=0.99, period_days=7, delivery_seconds=60, faster=60)
    made = {alert.key: alert.rule(other) for alert in alerts(other)}
    burns = made["OpenVikingRecallBudgetBurnsFast-1h"]
    assert "ratio_rate1h > 0.144" in burns["expr"]
    assert burns["for"] == "2s"
    assert "> 1\n" not in burns["expr"]
    assert made["OpenVikingWritesLate"]["expr"].endswith("> 1")
    budget = recording_rules(other)[-2]["expr"]
    assert "[168m]" in budget
    assert budget.endswith("/ 0.01")
    assert JOB["job"] == other.job
