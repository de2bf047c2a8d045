"""`resilient-ov dashboards export`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grafana.tests.expressions import SHIPPED
from resilient_ov_grafana.targets import Targets, TargetsError, duration

PROGRAM = str(Path(sys.executable).with_name("resilient-ov"))


def export(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "dashboards", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_without_options_the_shipped_files_are_written(tmp_path) -> None:
    run = export(tmp_path / "new" / "folder")
    assert run.returncode == 0, run.stderr
    assert contents(tmp_path / "new" / "folder") == contents(SHIPPED)
    assert "dashboards/resilient-ov-overview.json" in run.stdout


def test_options_reach_rules_dashboards_and_routes(tmp_path) -> None:
    run = export(
        tmp_path,
        *("--objective", "0.99", "--period", "7", "--delivery", "60", "--job", "gateways"),
        *("--grafana-url", "https://g.example/", "--webhook-url", "https://pager.example"),
    )
    assert run.returncode == 0, run.stderr
    rules = (tmp_path / "prometheus" / "rules" / "resilient-ov-alerts.yml").read_text()
    assert "ratio_rate1h > 0.144" in rules
    assert 'up{job="gateways"}' in rules
    assert "https://g.example/d/resilient-ov-overview" in rules
    assert "[7d]" in (tmp_path / "prometheus" / "rules" / "resilient-ov-recording.yml").read_text()
    assert "pager.example" in (tmp_path / "alertmanager" / "alertmanager.yml").read_text()
    overview = json.loads((tmp_path / "dashboards" / "resilient-ov-overview.json").read_text())
    assert "Objective: 0.99." in overview["panels"][2]["description"]


def test_an_objective_out_of_range_is_refused_by_name(tmp_path) -> None:
    run = export(tmp_path, "--objective", "99.5")
    assert run.returncode == 2
    assert "recall_objective: must be 0.5..0.99999, not 99.5" in run.stderr
    assert contents(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_told(tmp_path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    run = export(taken / "below")
    assert run.returncode == 4
    assert "cannot be written" in run.stderr


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.5, "500ms"), (1, "1s"), (90, "90s"), (300, "5m"), (86_400, "1d"), (0, "0s")],
)
def test_a_duration_is_told_in_its_largest_exact_unit(seconds, told) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize("wrong", [{"period_days": 0}, {"delivery_seconds": 0.5}, {"faster": 61}])
def test_targets_have_ranges(wrong) -> None:
    with pytest.raises(TargetsError, match=next(iter(wrong))):
        Targets(**wrong)
