import pytest

from resilient_ov_chaos.history import Call, Colour, Loop, Result
from resilient_ov_chaos.knobs import QUICK
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

BUDGETS = {
    Call.GET_CONTEXT: QUICK.get_context_s,
    Call.SEARCH: QUICK.search_s,
    Call.ADD: QUICK.add_s,
    Call.ADD_NOWAIT: QUICK.add_s,
}


@pytest.mark.parametrize("call", BUDGETS)
def test_a_call_inside_its_budget_is_green(call: Call) -> None:
    story = Story().call(call, 11.0, BUDGETS[call] + 0.09)
    assert story.status("budgets", call) is Status.GREEN


@pytest.mark.parametrize("call", BUDGETS)
def test_a_call_that_outlasts_it_is_red_whatever_it_returns(call: Call) -> None:
    story = Story().call(call, 11.0, BUDGETS[call] + 0.11, Result.EMPTY)
    said = story.say("budgets", call)
    assert said.status is Status.RED
    assert said.measured["late"] == 1


def test_a_hand_over_on_an_event_loop_has_no_time_to_wait() -> None:
    story = Story().call(Call.ADD_NOWAIT, 11.0, 0.2, colour=Colour.ASYNC)
    assert story.status("budgets", Call.ADD_NOWAIT) is Status.RED


def test_what_the_machine_took_is_taken_off() -> None:
    late_s = BUDGETS[Call.SEARCH] + 0.5
    story = Story().call(Call.SEARCH, 11.0, late_s)
    assert story.status("budgets", Call.SEARCH) is Status.RED
    story.stall(11.6, 0.5, Loop.CONTROL)
    assert story.status("budgets", Call.SEARCH) is Status.GREEN


def test_what_the_machine_took_from_another_process_or_at_another_time_is_not() -> None:
    story = Story().call(Call.SEARCH, 11.0, BUDGETS[Call.SEARCH] + 0.5)
    story.stall(11.6, 0.5, Loop.CONTROL, process=1).stall(8.5, 0.5, Loop.CONTROL)
    story.stall(11.6, 0.5, Loop.TRAFFIC)
    assert story.status("budgets", Call.SEARCH) is Status.RED


def test_calls_that_never_end_prove_nothing_here() -> None:
    assert Story().call(Call.ADD, 11.0, None).status("budgets", Call.ADD) is Status.UNKNOWN
