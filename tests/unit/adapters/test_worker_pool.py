import gc
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from resilient_ov.adapters.worker_pool import WorkerPool, WorkersClosedError


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(threads=2, waiting=2, name="wp-test")
    yield made
    made.close()


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("wp-test")]


def run(pool: WorkerPool) -> None:
    came = threading.Event()
    assert pool.submit(lambda: None, lambda result, error: came.set())
    assert came.wait(5)


def idle(pool: WorkerPool) -> None:
    """``done`` was told a moment before the worker counts as free again."""
    end_s = time.monotonic() + 5
    while pool._busy:
        assert time.monotonic() < end_s


def test_threads_start_on_demand_and_are_daemons(pool: WorkerPool) -> None:
    assert threads() == []
    run(pool)
    assert len(threads()) == 1
    gate = threading.Event()
    for _ in range(4):
        assert pool.submit(gate.wait, lambda result, error: None)
    assert len(threads()) == 2
    assert all(t.daemon for t in threads())
    gate.set()


def test_an_idle_thread_is_used_before_a_new_one_starts(pool: WorkerPool) -> None:
    for _ in range(20):
        run(pool)
        idle(pool)
    assert len(threads()) == 1


def test_submit_never_waits_for_blocked_workers(pool: WorkerPool) -> None:
    gate = threading.Event()
    for _ in range(4):
        assert pool.submit(gate.wait, lambda result, error: None)
    started = time.perf_counter()
    assert pool.submit(gate.wait, lambda result, error: None) is False
    assert time.perf_counter() - started < 0.5
    gate.set()


@pytest.mark.parametrize(("count", "waiting"), [(0, 1), (1, -1)])
def test_a_pool_needs_a_thread(count: int, waiting: int) -> None:
    with pytest.raises(ValueError, match="threads must be >= 1"):
        WorkerPool(threads=count, waiting=waiting)


def test_close_finishes_what_is_queued_and_ends_the_threads(pool: WorkerPool) -> None:
    told: list[tuple[object, object]] = []
    for number in range(4):
        assert pool.submit(lambda n=number: n, lambda result, error: told.append((result, error)))
    pool.close()
    assert sorted(told) == [(0, None), (1, None), (2, None), (3, None)]
    assert threads() == []
    assert pool.submit(lambda: 1, lambda result, error: told.append((result, error))) is False
    pool.close()


def test_close_leaves_a_stuck_worker_behind_and_reports_what_did_not_begin() -> None:
    pool = WorkerPool(threads=1, waiting=1, name="wp-stuck")
    gate, begun = threading.Event(), threading.Event()
    told: list[tuple[object, type[BaseException] | None]] = []

    def stuck() -> str:
        begun.set()
        gate.wait(10)
        return "late"

    def done(result: object, error: BaseException | None) -> None:
        told.append((result, None if error is None else type(error)))

    assert pool.submit(stuck, done)
    assert begun.wait(5)
    assert pool.submit(lambda: "never", done)
    started = time.perf_counter()
    pool.close()
    assert time.perf_counter() - started <= 1.0
    assert told == [(None, WorkersClosedError)]
    gate.set()
    for thread in [t for t in threading.enumerate() if t.name.startswith("wp-stuck")]:
        thread.join(5)
    assert told == [(None, WorkersClosedError), ("late", None)]


def test_close_may_be_called_by_a_worker() -> None:
    pool = WorkerPool(threads=1, waiting=0)
    came = threading.Event()
    started = time.perf_counter()
    assert pool.submit(pool.close, lambda result, error: came.set())
    assert came.wait(5)
    assert time.perf_counter() - started < 0.5


def test_without_threads_work_is_refused(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        assert pool.submit(lambda: 1, lambda result, error: None) is False
    run(pool)


def test_living_workers_take_the_work_when_no_thread_can_start(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pool)
    gate, came = threading.Event(), threading.Event()
    assert pool.submit(gate.wait, lambda result, error: None)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        assert pool.submit(lambda: 1, lambda result, error: came.set()) is True
    gate.set()
    assert came.wait(5)


def test_an_idle_worker_keeps_nothing_of_its_last_work_alive(pool: WorkerPool) -> None:
    class Value:
        pass

    value = Value()
    reference = weakref.ref(value)
    came = threading.Event()
    assert pool.submit(lambda v=value: v, lambda result, error: came.set())
    assert came.wait(5)
    del value
    idle(pool)
    gc.collect()
    assert reference() is None


def test_a_forked_child_starts_empty_and_stays_closed(pool: WorkerPool) -> None:
    pool.renew()
    run(pool)
    pool.close()
    pool.renew()
    assert pool.submit(lambda: 1, lambda result, error: None) is False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_lost_to_a_raising_done_is_replaced(pool: WorkerPool) -> None:
    def wrong(result: object, error: BaseException | None) -> None:
        raise ValueError("done must not raise")

    assert pool.submit(lambda: 1, wrong)
    for thread in threads():
        thread.join(5)
    assert threads() == []
    run(pool)
