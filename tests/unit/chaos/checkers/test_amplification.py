from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

AMPLIFICATION = "amplification"


def sent(first: int, further: int) -> Story:
    story = Story()
    for n in range(first):
        story.wire(5.0 + n / 100)
    for n in range(further):
        story.wire(6.0 + n / 100, attempt=2)
    return story


def test_a_tenth_more_and_a_reserve_of_ten_are_allowed() -> None:
    said = sent(100, 20).say(AMPLIFICATION)
    assert said.status is Status.GREEN
    assert said.measured["amplification"] == 1.2


def test_more_is_red() -> None:
    assert sent(100, 21).status(AMPLIFICATION) is Status.RED


def test_what_other_processes_send_is_theirs() -> None:
    story = sent(100, 20).process(1, "leaver")
    assert story.wire(7.0, attempt=2, process=1).status(AMPLIFICATION) is Status.GREEN


def test_nothing_sent_proves_nothing() -> None:
    assert Story().status(AMPLIFICATION) is Status.UNKNOWN
