import errno
import os
import stat
from pathlib import Path

import pytest

from resilient_ov.adapters import durable_files
from resilient_ov.adapters.durable_files import (
    create_empty,
    make_directory,
    problem_of,
    replace_file,
    sync_directory,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (errno.ENOSPC, "no_space"),
        (errno.EDQUOT, "no_space"),
        (errno.EACCES, "denied"),
        (errno.EPERM, "denied"),
        (errno.EROFS, "denied"),
        (errno.EIO, "io"),
        (errno.ENOTDIR, "io"),
        (None, "io"),
    ],
)
def test_each_error_has_a_word_for_the_operator(number: int | None, word: str) -> None:
    error = OSError("x") if number is None else OSError(number, "x")
    assert problem_of(error) == word


def test_missing_directories_are_private_and_made_from_the_top(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    (tmp_path / "a").chmod(0o750)
    make_directory(tmp_path / "a")
    make_directory(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == 0o750


def test_a_replaced_file_is_private_whole_and_alone(tmp_path: Path) -> None:
    target = tmp_path / "d" / "f.json"
    replace_file(target, target.with_suffix(".tmp"), b"one", durable=True)
    replace_file(target, target.with_suffix(".tmp"), b"two", durable=False)
    assert target.read_bytes() == b"two"
    assert mode(target) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["f.json"]


def test_a_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:3])))
    replace_file(tmp_path / "f", tmp_path / "f.tmp", b"0123456789", durable=False)
    assert (tmp_path / "f").read_bytes() == b"0123456789"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failed_step_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(OSError, match="full"):
            replace_file(target, tmp_path / "f.tmp", b"new", durable=True)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "f.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        replace_file(tmp_path / "f", tmp_path / "f.tmp", b"new", durable=True)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_without_directory_sync_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr(os, "fsync", refuse)
    sync_directory(tmp_path)


def test_any_other_failure_of_the_directory_sync_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="broken"):
        sync_directory(tmp_path)


def test_an_empty_file_is_made_durable_with_its_missing_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_directory", synced.append)
    create_empty(tmp_path / "p" / "marker")
    assert (tmp_path / "p" / "marker").read_bytes() == b""
    assert mode(tmp_path / "p" / "marker") == 0o600
    assert synced == [tmp_path, tmp_path / "p"]
    create_empty(tmp_path / "p" / "marker")
    assert synced == [tmp_path, tmp_path / "p", tmp_path / "p"]
