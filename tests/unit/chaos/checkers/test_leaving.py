from resilient_ov_chaos.expectation import Leaving
from resilient_ov_chaos.history import Call, Loop, Result
from resilient_ov_chaos.knobs import QUICK
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story, msg

SHUTDOWN = "shutdown"


def leaver() -> Story:
    return Story().process(1, "leaver")


def test_a_shutdown_that_keeps_its_time_is_green() -> None:
    story = leaver().call(Call.FLUSH, 12.0, QUICK.flush_s, process=1)
    assert story.status(SHUTDOWN, Call.FLUSH) is Status.GREEN


def test_a_shutdown_that_is_late_is_red() -> None:
    story = leaver().call(Call.FLUSH, 12.0, QUICK.flush_s + 0.2, process=1)
    assert story.status(SHUTDOWN, Call.FLUSH) is Status.RED
    story.stall(12.5, 0.15, Loop.CONTROL, process=1)
    assert story.status(SHUTDOWN, Call.FLUSH) is Status.GREEN


def test_a_shutdown_that_says_nothing_is_left_must_be_right() -> None:
    story = leaver().call(Call.ADD, 5.0, presented=[msg(1)], process=1)
    story.call(Call.FLUSH, 12.0, process=1)
    assert story.status(SHUTDOWN, Call.FLUSH) is Status.RED
    assert story.stored(msg(1)).status(SHUTDOWN, Call.FLUSH) is Status.GREEN


def test_a_shutdown_in_the_window_says_what_is_expected() -> None:
    left = leaver().call(Call.FLUSH, 12.0, result=Result.LEFT, process=1)
    drained = leaver().call(Call.FLUSH, 12.0, process=1)
    for story, right, wrong in (
        (left, Leaving.LEAVES, Leaving.DRAINS),
        (drained, Leaving.DRAINS, Leaving.LEAVES),
    ):
        assert story.expect(leaving=right).status(SHUTDOWN, Call.FLUSH) is Status.GREEN
        assert story.expect(leaving=wrong).status(SHUTDOWN, Call.FLUSH) is Status.RED
        assert story.expect(leaving=Leaving.EITHER).status(SHUTDOWN, Call.FLUSH) is Status.GREEN


def test_after_the_recovery_nothing_may_be_left() -> None:
    story = leaver().call(Call.FLUSH, 30.0, result=Result.LEFT)
    assert story.status(SHUTDOWN, Call.FLUSH) is Status.RED


def test_no_shutdown_proves_nothing() -> None:
    assert Story().status(SHUTDOWN, Call.FLUSH) is Status.UNKNOWN
