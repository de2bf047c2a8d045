import pytest

from resilient_ov_chaos.history import Call, Result
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

READS = [Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT]


def busy(call: Call) -> Story:
    story = Story()
    for at_s in (5.0, 11.0, 12.0, 13.0):
        story.call(call, at_s)
    return story


@pytest.mark.parametrize("call", READS)
def test_calls_that_succeed_and_fall_into_the_window_are_evidence(call: Call) -> None:
    assert busy(call).status("evidence", call) is Status.GREEN


@pytest.mark.parametrize("call", READS)
def test_without_a_success_a_run_proves_nothing(call: Call) -> None:
    story = Story()
    for at_s in (5.0, 11.0, 12.0, 13.0):
        story.call(call, at_s, result=Result.RAISED)
    said = story.say("evidence", call)
    assert said.status is Status.UNKNOWN
    assert "succeeded" in said.text


@pytest.mark.parametrize("call", READS)
def test_without_calls_in_the_window_a_run_proves_nothing(call: Call) -> None:
    story = Story()
    for at_s in (5.0, 6.0, 7.0, 25.0):
        story.call(call, at_s)
    assert story.status("evidence", call) is Status.UNKNOWN


def test_a_call_that_never_ended_was_in_the_window_too() -> None:
    story = Story()
    for at_s in (5.0, 11.0, 12.0):
        story.call(Call.ADD, at_s)
    assert story.status("evidence", Call.ADD) is Status.UNKNOWN
    assert story.call(Call.ADD, 9.0, None).status("evidence", Call.ADD) is Status.GREEN


def test_one_shutdown_in_the_window_is_enough() -> None:
    story = Story().call(Call.FLUSH, 12.0)
    assert story.status("evidence", Call.FLUSH) is Status.GREEN
    assert Story().call(Call.FLUSH, 22.0).status("evidence", Call.FLUSH) is Status.UNKNOWN


def test_fewer_fresh_connections_than_stated_prove_nothing() -> None:
    story = Story().expect(connections=3).connect(5.0, 11.0, 19.0)
    assert story.status("evidence") is Status.UNKNOWN
    assert story.connect(15.0).status("evidence") is Status.GREEN


def test_a_run_that_had_no_fault_proves_nothing() -> None:
    story = busy(Call.ADD)
    story.records = [each for each in story.records if each.kind != "fault"]
    assert story.status("evidence", Call.ADD) is Status.UNKNOWN
