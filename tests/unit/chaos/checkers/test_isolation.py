import pytest

from resilient_ov_chaos.history import Call
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import SEED, Story, msg

ISOLATION = "isolation"
OTHERS = "mkabc123p01seed"


@pytest.mark.parametrize("call", [Call.GET_CONTEXT, Call.SEARCH])
def test_a_read_that_shows_ones_own_memory_is_fine(call: Call) -> None:
    assert Story().call(call, 5.0, got=[SEED]).status(ISOLATION, call) is Status.GREEN


@pytest.mark.parametrize("call", [Call.GET_CONTEXT, Call.SEARCH])
def test_a_read_that_shows_anothers_is_a_leak(call: Call) -> None:
    said = Story().call(call, 5.0, got=[SEED, OTHERS]).say(ISOLATION, call)
    assert said.status is Status.RED
    assert OTHERS in said.text


@pytest.mark.parametrize("call", [Call.GET_CONTEXT, Call.SEARCH])
def test_reads_that_show_nothing_prove_nothing(call: Call) -> None:
    assert Story().call(call, 5.0).status(ISOLATION, call) is Status.UNKNOWN


def test_messages_where_they_belong_are_fine() -> None:
    assert Story().stored(msg(1)).stored(SEED).status(ISOLATION, Call.ADD) is Status.GREEN


def test_a_message_with_another_owner_is_red() -> None:
    assert Story().stored(msg(1), persona=1).status(ISOLATION, Call.ADD) is Status.RED


def test_a_message_in_another_conversation_is_red() -> None:
    story = Story().stored(msg(1), thread="mkabc123p00t007")
    assert story.status(ISOLATION, Call.ADD) is Status.RED


def test_a_session_that_nobody_knows_is_red() -> None:
    assert Story().stored(msg(1), thread=None).status(ISOLATION, Call.ADD) is Status.RED


def test_an_empty_server_proves_nothing() -> None:
    assert Story().status(ISOLATION, Call.ADD) is Status.UNKNOWN
