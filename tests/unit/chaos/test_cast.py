from resilient_ov_chaos.cast import personas, resumed, run_name, talks
from resilient_ov_chaos.history import Call, Colour
from resilient_ov_chaos.marks import is_seed, marks_in, owner_of, thread_of
from tests.unit.chaos.story import THREAD, Story, msg


def test_a_run_is_named_by_its_seed() -> None:
    assert run_name(7) == run_name(7) != run_name(8)
    assert len(run_name(7)) == 6


def test_everybody_has_a_conversation_of_each_colour_and_marks_of_their_own() -> None:
    cast = personas(run_name(7))
    assert len({each.user for each in cast}) == 2
    found = talks(run_name(7), cast, 5)
    assert [talk.number for talk in found] == [5, 6, 7, 8, 9, 10]
    assert {(talk.persona, talk.colour) for talk in found} == {
        (each.number, colour) for each in cast for colour in Colour
    }
    for each in cast:
        assert is_seed(each.seed)
        assert owner_of(each.seed) == each.number


def test_marks_are_found_in_any_text() -> None:
    assert marks_in(f"a {msg(1)}, b{msg(2, 'a')}.") == (msg(1), msg(2, "a"))
    assert thread_of(msg(3)) == THREAD


def test_a_conversation_goes_on_where_the_checkpoint_left_it() -> None:
    (talk,) = [t for t in talks("abc123", personas("abc123")[:1], 0) if t.thread == THREAD]
    story = Story().call(Call.ADD, 11.0, presented=[msg(1), msg(2), msg(3)])
    story.call(Call.ADD_NOWAIT, 12.0, presented=[msg(1), msg(2)])
    (again,) = resumed([talk], story.run().history)
    assert again.messages == (msg(3),)
    assert again.next_turn == 4
    (untouched,) = resumed([talk], Story().run().history)
    assert untouched.next_turn == talk.next_turn
