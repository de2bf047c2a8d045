import re
import shutil
import subprocess
import sys
from math import isnan
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from resilient_ov_observability.catalogue import CATALOGUE, SECONDS
from resilient_ov_observability.exposure import metrics_page
from resilient_ov_observability.metric import GaugeMode, Kind
from resilient_ov_observability.metrics_document import document

ROOT = Path(__file__).parents[3]
FORBIDDEN_LABELS = {"user", "thread", "session", "agent", "url", "error", "account", "trace_id"}


def test_the_committed_page_is_the_generated_one():
    assert (ROOT / "METRICS.md").read_text() == document(CATALOGUE.values())


def test_the_module_prints_the_page():
    command = [sys.executable, "-m", "resilient_ov_observability.catalogue"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    assert printed.stdout == document(CATALOGUE.values())
    assert printed.stderr == ""


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_a_row_keeps_the_naming_rules(metric):
    assert re.fullmatch(r"openviking_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.help.endswith(".")
    assert (metric.mode is not None) == (metric.kind is Kind.GAUGE)
    assert bool(metric.edges) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.edges) == sorted(set(metric.edges))
    assert not FORBIDDEN_LABELS & set(metric.label_names)
    assert all(label.values for label in metric.labels)


def test_every_default_budget_lies_on_a_bucket_edge():
    assert {2.0, 3.0, 1.0, 0.25, 5.0} <= set(SECONDS)


def test_the_number_of_series_is_known_beforehand():
    assert sum(metric.sample_count() for metric in CATALOGUE.values()) == 930


def test_transitions_to_the_same_state_are_no_series():
    series = set(CATALOGUE["openviking_breaker_transitions_total"].series())
    assert ("recall", "closed", "open") in series
    assert not any(from_state == to_state for _group, from_state, to_state in series)


def test_only_up_and_info_have_no_number_at_the_start():
    empty = {m.name for m in CATALOGUE.values() if m.initial is None or isnan(m.initial)}
    assert empty == {"openviking_up", "openviking_client_info"}


@pytest.mark.parametrize(
    ("mode", "shown"),
    [(GaugeMode.LIVESUM, 6.0), (GaugeMode.LIVEMAX, 3.0), (GaugeMode.LIVEMIN, 1.0)],
)
def test_gauge_modes_combine(mode, shown):
    assert mode.combine((1.0, 2.0, 3.0)) == shown


def test_promtool_finds_nothing_to_complain_about():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not in PATH (Debian package prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=metrics_page(CollectorRegistry()),
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
