import pytest

from resilient_ov_chaos.history import Call, Result
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

CALLS = [Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT, Call.FLUSH]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_raises_is_red(call: Call) -> None:
    story = Story().call(call, 11.0)
    assert story.status("nothing_raised", call) is Status.GREEN
    story.call(call, 12.0, result=Result.RAISED, error="RuntimeError")
    said = story.say("nothing_raised", call)
    assert said.status is Status.RED
    assert "RuntimeError" in said.text


@pytest.mark.parametrize("call", CALLS)
def test_no_call_proves_nothing(call: Call) -> None:
    assert Story().status("nothing_raised", call) is Status.UNKNOWN
