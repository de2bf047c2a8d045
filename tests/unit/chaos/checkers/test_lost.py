from resilient_ov_chaos.history import Call, Event, Result, Sending
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story, msg

LOST = "nothing_lost"
DROPPED = "openviking_messages_dropped_total"


def test_what_was_accepted_and_is_there_is_not_lost() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1)]).stored(msg(1))
    assert story.status(LOST, Call.ADD) is Status.GREEN


def test_what_was_accepted_and_is_not_there_is_lost() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(2)]).stored(msg(1))
    said = story.say(LOST, Call.ADD)
    assert said.status is Status.RED
    assert msg(2) in said.text
    assert said.measured["lost"] == 1


def test_a_hand_over_is_owed_as_much_as_an_add() -> None:
    story = Story().call(Call.ADD_NOWAIT, 5.0, presented=[msg(1)])
    assert story.status(LOST, Call.ADD_NOWAIT) is Status.RED


def test_what_nobody_was_told_of_is_owed_to_nobody() -> None:
    story = Story().call(Call.ADD, 5.0, result=Result.RAISED, presented=[msg(1)])
    story.call(Call.ADD, 6.0, None, presented=[msg(2)])
    assert story.status(LOST, Call.ADD) is Status.UNKNOWN


def test_many_lost_messages_are_told_in_short() -> None:
    marks = [msg(n) for n in range(1, 10)]
    assert "and 4 more" in Story().call(Call.ADD, 5.0, presented=marks).say(LOST, Call.ADD).text


def killed(accepted_at_s: float) -> Story:
    story = Story().call(Call.ADD_NOWAIT, accepted_at_s, presented=[msg(1)])
    return story.ended(0, Event.KILLED, 12.0).process(1)


def test_what_only_the_memory_of_a_killed_process_held_must_be_counted() -> None:
    story = killed(8.0)
    assert story.status(LOST, Call.ADD_NOWAIT) is Status.UNKNOWN
    assert story.status(LOST) is Status.RED
    counted = {f'{DROPPED}{{reason="process_ended"}}': 1.0}
    assert story.metrics(counted, process=1).status(LOST) is Status.GREEN


def test_the_last_second_before_a_kill_need_not_be_counted() -> None:
    assert killed(11.5).status(LOST) is Status.GREEN


def test_what_the_host_presents_again_is_owed_again() -> None:
    story = killed(8.0).call(Call.ADD, 14.0, process=1, presented=[msg(1)])
    assert story.status(LOST, Call.ADD) is Status.RED
    assert story.stored(msg(1)).status(LOST, Call.ADD) is Status.GREEN


def left(*presented: str) -> Story:
    story = Story().process(1, "leaver").call(Call.ADD, 5.0, process=1, presented=presented)
    return story.call(Call.FLUSH, 12.0, result=Result.LEFT, process=1)


def test_what_a_shutdown_left_must_be_counted_by_it() -> None:
    story = left(msg(1), msg(2)).ended(1, Event.EXITED, 15.0)
    assert story.status(LOST) is Status.RED
    counted = {f'{DROPPED}{{reason="shutdown"}}': 2.0}
    assert story.metrics(counted, process=1).status(LOST) is Status.GREEN


def test_what_was_in_doubt_at_a_shutdown_stays_in_doubt_and_is_not_counted() -> None:
    story = left(msg(1)).ended(1, Event.EXITED, 15.0)
    story.wire(6.0, process=1, group="append", ok=False, outcome="timeout", carried=(msg(1),))
    assert story.status(LOST) is Status.GREEN
    story.wire(7.0, process=1, group="append", carried=(msg(1),))
    assert story.status(LOST) is Status.RED, "it was answered, so nothing is in doubt"


def test_what_was_being_sent_when_a_process_ended_is_in_doubt_too() -> None:
    story = left(msg(1)).ended(1, Event.EXITED, 15.0)
    assert story.status(LOST) is Status.RED
    assert story.add(Sending(process=1, at_s=12.0, carried=(msg(1),))).status(LOST) is Status.GREEN


def test_a_process_that_drained_after_all_owes_everything() -> None:
    story = left(msg(1)).call(Call.FLUSH, 25.0, process=1)
    assert story.status(LOST, Call.ADD) is Status.RED
