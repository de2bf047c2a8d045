import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from resilient_ov.adapters import session_lock
from resilient_ov.adapters.lock_file import LockFile, LockFiles
from resilient_ov.adapters.session_lock import SessionLock, SessionLocks
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.testing.workers import ManualWorkers


@pytest.fixture
def workers() -> ManualWorkers:
    return ManualWorkers(places=2)


@pytest.fixture
def locks(tmp_path: Path, workers: ManualWorkers) -> Iterator[SessionLocks]:
    yield SessionLocks(tmp_path, LockFiles(lambda: None), workers)
    left = dict(session_lock._held.locks)
    session_lock._held.locks.clear()
    assert left == {}


def took(lock: SessionLock | None) -> SessionLock:
    assert lock is not None
    return lock


def foreign(path: Path) -> bool:
    """Tell whether another process could take the lock."""
    file = LockFiles(lambda: None).take(path)
    if file is not None:
        file.release()
    return file is not None


def join_releases() -> None:
    for thread in threading.enumerate():
        if thread.name == "resilient-ov-release":
            thread.join(5)


def test_leaving_drops_the_lock_on_a_worker(
    locks: SessionLocks, workers: ManualWorkers, tmp_path: Path
) -> None:
    lock = took(locks.take("s"))
    assert locks.holds(lock) is True
    assert foreign(tmp_path / "s.lock") is False
    locks.leave(lock)
    assert locks.holds(lock) is False
    assert foreign(tmp_path / "s.lock") is False
    workers.run_all()
    assert foreign(tmp_path / "s.lock") is True


def test_the_next_visit_of_this_process_takes_the_lock_over(
    locks: SessionLocks, workers: ManualWorkers, tmp_path: Path
) -> None:
    first = took(locks.take("s"))
    assert locks.take("s") is None
    locks.leave(first)
    second = took(locks.take("s"))
    workers.run_all()
    assert locks.holds(second) is True
    assert foreign(tmp_path / "s.lock") is False
    locks.leave_and_drop(second)
    assert foreign(tmp_path / "s.lock") is True


def test_another_store_of_this_process_is_excluded_even_without_file_locks(
    locks: SessionLocks, tmp_path: Path, workers: ManualWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(self: LockFile) -> bool:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(LockFile, "lock", no_locks)
    other = SessionLocks(tmp_path, LockFiles(lambda: None), workers)
    lock = took(locks.take("s"))
    assert other.take("s") is None
    locks.leave_and_drop(lock)
    other.leave_and_drop(took(other.take("s")))


def test_a_visit_waits_out_a_drop_that_is_under_way(
    locks: SessionLocks, workers: ManualWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = took(locks.take("s"))
    dropping, go_on = threading.Event(), threading.Event()
    real = LockFile.release

    def slow(self: LockFile) -> None:
        dropping.set()
        go_on.wait(5)
        real(self)

    monkeypatch.setattr(LockFile, "release", slow)
    monkeypatch.setattr(session_lock, "_DROP_WAIT_S", 5.0)
    dropper = threading.Thread(target=locks.leave_and_drop, args=(lock,))
    dropper.start()
    assert dropping.wait(5)
    taken: list[SessionLock | None] = []
    taker = threading.Thread(target=lambda: taken.append(locks.take("s")))
    taker.start()
    go_on.set()
    taker.join(5)
    dropper.join(5)
    locks.leave_and_drop(took(taken[0]))


def test_a_visit_does_not_wait_for_a_drop_on_a_blocked_disk(
    locks: SessionLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = took(locks.take("s"))
    dropping, go_on = threading.Event(), threading.Event()
    real = LockFile.release

    def blocked(self: LockFile) -> None:
        dropping.set()
        go_on.wait(5)
        real(self)

    monkeypatch.setattr(LockFile, "release", blocked)
    monkeypatch.setattr(session_lock, "_DROP_WAIT_S", 0.001)
    dropper = threading.Thread(target=locks.leave_and_drop, args=(lock,))
    dropper.start()
    assert dropping.wait(5)
    assert locks.take("s") is None
    locks.drop(lock)
    go_on.set()
    dropper.join(5)


def test_a_lock_is_dropped_although_the_workers_have_no_place(
    locks: SessionLocks, workers: ManualWorkers, tmp_path: Path
) -> None:
    workers.places = 0
    locks.leave(took(locks.take("s")))
    join_releases()
    assert foreign(tmp_path / "s.lock") is True


def test_a_lock_is_dropped_here_when_no_thread_can_start(
    locks: SessionLocks, workers: ManualWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    workers.places = 0
    lock = took(locks.take("s"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        locks.leave(lock)
    assert foreign(tmp_path / "s.lock") is True


def test_a_lock_whose_drop_the_closed_workers_never_began_is_dropped(tmp_path: Path) -> None:
    pool = WorkerPool(threads=1, waiting=4)
    locks = SessionLocks(tmp_path, LockFiles(lambda: None), pool)
    lock = took(locks.take("s"))
    gate, begun = threading.Event(), threading.Event()
    assert pool.submit(lambda: (begun.set(), gate.wait(10)), lambda result, error: None)
    assert begun.wait(5)
    locks.leave(lock)
    pool.close()
    join_releases()
    assert foreign(tmp_path / "s.lock") is True
    gate.set()


def test_a_lock_whose_file_was_removed_is_taken_anew(locks: SessionLocks, tmp_path: Path) -> None:
    lock = took(locks.take("s"))
    (tmp_path / "s.lock").unlink()
    assert locks.confirm(lock) is True
    assert foreign(tmp_path / "s.lock") is False
    locks.leave_and_drop(lock)


def test_a_lock_that_another_process_took_meanwhile_is_lost(
    locks: SessionLocks, workers: ManualWorkers, tmp_path: Path
) -> None:
    lock = took(locks.take("s"))
    (tmp_path / "s.lock").unlink()
    stranger = LockFiles(lambda: None).take(tmp_path / "s.lock")
    assert stranger is not None
    assert locks.confirm(lock) is False
    locks.leave(lock)
    assert locks.take("s") is None
    workers.run_all()
    assert stranger.is_current() is True
    stranger.release()
    locks.leave_and_drop(took(locks.take("s")))


def test_a_lost_lock_is_forgotten_when_the_visit_ends(locks: SessionLocks, tmp_path: Path) -> None:
    lock = took(locks.take("s"))
    (tmp_path / "s.lock").unlink()
    stranger = LockFiles(lambda: None).take(tmp_path / "s.lock")
    assert stranger is not None
    assert locks.confirm(lock) is False
    locks.leave_and_drop(lock)
    assert stranger.is_current() is True
    stranger.release()
    locks.leave_and_drop(took(locks.take("s")))


def test_a_failed_take_leaves_nothing_behind(
    locks: SessionLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> int:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", broken)
        with pytest.raises(OSError, match="broken"):
            locks.take("s")
    locks.leave_and_drop(took(locks.take("s")))


def test_after_a_fork_the_parents_locks_are_not_ours(
    locks: SessionLocks, workers: ManualWorkers
) -> None:
    lock = took(locks.take("s"))
    session_lock._held.renew()
    assert locks.holds(lock) is False
    locks.leave(lock)
    workers.run_all()
    file = lock.file
    assert file is not None
    assert file.is_current() is True
    file.release()
