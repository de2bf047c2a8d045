"""What a visit tells about the state that it saves."""

from dataclasses import replace

import pytest

from resilient_ov.domain.ports import StateUnwritableError
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.memory_store import MemoryPlace, MemoryWatermarkStore
from resilient_ov.usecases.steps import NoTimeError, Work, WorkLateError
from resilient_ov.usecases.visit import Visit
from tests.simulation.world import World

FRESH = Watermark(
    session_id="df_s", openviking_user="u", account="a", server_id="one", server_profile="0.5"
)


class Opened:
    """A visit of a session, with its lock taken."""

    def __init__(self, *, left_s: float) -> None:
        self.world = World(1)
        self.place = MemoryPlace()
        store = MemoryWatermarkStore(self.place)
        self.visit = Visit(
            store.session("df_s").__enter__(),
            FRESH,
            owner=store.owner,
            clock=self.world,
            dice=self.world,
            deadline_s=self.world.now_s + left_s,
        )
        opening = self.visit.open(patience_s=0.0)
        step = next(opening)
        assert isinstance(step, Work)
        with pytest.raises(StopIteration):
            opening.send(step.run())
        self.told: list[str] = []
        self.visit.watermark = replace(FRESH, newest_archive=1)
        self.visit.when_saved(lambda: self.told.append("told"))

    def saving(self) -> tuple[object, Work]:
        flow = self.visit.save()
        step = next(flow)
        assert isinstance(step, Work)
        return flow, step


@pytest.mark.parametrize(("left_s", "error"), [(3.0, WorkLateError), (0.1, NoTimeError)])
def test_a_save_that_ends_after_its_call_still_tells_once(
    left_s: float, error: type[Exception]
) -> None:
    opened = Opened(left_s=left_s)
    flow, step = opened.saving()
    with pytest.raises(WorkLateError) as late:
        flow.throw(WorkLateError())  # type: ignore[attr-defined]
    assert late.type is error
    assert opened.told == []
    step.run()
    assert opened.told == ["told"]
    assert opened.place.states["df_s"].newest_archive == 1


def test_a_save_that_fails_tells_nothing_and_the_next_one_tells_it() -> None:
    opened = Opened(left_s=3.0)
    opened.place.save_problem = "no_space"
    flow, step = opened.saving()
    with pytest.raises(StateUnwritableError) as refused:
        step.run()
    with pytest.raises(StateUnwritableError):
        flow.throw(refused.value)  # type: ignore[attr-defined]
    assert opened.told == []
    opened.place.save_problem = None
    flow, step = opened.saving()
    step.run()
    assert opened.told == ["told"]


def test_what_changes_nothing_is_told_at_once() -> None:
    opened = Opened(left_s=3.0)
    opened.visit.watermark = FRESH
    with pytest.raises(StopIteration):
        next(opened.visit.save())
    assert opened.told == ["told"]
