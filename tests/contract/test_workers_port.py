"""The promises of ``Workers``, on the hand-driven workers and on the pool."""

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest

from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import Workers
from resilient_ov.testing.workers import ManualWorkers

TURN: ContextVar[str] = ContextVar("TURN", default="unset")


@dataclass
class Done:
    """Collects what ``done`` was told, and on which thread."""

    told: list[tuple[object, BaseException | None]] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    def __call__(self, result: object, error: BaseException | None) -> None:
        self.told.append((result, error))
        self.came.set()


@dataclass
class Crew:
    workers: Workers
    run: Callable[[], None]
    places: int

    def finish(self, done: Done) -> list[tuple[object, BaseException | None]]:
        self.run()
        assert done.came.wait(5)
        return done.told


@pytest.fixture(params=["manual", "pool"])
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    if request.param == "manual":
        manual = ManualWorkers(places=3)
        yield Crew(manual, manual.run_all, 3)
        return
    pool = WorkerPool(threads=2, waiting=1)
    yield Crew(pool, lambda: None, 3)
    pool.close()


def test_the_result_is_reported_once(crew: Crew) -> None:
    done = Done()
    assert crew.workers.submit(lambda: 7, done) is True
    assert crew.finish(done) == [(7, None)]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_whatever_work_raises_is_reported_and_the_worker_goes_on(
    crew: Crew, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    for _ in range(4):
        done = Done()
        assert crew.workers.submit(fail, done) is True
        assert crew.finish(done) == [(None, error)]


def test_work_and_done_see_the_context_of_the_caller(crew: Crew) -> None:
    seen: list[str] = []
    came = threading.Event()

    def done(result: str | None, error: BaseException | None) -> None:
        seen.extend([str(result), TURN.get()])
        came.set()

    def work() -> str:
        before = TURN.get()
        TURN.set("changed by work")
        return before

    token = TURN.set("turn-1")
    assert crew.workers.submit(work, done) is True
    TURN.reset(token)
    crew.run()
    assert came.wait(5)
    assert seen == ["turn-1", "changed by work"]
    assert TURN.get() == "unset"


def test_without_a_place_work_is_refused_and_never_run(crew: Crew) -> None:
    gate = threading.Event()
    done = [Done() for _ in range(crew.places + 1)]
    ran: list[int] = []

    def work(number: int) -> int:
        gate.wait(5)
        ran.append(number)
        return number

    accepted = [
        crew.workers.submit(lambda number=number: work(number), done[number])
        for number in range(crew.places + 1)
    ]
    assert accepted == [True] * crew.places + [False]
    gate.set()
    for number in range(crew.places):
        assert crew.finish(done[number]) == [(number, None)]
    assert sorted(ran) == list(range(crew.places))
    assert done[crew.places].told == []
    again = Done()
    assert crew.workers.submit(lambda: "free again", again) is True
    assert crew.finish(again) == [("free again", None)]


def test_work_may_submit_work(crew: Crew) -> None:
    inner = Done()
    outer = Done()
    assert crew.workers.submit(lambda: crew.workers.submit(lambda: "inner", inner), outer) is True
    assert crew.finish(outer) == [(True, None)]
    assert crew.finish(inner) == [("inner", None)]
