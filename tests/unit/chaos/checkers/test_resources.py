import pytest

from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import Story

RESOURCES = "resources"
CLOSED = {"own_threads": 0, "sockets": 0}


def closed() -> Story:
    return Story().resources("baseline").resources("closed", **CLOSED)


def test_back_where_it_was_is_green() -> None:
    assert closed().resources("end").status(RESOURCES) is Status.GREEN


@pytest.mark.parametrize(
    "grown", [{"threads": 40}, {"sockets": 21}, {"files": 50}, {"rss_bytes": 3 * 10**8}]
)
def test_what_has_grown_is_red(grown: dict[str, int]) -> None:
    assert closed().resources("end", **grown).status(RESOURCES) is Status.RED


@pytest.mark.parametrize("left", [{"own_threads": 1}, {"sockets": 1}])
def test_what_outlives_close_is_red(left: dict[str, int]) -> None:
    story = Story().resources("baseline").resources("end").resources("closed", **{**CLOSED, **left})
    assert story.status(RESOURCES) is Status.RED


def test_a_process_that_was_never_closed_proves_nothing() -> None:
    assert Story().resources("baseline").resources("end").status(RESOURCES) is Status.UNKNOWN


def test_a_run_without_a_quiet_begin_is_judged_by_its_close_alone() -> None:
    story = Story().resources("end", threads=99).resources("closed", **CLOSED)
    assert story.status(RESOURCES) is Status.GREEN
