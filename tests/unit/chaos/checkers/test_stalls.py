from resilient_ov_chaos.history import Loop
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

STALLS = "event_loop"


def watched() -> Story:
    return Story().stall(1.0, 0.01, Loop.CONTROL)


def test_a_loop_that_is_never_long_away_is_green() -> None:
    assert watched().stall(11.0, 0.05).status(STALLS) is Status.GREEN


def test_a_loop_that_was_blocked_is_red() -> None:
    said = watched().stall(11.0, 0.3).say(STALLS)
    assert said.status is Status.RED
    assert said.measured["longest_stall_s"] == 0.3


def test_the_time_an_idle_loop_stood_still_is_the_machines() -> None:
    story = watched().stall(11.0, 0.3).stall(11.0, 0.28, Loop.CONTROL)
    assert story.status(STALLS) is Status.GREEN


def test_the_time_the_thread_waited_for_a_processor_is_the_machines() -> None:
    assert watched().stall(11.0, 0.3, queued_s=0.26).status(STALLS) is Status.GREEN
    assert watched().stall(11.0, 0.3, queued_s=0.2).status(STALLS) is Status.RED


def test_both_at_once_are_not_taken_off_twice() -> None:
    story = watched().stall(11.0, 0.4, queued_s=0.15).stall(11.0, 0.15, Loop.CONTROL)
    assert story.status(STALLS) is Status.RED


def test_what_an_idle_loop_waited_about_this_time_may_be_waited_again() -> None:
    assert watched().stall(11.0, 0.3).stall(9.5, 0.26, Loop.CONTROL).status(STALLS) is Status.GREEN
    assert watched().stall(11.0, 0.3).stall(8.5, 0.26, Loop.CONTROL).status(STALLS) is Status.RED


def test_without_a_word_of_the_idle_loop_nothing_is_proved() -> None:
    assert Story().status(STALLS) is Status.UNKNOWN
