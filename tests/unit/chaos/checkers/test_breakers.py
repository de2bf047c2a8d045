from resilient_ov_chaos.expectation import ALL_GROUPS
from resilient_ov_chaos.history import Loop
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

OPENED = ((11.0, "open"),)
ROUND = ((11.0, "open"), (12.0, "half_open"), (12.5, "open"), (13.5, "half_open"), (13.6, "closed"))


def test_a_breaker_that_must_open_and_does_is_green() -> None:
    story = Story().expect(opens=frozenset({"recall"}))
    assert story.status("breaker") is Status.RED
    assert story.breaker(*OPENED).status("breaker") is Status.GREEN


def test_opening_before_the_fault_is_not_opening_for_it() -> None:
    story = Story().expect(opens=frozenset({"recall"})).breaker((5.0, "open"))
    assert story.status("breaker") is Status.RED


def test_a_breaker_that_must_stay_closed_and_opens_is_red() -> None:
    story = Story().expect(stays_closed=ALL_GROUPS)
    assert story.status("breaker") is Status.GREEN
    said = story.breaker(*OPENED, group="commit").say("breaker")
    assert said.status is Status.RED
    assert "commit opened" in said.text


def test_the_breakers_of_other_processes_are_their_own() -> None:
    story = Story().process(1, "leaver").expect(stays_closed=ALL_GROUPS)
    assert story.breaker(*OPENED, process=1).status("breaker") is Status.GREEN


def test_one_probe_at_a_time_is_green() -> None:
    story = Story().breaker(*ROUND).wire(12.0, 0.5, ok=False).wire(13.5, 0.1)
    said = story.say("single_probe")
    assert said.status is Status.GREEN
    assert said.measured["half_open_periods"] == 2


def test_an_attempt_beside_a_probe_is_red() -> None:
    story = Story().breaker(*ROUND).wire(12.0, 0.5, ok=False).wire(12.2, 0.1)
    assert story.status("single_probe") is Status.RED


def test_an_attempt_of_another_group_is_not_beside_it() -> None:
    story = Story().breaker(*ROUND).wire(12.0, 0.5, ok=False).wire(12.2, 0.1, group="append")
    assert story.status("single_probe") is Status.GREEN


def test_the_host_is_probed_by_any_group() -> None:
    story = Story().breaker(*ROUND, group="host").wire(12.0, 0.5, ok=False)
    assert story.wire(12.2, 0.1, group="append").status("single_probe") is Status.RED


def test_health_is_nobodys_probe() -> None:
    story = Story().breaker(*ROUND, group="host").wire(12.0, 0.5, ok=False)
    assert story.wire(12.2, 0.1, group=None).status("single_probe") is Status.GREEN


def test_nothing_is_sent_while_a_breaker_is_open() -> None:
    story = Story().breaker(*ROUND).wire(10.9).wire(12.0, 0.5).wire(14.0)
    assert story.status("quiet") is Status.GREEN
    said = story.wire(11.5).say("quiet")
    assert said.status is Status.RED
    assert said.measured["open_periods"] == 2


def test_an_attempt_that_was_let_through_just_before_is_seen_just_after() -> None:
    story = Story().breaker(*OPENED).wire(11.02)
    assert story.status("quiet") is Status.GREEN
    story.wire(11.2)
    assert story.status("quiet") is Status.RED
    assert story.stall(11.19, 0.19, Loop.CONTROL).status("quiet") is Status.GREEN


def test_an_open_period_without_an_end_forbids_for_ever() -> None:
    assert Story().breaker(*OPENED).wire(100.0).status("quiet") is Status.RED


def test_moves_are_read_in_the_order_they_were_made() -> None:
    story = Story().breaker(*ROUND)
    story.records.reverse()
    assert story.wire(12.0, 0.5, ok=False).status("quiet") is Status.GREEN
