import pytest

from resilient_ov_chaos.checkers.catalogue import CHECKERS
from resilient_ov_chaos.history import Event, Loop, Pulse
from resilient_ov_chaos.knobs import QUICK
from resilient_ov_chaos.machine import SHARE, TIMED, too_busy
from tests.unit.chaos.story import Story

LONG_S = SHARE * QUICK.get_context_s + 0.01
SHORT_S = SHARE * QUICK.get_context_s - 0.01


def busy(story: Story, *, in_window: bool = True) -> bool:
    return too_busy(story.run().history, QUICK, in_window=in_window)


def test_a_quiet_machine_is_not_busy() -> None:
    assert not busy(Story())
    assert not busy(Story().stall(5.0, SHORT_S, Loop.CONTROL).add(Pulse(at_s=5.0, took_s=SHORT_S)))


def test_a_slow_pulse_or_an_idle_loop_that_stood_still_is_a_busy_machine() -> None:
    assert busy(Story().add(Pulse(at_s=5.0, took_s=LONG_S)))
    assert busy(Story().stall(5.0, LONG_S, Loop.CONTROL))


def test_a_loop_that_the_product_blocked_is_none() -> None:
    assert not busy(Story().stall(5.0, LONG_S, Loop.TRAFFIC))


def test_where_the_server_is_stopped_the_window_says_nothing_of_the_machine() -> None:
    for at_s, told in ((15.0, False), (9.0, True), (25.0, True)):
        assert busy(Story().add(Pulse(at_s=at_s, took_s=LONG_S)), in_window=False) is told


def test_a_process_that_was_stopped_says_nothing_of_the_machine_either() -> None:
    story = Story().add(Story.event(0, Event.STOPPED, 11.0)).stall(15.0, 4.0, Loop.CONTROL)
    assert not busy(story)


@pytest.mark.parametrize(
    "name", ["nothing_lost", "nothing_duplicated", "order", "isolation", "secrets", "metrics_agree"]
)
def test_what_was_stored_shown_or_told_is_never_excused(name: str) -> None:
    assert name in CHECKERS
    assert name not in TIMED
    assert set(CHECKERS) > TIMED
