from resilient_ov_chaos.history import Call
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story, msg

ORDER = "order"


def test_in_order_is_in_order() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(1, "a"), msg(2)])
    said = story.stored(msg(1), msg(1, "a"), msg(2)).say(ORDER, Call.ADD)
    assert said.status is Status.GREEN
    assert said.measured["ordered_pairs"] == 3


def test_two_messages_the_wrong_way_round_are_red() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(2)]).stored(msg(2), msg(1))
    assert story.status(ORDER, Call.ADD) is Status.RED


def test_the_answer_follows_its_question() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(1, "a")])
    assert story.stored(msg(1, "a"), msg(1)).status(ORDER, Call.ADD) is Status.RED


def test_the_wrong_way_round_over_a_gap_is_red_too() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(3)])
    story.call(Call.ADD, 6.0, presented=[msg(2)], process=1)
    assert story.stored(msg(3), msg(2), msg(1)).status(ORDER, Call.ADD) is Status.RED


def test_a_later_turn_through_another_process_may_overtake() -> None:
    story = Story().call(Call.ADD_NOWAIT, 5.0, presented=[msg(1)])
    story.call(Call.ADD, 6.0, presented=[msg(2)], process=1)
    assert story.stored(msg(2), msg(1)).status(ORDER, Call.ADD) is Status.UNKNOWN


def test_a_process_that_was_given_both_keeps_their_order_whoever_else_was_given_one() -> None:
    story = Story().call(Call.ADD_NOWAIT, 5.0, presented=[msg(1)])
    story.call(Call.ADD, 6.0, presented=[msg(1), msg(2)], process=1)
    assert story.stored(msg(2), msg(1)).status(ORDER, Call.ADD) is Status.RED


def test_other_conversations_have_an_order_of_their_own() -> None:
    other = "mkabc123p00t001"
    story = Story().call(Call.ADD, 5.0, presented=[msg(2)])
    story.call(Call.ADD, 6.0, presented=[msg(1, thread=other)])
    story.stored(msg(2)).stored(msg(1, thread=other))
    assert story.status(ORDER, Call.ADD) is Status.UNKNOWN


def test_the_first_of_two_copies_counts() -> None:
    story = Story().call(Call.ADD, 5.0, presented=[msg(1), msg(2)])
    assert story.stored(msg(1), msg(2), msg(1)).status(ORDER, Call.ADD) is Status.GREEN
