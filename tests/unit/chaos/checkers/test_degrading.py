from resilient_ov_chaos.expectation import Limit, Reads
from resilient_ov_chaos.history import Call, Loop, Mended, Result, ServerBack
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

DEGRADE, RECOVER, DELIVER = "time_to_degrade", "time_to_recover", "time_to_deliver"
READ = Call.GET_CONTEXT


def served(*at_s: float) -> Story:
    story = Story()
    for each in at_s:
        story.call(READ, each)
    return story


def without(story: Story, *at_s: float, took_s: float = 0.01) -> Story:
    for each in at_s:
        story.call(READ, each, took_s, Result.EMPTY)
    return story


def lost() -> Story:
    return Story().expect(reads=Reads.LOST, degrade_within=Limit(plus_s=1.0))


def test_reads_that_are_all_served_are_green_when_they_must_be() -> None:
    assert served(11.0, 12.0).status(DEGRADE, READ) is Status.GREEN
    assert without(served(11.0), 12.0).status(DEGRADE, READ) is Status.RED


def test_a_read_that_began_before_or_ended_after_the_window_says_nothing_about_it() -> None:
    story = without(served(11.0), 9.9, 25.0).call(READ, 19.9, 0.5, Result.EMPTY)
    assert story.status(DEGRADE, READ) is Status.GREEN


def test_no_read_in_the_window_proves_nothing() -> None:
    assert served(5.0, 25.0).status(DEGRADE, READ) is Status.UNKNOWN


def test_reads_that_are_lost_in_time_are_green_when_they_must_be() -> None:
    story = without(lost(), 10.5, 12.0)
    assert story.status(DEGRADE, READ) is Status.GREEN
    assert story.call(READ, 15.0).status(DEGRADE, READ) is Status.RED


def test_reads_that_were_under_way_may_still_be_served() -> None:
    assert without(lost().call(READ, 10.1), 10.5).status(DEGRADE, READ) is Status.GREEN


def test_a_first_turn_without_memory_that_comes_late_is_red() -> None:
    assert without(lost().call(READ, 10.05), 13.0).status(DEGRADE, READ) is Status.RED
    assert lost().call(READ, 10.1).status(DEGRADE, READ) is Status.RED


def test_what_the_machine_took_from_the_time_to_degrade_is_taken_off() -> None:
    story = without(lost().call(READ, 10.05), 11.3)
    assert story.status(DEGRADE, READ) is Status.RED
    assert story.stall(10.9, 0.5, Loop.CONTROL).status(DEGRADE, READ) is Status.GREEN


def test_nothing_degrades_before_somebody_calls() -> None:
    assert without(lost(), 14.0, took_s=0.8).status(DEGRADE, READ) is Status.GREEN
    assert without(lost(), 14.0, took_s=1.0).status(DEGRADE, READ) is Status.RED


def test_some_reads_must_be_served_where_some_are_expected() -> None:
    story = without(Story().expect(reads=Reads.SOME), 11.0)
    assert story.status(DEGRADE, READ) is Status.RED
    assert story.call(READ, 12.0).status(DEGRADE, READ) is Status.GREEN


def quick() -> Story:
    return lost().expect(quick_within=Limit(plus_s=2.0))


def test_once_nothing_is_sent_reads_end_at_once() -> None:
    story = without(quick(), 10.5, 13.0, 14.0)
    assert story.status(DEGRADE, READ) is Status.GREEN
    assert without(story, 15.0, took_s=0.5).status(DEGRADE, READ) is Status.RED


def test_each_open_period_may_cost_one_slow_probe() -> None:
    story = without(quick().breaker((11.0, "open")), 10.5, 13.0)
    assert without(story, 15.0, took_s=0.5).status(DEGRADE, READ) is Status.GREEN
    assert without(story, 16.0, took_s=0.5).status(DEGRADE, READ) is Status.RED


def test_no_read_late_enough_to_be_quick_is_red() -> None:
    assert without(quick(), 10.5).status(DEGRADE, READ) is Status.RED


def test_reads_that_come_back_in_time_are_green() -> None:
    said = served(5.0, 20.5).say(RECOVER, READ)
    assert said.status is Status.GREEN
    assert said.measured["recover_s"] == 0.51


def test_reads_that_come_back_late_or_never_are_red() -> None:
    assert without(served(5.0, 21.5), 20.2).status(RECOVER, READ) is Status.RED
    assert served(5.0).status(RECOVER, READ) is Status.RED
    assert without(served(5.0), 20.5).status(RECOVER, READ) is Status.RED


def test_an_open_period_that_stands_at_the_end_is_waited_for() -> None:
    story = served(5.0, 21.6).breaker((19.9, "open"), (20.9, "half_open"))
    assert story.status(RECOVER, READ) is Status.GREEN
    late = without(served(5.0, 22.6), 21.0).breaker((19.9, "open"))
    assert late.status(RECOVER, READ) is Status.RED


def test_nothing_recovers_before_somebody_calls() -> None:
    assert served(5.0, 23.0).status(RECOVER, READ) is Status.GREEN


def test_the_recovery_begins_when_everything_is_mended() -> None:
    story = without(served(5.0, 22.1), 20.5)
    assert story.status(RECOVER, READ) is Status.RED
    assert story.add(Mended(at_s=21.5)).status(RECOVER, READ) is Status.GREEN


def sick_until(back_s: float, *served_s: float) -> Story:
    """Return a run whose server stays sick after the mending, and whose breaker opens again."""
    story = without(served(5.0, *served_s), 20.5, 23.0).breaker(
        (19.9, "open"), (back_s - 0.5, "open")
    )
    return story.add(Mended(at_s=20.0), ServerBack(at_s=back_s))


def test_the_product_is_judged_from_when_the_server_itself_serves_a_search_again() -> None:
    said = sick_until(24.0, 25.0).say(RECOVER, READ)
    assert said.status is Status.GREEN
    assert (said.measured["server_back_s"], said.measured["recover_s"]) == (4.0, 5.01)
    assert without(sick_until(24.0, 27.0), 24.8).status(RECOVER, READ) is Status.RED


def test_a_server_that_is_back_at_once_is_no_excuse() -> None:
    story = without(served(5.0, 24.6), 20.1)
    assert story.add(ServerBack(at_s=20.01)).status(RECOVER, READ) is Status.RED


def test_a_probe_that_was_under_way_at_the_end_begins_another_period() -> None:
    story = served(5.0, 21.9).breaker((20.3, "open"))
    assert story.status(RECOVER, READ) is Status.GREEN


def test_the_breakers_of_writes_are_no_excuse_for_reads() -> None:
    story = without(served(5.0, 21.6), 20.1).breaker((19.9, "open"), group="append")
    assert story.status(RECOVER, READ) is Status.RED


def test_the_writes_must_be_delivered_in_time() -> None:
    limit_s = Story().expectation.deliver_within.seconds(Story().knobs)
    assert Story().delivered(20.0 + limit_s - 0.1).status(DELIVER, Call.ADD) is Status.GREEN
    assert Story().delivered(20.0 + limit_s + 0.1).status(DELIVER, Call.ADD) is Status.RED
    assert Story().status(DELIVER, Call.ADD) is Status.RED


def test_writes_that_were_delivered_during_the_fault_took_no_time() -> None:
    assert Story().delivered(15.0).say(DELIVER, Call.ADD).measured["deliver_s"] == 0.0


def test_a_gateway_that_was_started_again_counts_as_the_gateway() -> None:
    story = Story().process(1)
    story.call(READ, 20.5, process=1)
    assert story.status(RECOVER, READ) is Status.GREEN
    assert (
        Story().process(1, "follower").call(READ, 20.5, process=1).status(RECOVER, READ)
        is Status.RED
    )
