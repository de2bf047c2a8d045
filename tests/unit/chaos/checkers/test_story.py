import json

from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

ONE_STORY = "one_story"


def line(event: str, group: str = "recall", level: str = "WARNING") -> str:
    return f"{level} resilient_ov {json.dumps({'event': f'openviking.{event}', 'group': group})}"


def log(*lines: str) -> Story:
    story = Story()
    story.texts = {"log gateway-0": "\n".join(lines)}
    return story


def test_one_degraded_and_one_recovered_are_one_story() -> None:
    story = log(line("degraded"), line("recovered", level="INFO"), line("degraded"))
    said = story.say(ONE_STORY)
    assert said.status is Status.GREEN
    assert said.measured["lines_of_the_story"] == 3


def test_two_of_a_kind_in_a_row_are_red() -> None:
    assert log(line("degraded"), line("degraded")).status(ONE_STORY) is Status.RED
    assert log(line("recovered"), line("recovered")).status(ONE_STORY) is Status.RED


def test_each_group_and_each_process_has_a_story_of_its_own() -> None:
    story = log(line("degraded"), line("degraded", "host"))
    story.texts["log leaver-1"] = line("degraded")
    assert story.status(ONE_STORY) is Status.GREEN


def test_a_loud_process_is_red() -> None:
    assert log(*[line("retry.scheduled")] * 60).status(ONE_STORY) is Status.GREEN
    assert log(*[line("retry.scheduled")] * 61).status(ONE_STORY) is Status.RED
    assert log(*[line("search", level="DEBUG")] * 99).status(ONE_STORY) is Status.GREEN


def test_other_loggers_other_sinks_and_lines_for_people_are_passed_over() -> None:
    story = log("WARNING asyncio {", "INFO resilient_ov a line for people", "  a traceback")
    story.texts["spans gateway-0"] = "\n".join([line("degraded")] * 2)
    assert story.status(ONE_STORY) is Status.GREEN
