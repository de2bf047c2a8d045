import pytest

from resilient_ov_chaos.history import Call, Colour, Event, Result
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import SEED, Story, msg

AGREE = "metrics_agree"


def calls(call: str, outcome: str, count: float) -> dict[str, float]:
    return {f'openviking_calls_total{{call="{call}",outcome="{outcome}"}}': count}


def messages(**results: float) -> dict[str, float]:
    return {f'openviking_messages_total{{result="{name}"}}': n for name, n in results.items()}


def test_a_page_that_says_what_was_seen_is_green() -> None:
    story = Story().call(Call.SEARCH, 5.0).wire(5.0).breaker((11.0, "open"))
    story.call(Call.GET_CONTEXT, 6.0, result=Result.EMPTY)
    page = calls("search", "ok", 1) | calls("get_context", "degraded_deadline", 1)
    page |= {'openviking_attempts_total{operation="search",outcome="ok"}': 1}
    page |= {'openviking_breaker_transitions_total{group="recall"}': 1}
    assert story.metrics(page).status(AGREE) is Status.GREEN


@pytest.mark.parametrize(
    "wrong",
    [
        calls("search", "ok", 2),
        calls("search", "degraded_deadline", 1),
        calls("search", "ok", 1) | {'openviking_attempts_total{operation="search"}': 2},
        calls("search", "ok", 1) | {'openviking_breaker_transitions_total{group="recall"}': 1},
        {},
    ],
)
def test_a_page_that_says_otherwise_is_red(wrong: dict[str, float]) -> None:
    story = Story().call(Call.SEARCH, 5.0)
    assert story.metrics(calls("search", "ok", 1)).status(AGREE) is Status.GREEN
    assert Story().call(Call.SEARCH, 5.0).metrics(wrong).status(AGREE) is Status.RED


def test_an_attempt_that_never_began_is_not_one() -> None:
    story = Story().call(Call.SEARCH, 5.0).wire(5.0, ok=False, outcome="no_slot")
    assert story.metrics(calls("search", "ok", 1)).status(AGREE) is Status.GREEN


def test_an_attempt_that_ended_about_when_the_page_was_made_may_be_on_it_or_not() -> None:
    for ended_s, told, status in (
        (39.8, 0, Status.GREEN),
        (39.8, 1, Status.GREEN),
        (40.2, 0, Status.GREEN),
        (39.0, 0, Status.RED),
        (39.8, 2, Status.RED),
    ):
        story = Story().wire(ended_s - 0.01)
        page = {'openviking_attempts_total{operation="search"}': float(told)}
        assert story.metrics(page).status(AGREE) is status


def test_a_hand_over_from_a_thread_is_counted_as_an_add() -> None:
    story = Story().call(Call.ADD_NOWAIT, 5.0).call(Call.ADD_NOWAIT, 6.0, colour=Colour.ASYNC)
    page = calls("add", "pending", 1) | calls("add_nowait", "pending", 1)
    assert story.metrics(page).status(AGREE) is Status.GREEN


def test_calls_after_the_page_are_not_on_it() -> None:
    story = Story().call(Call.SEARCH, 5.0).call(Call.SEARCH, 50.0)
    assert story.metrics(calls("search", "ok", 1)).status(AGREE) is Status.GREEN


def stored(page: dict[str, float]) -> Story:
    return Story().stored(msg(1), msg(2)).stored(SEED).metrics(page)


def test_the_stored_messages_are_those_on_the_server() -> None:
    assert stored(messages(stored=1, reconciled=1)).status(AGREE) is Status.GREEN
    assert stored(messages(stored=3)).status(AGREE) is Status.RED
    assert stored(messages(stored=1)).status(AGREE) is Status.RED


def test_a_killed_process_may_have_stored_what_no_page_tells_but_never_less() -> None:
    for count, status in ((0, Status.RED), (1, Status.GREEN), (2, Status.GREEN), (3, Status.RED)):
        story = stored(messages(stored=count)).ended(1, Event.KILLED, 12.0)
        story.wire(11.0, process=1, operation="messages.add", carried=(msg(2),))
        assert story.status(AGREE) is status


def test_a_process_that_left_in_doubt_must_tell_what_was_answered() -> None:
    for ok, status in ((True, Status.RED), (False, Status.GREEN)):
        story = stored(messages(stored=1)).call(Call.FLUSH, 12.0, result=Result.LEFT, process=1)
        story.wire(11.0, process=1, operation="messages.add", carried=(msg(2),), ok=ok)
        story.metrics(
            calls("flush", "left", 1) | {'openviking_attempts_total{operation="add"}': 1}, process=1
        )
        assert story.status(AGREE) is status


def test_what_a_save_recorded_must_be_told_also_when_it_came_late() -> None:
    late = {'openviking_state_errors_total{reason="unwritable"}': 1.0}
    for count, status in ((1, Status.RED), (2, Status.GREEN), (3, Status.RED)):
        assert stored(messages(stored=count) | late).status(AGREE) is status


def test_what_is_given_up_is_missing_and_the_other_way_round() -> None:
    dropped = {'openviking_messages_dropped_total{reason="queue_full"}': 1.0}
    assert stored(messages(stored=2) | dropped).status(AGREE) is Status.RED
    lost = Story().call(Call.ADD, 5.0, presented=[msg(1)])
    page = calls("add", "pending", 1)
    assert lost.metrics(page).status(AGREE) is Status.RED
    lost = Story().call(Call.ADD, 5.0, presented=[msg(1)])
    assert lost.metrics(page | dropped).status(AGREE) is Status.GREEN
    ended = {'openviking_messages_dropped_total{reason="shutdown"}': 1.0}
    assert stored(messages(stored=2) | ended).status(AGREE) is Status.GREEN


def test_duplicates_are_told_when_there_are_some() -> None:
    story = Story().stored(msg(1), msg(1)).metrics(messages(stored=1))
    assert story.status(AGREE) is Status.RED
    told = messages(stored=1, duplicated=1)
    assert Story().stored(msg(1), msg(1)).metrics(told).status(AGREE) is Status.GREEN
    assert Story().stored(msg(1)).metrics(told).status(AGREE) is Status.RED


def test_a_commit_without_an_answer_excuses_no_false_alarm_of_a_duplicate() -> None:
    for duplicated, status in ((0, Status.GREEN), (1, Status.RED)):
        story = Story().stored(msg(1)).wire(11.0, operation="session.commit", ok=False)
        told = messages(stored=1, duplicated=duplicated)
        told |= {'openviking_attempts_total{operation="x"}': 1}
        assert story.metrics(told).status(AGREE) is status


def test_only_the_last_page_of_a_process_counts() -> None:
    story = stored(messages(stored=1)).metrics(messages(stored=2), at_s=45.0)
    assert story.status(AGREE) is Status.GREEN


def test_no_page_proves_nothing() -> None:
    assert Story().status(AGREE) is Status.UNKNOWN
