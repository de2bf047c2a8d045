import errno
import fcntl
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from resilient_ov.adapters.lock_file import LockFile, LockFiles, lock_works


class Missing:
    """Counts how often missing locks were reported."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def missing() -> Missing:
    return Missing()


@pytest.fixture
def files(missing: Missing) -> LockFiles:
    return LockFiles(missing)


def took(file: LockFile | None) -> LockFile:
    assert file is not None
    return file


def failing_flock(number: int) -> Callable[[int, int], None]:
    def flock(_descriptor: int, _kind: int) -> None:
        raise OSError(number, "scripted")

    return flock


def test_a_taken_lock_is_held_and_a_released_one_leaves_no_file(
    files: LockFiles, tmp_path: Path
) -> None:
    path = tmp_path / "d" / "x.lock"
    file = took(files.take(path))
    assert file.exclusive is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files.take(path) is None
    assert files.is_held(path) is True
    file.release()
    file.release()
    assert not path.exists()
    assert files.is_held(path) is False
    took(files.take(path)).release()


def test_a_leftover_file_is_taken_with_its_note(files: LockFiles, tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    file = took(files.take(path))
    file.write_note(b"holder")
    file.abandon()
    assert files.is_held(path) is False
    again = took(files.take(path))
    assert again.note() == b"holder"
    again.release()
    fresh = took(files.take(path))
    assert fresh.note() == b""
    fresh.release()


def test_a_file_that_was_removed_before_it_was_locked_is_not_the_lock(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lock"
    real = fcntl.flock
    removed: list[int] = []

    def flock(descriptor: int, kind: int) -> None:
        if not removed:
            removed.append(os.fstat(descriptor).st_ino)
            path.unlink()
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    file = took(files.take(path))
    assert file.is_current()
    assert files.is_held(path) is True
    file.release()


def test_a_name_that_never_keeps_its_file_is_given_up(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LockFile, "is_current", lambda self: False)
    assert files.take(tmp_path / "x.lock") is None


def test_a_holder_whose_file_was_replaced_does_not_remove_the_new_one(
    files: LockFiles, tmp_path: Path
) -> None:
    path = tmp_path / "x.lock"
    first = took(files.take(path))
    path.unlink()
    second = took(files.take(path))
    assert first.is_current() is False
    first.release()
    assert second.is_current() is True
    assert files.take(path) is None
    second.release()


def test_release_unlocks_although_a_copy_of_the_descriptor_lives(
    files: LockFiles, tmp_path: Path
) -> None:
    path = tmp_path / "x.lock"
    file = took(files.take(path))
    file.write_note(b"x")
    copy = os.dup(file._descriptor or -1)
    file.abandon()
    assert files.is_held(path) is False
    os.close(copy)


def test_a_child_closes_its_copy_and_the_lock_stays(files: LockFiles, tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    file = took(files.take(path))
    held = os.dup(file._descriptor or -1)  # the parent's descriptor
    file.renew()
    file.release()
    assert files.is_held(path) is True
    assert path.exists()
    assert (file.lock(), file.is_current(), file.note()) == (False, False, b"")
    file.write_note(b"no descriptor, no note")
    os.close(held)
    assert files.is_held(path) is False


@pytest.mark.parametrize(
    "number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL], ids=str
)
def test_missing_locks_are_reported_once_and_nobody_counts_as_dead(
    files: LockFiles,
    missing: Missing,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    monkeypatch.setattr(fcntl, "flock", failing_flock(number))
    assert files.missing is False
    first, second = took(files.take(tmp_path / "x.lock")), took(files.take(tmp_path / "x.lock"))
    assert (first.exclusive, second.exclusive) == (False, False)
    assert (files.missing, missing.times) == (True, 1)
    assert files.is_held(tmp_path / "x.lock") is True
    first.release()
    second.release()
    assert not (tmp_path / "x.lock").exists()
    assert lock_works(tmp_path) is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES])
def test_contention_is_no_error(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", failing_flock(number))
    assert files.take(tmp_path / "x.lock") is None


def test_a_broken_disk_is_an_error_and_leaks_no_descriptor(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", failing_flock(errno.EIO))
        for _ in range(3):
            with pytest.raises(OSError, match="scripted"):
                files.take(tmp_path / "x.lock")
        with pytest.raises(OSError, match="scripted"):
            lock_works(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_cannot_be_opened_counts_as_held(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.lock").touch()

    def denied(*_args: object) -> int:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "open", denied)
    assert files.is_held(tmp_path / "x.lock") is True


def test_a_file_that_cannot_be_removed_is_unlocked_all_the_same(
    files: LockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lock"
    file = took(files.take(path))

    def denied(_path: Path) -> None:
        raise PermissionError(errno.EROFS, "read only")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", denied)
        file.release()
    assert path.exists()
    assert files.is_held(path) is False


def test_a_child_that_does_not_answer_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(command: list[str], **_options: object) -> None:
        raise subprocess.TimeoutExpired(command, 10.0)

    monkeypatch.setattr(subprocess, "run", hang)
    assert lock_works(tmp_path) is False
    assert list(tmp_path.iterdir()) == []
