import json
from pathlib import Path
from xml.etree import ElementTree as Xml

from resilient_ov_chaos.history import Call
from resilient_ov_chaos.outcome import OPERATIONS, Ending
from resilient_ov_chaos.report.journal import journal
from resilient_ov_chaos.report.junit import junit
from resilient_ov_chaos.report.table import table
from resilient_ov_chaos.report.write import picture, write_report
from resilient_ov_chaos.suite import Aborted, Skipped
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.played import FAULT, finding, outcome, played

WHOLE = outcome(
    played(
        finding(Call.ADD, Status.RED, "dripped", lost=3.0, nothing=float("nan")),
        finding(Call.SEARCH, Status.UNKNOWN, "nobody looked"),
        finding(Call.GET_CONTEXT, served_share=0.25, degrade_s=1.5),
    ),
    Skipped(fault=FAULT, reason="no rain here"),
    Aborted(fault=FAULT, reason="flood"),
)


def test_junit_has_a_case_for_each_fault_and_operation_and_counts_them() -> None:
    (suite,) = Xml.fromstring(junit(WHOLE))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": str(3 * len(OPERATIONS)),
        "failures": "1",
        "errors": str(1 + len(OPERATIONS)),
        "skipped": str(len(OPERATIONS)),
    }
    cases = suite.findall("testcase")
    assert len(cases) == 3 * len(OPERATIONS)
    added = cases[list(OPERATIONS).index("add")]
    assert added.get("classname") == "chaos.rain"
    assert [p.attrib for p in added.iter("property")] == [{"name": "lost", "value": "3"}]
    failure = added.find("failure")
    assert failure is not None
    assert "dripped" in str(failure.get("message"))


def test_the_page_shows_the_matrix_the_numbers_and_what_is_not_green() -> None:
    page = table(WHOLE)
    assert "NOT green; completed, 1 scenarios" in page
    assert "| [rain](rain.png) | ok | *unknown* | **RED** | ok | ok | ok |" in page
    assert "rain | skipped: no rain here" in page
    assert "rain | **ABORTED**: flood" in page
    assert "| Nobody stays dry. | 0.25 | 1.50" in page
    assert "- rain, add: umbrella: dripped" in page


def test_the_page_of_a_green_run_has_no_list_of_problems() -> None:
    page = table(outcome(played()))
    assert "\ngreen; completed" in page
    assert "What is not green" not in page


def test_the_journal_is_that_of_chaos_toolkit() -> None:
    told = json.loads(journal(WHOLE))
    assert (told["status"], told["deviated"]) == ("completed", True)
    told = json.loads(journal(outcome(played(), ending=Ending.INTERRUPTED)))
    assert told["status"] == "interrupted"
    assert json.loads(journal(outcome(played())))["deviated"] is False


def test_everything_is_written_where_it_is_expected(tmp_path: Path) -> None:
    folder = tmp_path / "rain"
    folder.mkdir()
    (folder / "history.ndjson").write_bytes(b"{}\n")
    scenario = played(folder=folder)
    assert picture(scenario, tmp_path).read_bytes().startswith(b"\x89PNG")
    write_report(outcome(scenario), tmp_path)
    head, line = (tmp_path / "history.ndjson").read_text().splitlines()
    assert json.loads(head) == {"kind": "scenario", "name": "rain", "seed": "7"}
    assert line == "{}"
    for name in ("chaos.junit.xml", "chaos-report.md", "journal.json"):
        assert (tmp_path / name).stat().st_size > 0
