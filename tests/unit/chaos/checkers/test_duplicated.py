from resilient_ov_chaos.history import Call
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story, msg

TWICE = "nothing_duplicated"
TOLD = {'openviking_messages_total{result="duplicated"}': 1.0}


def test_once_is_once() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1)]).stored(msg(1), msg(2))
    said = story.say(TWICE, Call.ADD)
    assert said.status is Status.GREEN
    assert said.measured["stored"] == 2


def test_twice_is_red() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1)]).stored(msg(1), msg(1))
    said = story.say(TWICE, Call.ADD)
    assert said.status is Status.RED
    assert msg(1) in said.text


def test_twice_in_two_sessions_is_red_too() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1)])
    story.stored(msg(1)).stored(msg(1), persona=1, thread=None)
    assert story.status(TWICE, Call.ADD) is Status.RED


def test_hand_overs_are_judged_by_themselves() -> None:
    story = Story().call(Call.ADD_NOWAIT, 5.0, presented=[msg(1)]).stored(msg(1), msg(1), msg(2))
    assert story.status(TWICE, Call.ADD_NOWAIT) is Status.RED
    assert story.status(TWICE, Call.ADD) is Status.GREEN


def test_nothing_stored_proves_nothing() -> None:
    assert Story().status(TWICE, Call.ADD) is Status.UNKNOWN


def test_a_late_landing_is_excused_only_where_it_can_be_and_only_when_it_was_counted() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1)]).stored(msg(1), msg(1))
    assert story.expect(late_landings=True).status(TWICE, Call.ADD) is Status.RED
    assert story.metrics(TOLD).status(TWICE, Call.ADD) is Status.GREEN
    assert story.expect(late_landings=False).status(TWICE, Call.ADD) is Status.RED
