import pytest

from resilient_ov_chaos.history import Call
from resilient_ov_chaos.outcome import OPERATIONS, Ending, cases
from resilient_ov_chaos.suite import Aborted, Skipped
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.played import FAULT, finding, outcome, played


def test_a_scenario_has_a_case_for_each_operation_with_what_concerns_it() -> None:
    bad = finding(Call.ADD, Status.RED, "dripped", lost=3.0)
    by_name = {case.operation: case for case in cases(played(bad))}
    assert tuple(by_name) == tuple(OPERATIONS)
    assert by_name["add"].status is Status.RED
    assert by_name["add"].problems == ("umbrella: dripped",)
    assert by_name["add"].measured == {"lost": 3.0}
    assert by_name["recall"].status is Status.GREEN


def test_an_operation_nobody_judged_is_unknown() -> None:
    silent = played()
    silent = type(silent)(
        fault=FAULT, run=silent.run, findings=(), took_s=1.0, folder=silent.folder
    )
    assert {case.status for case in cases(silent)} == {Status.UNKNOWN}


def test_a_run_is_green_when_all_that_was_played_is() -> None:
    assert outcome(played()).green
    assert outcome(played(), Skipped(fault=FAULT, reason="no rain here")).green


@pytest.mark.parametrize(
    "run",
    [
        outcome(),
        outcome(Skipped(fault=FAULT, reason="no rain here")),
        outcome(played(), Aborted(fault=FAULT, reason="flood")),
        outcome(played(), ending=Ending.INTERRUPTED),
        outcome(played(finding(None, Status.UNKNOWN, "nobody looked"))),
        outcome(played(), played(finding(None, Status.RED, "wet"))),
    ],
)
def test_anything_else_is_not(run: object) -> None:
    assert not run.green  # type: ignore[attr-defined]
