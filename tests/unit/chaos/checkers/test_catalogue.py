from resilient_ov_chaos.checkers.catalogue import CHECKERS, judge
from resilient_ov_chaos.history import Call
from resilient_ov_chaos.outcome import OPERATIONS
from resilient_ov_chaos.verdict import Status, worst
from tests.unit.chaos.story import Story


def test_every_checker_has_its_say() -> None:
    assert {finding.checker for finding in judge(Story().run())} == set(CHECKERS)


def test_every_operation_is_judged_by_some_checker_that_asks_for_evidence() -> None:
    findings = judge(Story().run())
    for call in OPERATIONS.values():
        assert any(each.call is call and each.checker == "evidence" for each in findings)


def test_a_run_in_which_nothing_happened_is_green_nowhere() -> None:
    findings = judge(Story().run())
    for call in (Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT, Call.FLUSH, None):
        assert worst(f.status for f in findings if f.call is call) is not Status.GREEN


def test_nothing_at_all_is_unknown() -> None:
    assert worst([]) is Status.UNKNOWN
    assert worst([Status.GREEN, Status.UNKNOWN]) is Status.UNKNOWN
    assert worst([Status.UNKNOWN, Status.RED]) is Status.RED
