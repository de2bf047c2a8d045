import errno
import fcntl
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resilient_ov.adapters import watermark_store
from resilient_ov.adapters.lock_file import LockFile, LockFiles
from resilient_ov.adapters.watermark_file import encode
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.domain.ports import Loaded, NewerStateError, StateUnwritableError
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.clock import ScriptedDice
from resilient_ov.testing.workers import ManualWorkers

SESSION = "df_s"
STATE = Watermark(
    session_id=SESSION,
    openviking_user="df_user",
    account="deerflow",
    server_id="0123",
    server_profile="0.5",
)
SINCE = "2030-01-01T00:00:00.000Z"
DEAD = "d" * 32


class Place:
    """A folder, and owners in it; every owner has the next scripted token."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dice = ScriptedDice()
        self.workers = ManualWorkers()
        self.missing = 0
        self.made: list[FileWatermarkStore] = []

    @property
    def top(self) -> Path:
        return self.root / "openviking"

    @property
    def file(self) -> Path:
        return self.top / "sessions" / f"{SESSION}.json"

    @property
    def marker(self) -> Path:
        return self.top / "pending" / SESSION

    def store(self) -> FileWatermarkStore:
        def missing() -> None:
            self.missing += 1

        made = FileWatermarkStore(
            self.root, dice=self.dice, workers=self.workers, on_lock_missing=missing
        )
        self.made.append(made)
        return made

    def names(self) -> list[str]:
        return sorted(str(p.relative_to(self.top)) for p in self.top.rglob("*") if p.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "storage")
    yield made
    made.workers.run_all()
    for store in made.made:
        store.close()


def save(store: FileWatermarkStore, watermark: Watermark) -> None:
    with store.session(watermark.session_id) as unit:
        assert unit.open() is not None
        unit.save(watermark)


def load(store: FileWatermarkStore) -> Loaded | None:
    with store.session(SESSION) as unit:
        return unit.open()


def raising(number: int) -> object:
    def fail(*_args: object, **_options: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def test_nothing_is_touched_before_open(place: Place) -> None:
    with place.store().session(SESSION):
        pass
    assert not place.root.exists()


def test_files_and_directories_are_private(place: Place) -> None:
    save(place.store(), replace(STATE, pending_commit_since=SINCE))
    modes = {
        str(path.relative_to(place.root)): stat.S_IMODE(path.stat().st_mode)
        for path in [place.root, *place.root.rglob("*")]
    }
    assert {name for name, mode in modes.items() if mode == 0o700} == {
        ".",
        "openviking",
        "openviking/locks",
        "openviking/owners",
        "openviking/pending",
        "openviking/sessions",
    }
    assert {mode for mode in modes.values() if mode != 0o700} == {0o600}


def test_after_a_visit_only_the_state_and_the_marks_are_left(place: Place) -> None:
    store = place.store()
    save(store, STATE)
    place.workers.run_all()
    assert place.names() == [f"owners/{1:032x}.lock", f"sessions/{SESSION}.json"]
    store.close()
    assert place.names() == [f"sessions/{SESSION}.json"]


def test_the_order_of_one_save(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    save(store, STATE)
    steps: list[str] = []
    opened: dict[int, str] = {}
    real_open, real_write, real_fsync = os.open, os.write, os.fsync
    real_replace, real_unlink = os.replace, os.unlink

    def name(path: object) -> str:
        return str(Path(str(path)).relative_to(place.top))

    def spy_open(path: object, *args: int, **options: int) -> int:
        descriptor = real_open(path, *args, **options)  # type: ignore[call-overload]
        opened[descriptor] = name(path)
        return descriptor

    def spy_write(descriptor: int, data: bytes) -> int:
        steps.append(f"write {opened[descriptor]}")
        return real_write(descriptor, data)

    def spy_fsync(descriptor: int) -> None:
        steps.append(f"fsync {opened[descriptor]}")
        real_fsync(descriptor)

    def spy_replace(source: Path, target: Path) -> None:
        steps.append(f"replace {name(source)} {name(target)}")
        real_replace(source, target)

    def spy_unlink(path: Path) -> None:
        steps.append(f"unlink {name(path)}")
        real_unlink(path)

    with store.session(SESSION) as unit:
        unit.open()
        monkeypatch.setattr(os, "open", spy_open)
        monkeypatch.setattr(os, "write", spy_write)
        monkeypatch.setattr(os, "fsync", spy_fsync)
        monkeypatch.setattr(os, "replace", spy_replace)
        monkeypatch.setattr(os, "unlink", spy_unlink)
        written = [
            f"write sessions/df_s.json.{1:032x}.tmp",
            f"fsync sessions/df_s.json.{1:032x}.tmp",
            f"replace sessions/df_s.json.{1:032x}.tmp sessions/df_s.json",
            "fsync sessions",
        ]
        unit.save(STATE)
        assert steps == []
        unit.save(replace(STATE, server_total=1))
        assert steps == [*written, "unlink pending/df_s"]
        steps.clear()
        place.marker.parent.mkdir(mode=0o700)
        unit.save(replace(STATE, pending_commit_since=SINCE))
        assert steps == ["fsync pending", *written]
        assert place.marker.exists()
        steps.clear()
        unit.save(replace(STATE, pending_commit_since=SINCE, server_total=2))
        assert steps == written


@pytest.mark.parametrize(
    ("number", "problem"),
    [(errno.ENOSPC, "no_space"), (errno.EROFS, "denied"), (errno.EIO, "io")],
)
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str, number: int, problem: str
) -> None:
    store = place.store()
    save(store, STATE)
    before = place.file.read_bytes()
    with store.session(SESSION) as unit:
        unit.open()
        names = place.names()
        with monkeypatch.context() as patch:
            patch.setattr(os, step, raising(number))
            for _ in range(2):
                with pytest.raises(StateUnwritableError) as raised:
                    unit.save(replace(STATE, server_total=1))
                assert raised.value.problem == problem
        assert place.file.read_bytes() == before
        assert place.names() == names
        assert store.persistent() is False
        unit.save(replace(STATE, server_total=1))
        assert store.persistent() is True


def test_a_marker_that_cannot_be_made_stops_the_save(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    save(store, STATE)
    before = place.file.read_bytes()
    with store.session(SESSION) as unit:
        unit.open()
        with monkeypatch.context() as patch:
            patch.setattr(watermark_store, "create_empty", raising(errno.ENOSPC))
            with pytest.raises(StateUnwritableError):
                unit.save(replace(STATE, pending_commit_since=SINCE))
    assert place.file.read_bytes() == before


def test_a_marker_that_cannot_be_removed_does_not_fail_the_save_and_goes_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    save(store, replace(STATE, pending_commit_since=SINCE))
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", raising(errno.EROFS))
        save(store, STATE)
        place.workers.run_all()
    assert store.unfinished() == (SESSION,)
    assert load(store) == Loaded(watermark=replace(STATE, revision=2))
    assert store.unfinished() == ()


def test_a_marker_removed_from_outside_is_made_again(place: Place) -> None:
    store = place.store()
    save(store, replace(STATE, pending_commit_since=SINCE))
    place.marker.unlink()
    save(store, replace(STATE, pending_commit_since=SINCE, server_total=1))
    assert store.unfinished() == (SESSION,)


def test_strange_names_among_the_markers_are_no_sessions(place: Place) -> None:
    store = place.store()
    save(store, replace(STATE, pending_commit_since=SINCE))
    (place.top / "pending" / ".nfs0001").touch()
    assert store.unfinished() == (SESSION,)


def test_markers_that_cannot_be_read_are_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listdir", raising(errno.EACCES))
    with pytest.raises(StateUnwritableError, match="denied"):
        place.store().unfinished()


def test_a_removed_place_is_made_again_in_the_middle_of_a_visit(place: Place) -> None:
    store = place.store()
    save(store, STATE)
    with store.session(SESSION) as unit:
        unit.open()
        shutil.rmtree(place.root)
        unit.save(replace(STATE, server_total=5, pending_commit_since=SINCE))
        assert LockFiles(lambda: None).take(place.top / "locks" / f"{SESSION}.lock") is None
    assert store.unfinished() == (SESSION,)
    assert store.owner_lives(store.owner()) is True
    assert place.store().owner_lives(store.owner()) is True
    shutil.rmtree(place.root)
    assert load(store) == Loaded(watermark=None)


def test_a_session_taken_by_another_after_a_removal_is_not_saved(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        unit.open()
        shutil.rmtree(place.root)
        stranger = LockFiles(lambda: None).take(place.top / "locks" / f"{SESSION}.lock")
        assert stranger is not None
        with pytest.raises(StateUnwritableError, match="io"):
            unit.save(STATE)
    assert not place.file.exists()
    stranger.release()


def test_a_place_that_is_a_file_is_told_and_recovers(place: Place) -> None:
    place.root.write_text("not a folder")
    store = place.store()
    for attempt in (lambda: load(store), store.owner, store.probe):
        with pytest.raises(StateUnwritableError) as raised:
            attempt()
        assert raised.value.problem == "io"
    assert store.persistent() is False
    place.root.unlink()
    save(store, STATE)
    assert store.persistent() is True


def test_a_denied_place_is_told_and_recovers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", raising(errno.EACCES))
        with pytest.raises(StateUnwritableError, match="denied"):
            load(store)
    save(store, STATE)
    assert store.persistent() is True


def test_a_failed_load_frees_the_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    save(store, STATE)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", raising(errno.EIO))
        with store.session(SESSION) as unit:
            with pytest.raises(StateUnwritableError, match="io"):
                unit.open()
            assert place.names() == [f"owners/{1:032x}.lock", f"sessions/{SESSION}.json"]
    assert load(store) == Loaded(watermark=replace(STATE, revision=1))


def test_the_probe_finds_out_whether_a_save_would_fail(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    store.probe()
    assert place.names() == [f"owners/{1:032x}.lock"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raising(errno.ENOSPC))
        with pytest.raises(StateUnwritableError, match="no_space"):
            store.probe()
        assert store.persistent() is False
    assert place.names() == [f"owners/{1:032x}.lock"]
    store.probe()
    assert store.persistent() is True


def test_unreadable_files_are_kept_aside_in_a_bounded_number(place: Place) -> None:
    store = place.store()
    for number in range(7):
        save(store, replace(STATE, server_total=number))
        place.file.write_bytes(b"damage %d" % number)
        assert load(store) == Loaded(watermark=None, repaired=True)
    kept = {p.name: p.read_bytes() for p in place.file.parent.iterdir()}
    assert kept == {
        "df_s.json.corrupt-0": b"damage 0",
        "df_s.json.corrupt-1": b"damage 1",
        "df_s.json.corrupt-2": b"damage 2",
        "df_s.json.corrupt-3": b"damage 6",
    }


def test_a_newer_file_is_left_untouched(place: Place) -> None:
    newer = b'{"schema_version": 3, "anything": []}'
    place.file.parent.mkdir(parents=True)
    place.file.write_bytes(newer)
    with pytest.raises(NewerStateError), place.store().session(SESSION) as unit:
        unit.open()
    assert place.file.read_bytes() == newer


def leave_as_killed(place: Place, owner: str) -> Path:
    """Leave what a process leaves that was killed in the middle of a save."""
    temporary = place.file.with_name(f"{SESSION}.json.{owner}.tmp")
    temporary.write_bytes(b"half a sta")
    (place.top / "locks").mkdir(exist_ok=True)
    (place.top / "locks" / f"{SESSION}.lock").write_bytes(owner.encode())
    return temporary


def test_the_leftover_of_a_dead_owner_is_cleaned_by_the_next_visit(place: Place) -> None:
    store = place.store()
    save(store, STATE)
    place.workers.run_all()
    alien = place.file.with_name("x.123.456.tmp")
    alien.touch()
    temporary = leave_as_killed(place, DEAD)
    assert load(store) == Loaded(watermark=replace(STATE, revision=1))
    place.workers.run_all()
    assert not temporary.exists()
    assert alien.exists()
    assert not (place.top / "locks" / f"{SESSION}.lock").exists()


def test_the_temporary_file_of_a_living_owner_is_left_alone(place: Place) -> None:
    store, other = place.store(), place.store()
    save(store, STATE)
    place.workers.run_all()
    temporary = leave_as_killed(place, other.owner())
    load(store)
    assert temporary.exists()


@pytest.mark.parametrize("note", [b"", b"../../../etc/passwd", b"\xff" * 64])
def test_a_strange_note_in_a_lock_file_is_ignored(place: Place, note: bytes) -> None:
    store = place.store()
    save(store, STATE)
    place.workers.run_all()
    (place.top / "locks" / f"{SESSION}.lock").write_bytes(note)
    assert load(store) == Loaded(watermark=replace(STATE, revision=1))


def test_a_full_disk_that_refuses_the_note_does_not_refuse_the_visit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    monkeypatch.setattr(LockFile, "write_note", raising(errno.ENOSPC))
    assert load(store) == Loaded(watermark=None)
    assert store.persistent() is True


def test_leaving_while_open_runs_releases_what_it_gets(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    entered, go_on = threading.Event(), threading.Event()
    real = Path.read_bytes

    def slow(path: Path) -> bytes:
        entered.set()
        go_on.wait(5)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", slow)
    with store.session(SESSION) as unit:
        thread = threading.Thread(target=unit.open)
        thread.start()
        assert entered.wait(5)
        with pytest.raises(RuntimeError, match="one at a time"):
            unit.save(STATE)
        started = time.perf_counter()
    assert time.perf_counter() - started < 0.5
    assert load(store) is None
    go_on.set()
    thread.join(5)
    monkeypatch.undo()
    assert place.workers.waiting() == 0
    assert not (place.top / "locks" / f"{SESSION}.lock").exists()
    assert load(store) == Loaded(watermark=None)


def test_leaving_while_a_save_hangs_keeps_the_session_until_it_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    entered, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def hang(descriptor: int) -> None:
        entered.set()
        go_on.wait(5)
        real(descriptor)

    with store.session(SESSION) as unit:
        unit.open()
        monkeypatch.setattr(os, "fsync", hang)
        thread = threading.Thread(target=unit.save, args=(STATE,))
        thread.start()
        assert entered.wait(5)
    assert load(store) is None
    go_on.set()
    thread.join(5)
    assert load(store) == Loaded(watermark=replace(STATE, revision=1))


def test_a_visit_that_was_forked_away_does_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        unit.open()
        parent = os.getpid()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: parent + 1)
            unit.__exit__(None, None, None)
            with pytest.raises(RuntimeError, match="fork"):
                unit.save(STATE)
        unit.save(STATE)


def test_missing_locks_are_told_once_and_threads_still_exclude_each_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", raising(errno.ENOSYS))
    store, other = place.store(), place.store()
    assert store.lock_missing is False
    with store.session(SESSION) as unit:
        assert unit.open() == Loaded(watermark=None)
        assert load(store) is None
        assert load(other) is None
        unit.save(STATE)
    assert store.lock_missing is True
    assert place.missing == 2  # once per store
    assert store.owner_lives(other.owner()) is True
    assert store.lock_works() is False


def test_closing_does_not_wait_for_a_blocked_disk(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    token = store.owner()
    go_on = threading.Event()
    real = LockFile.release

    def blocked(self: LockFile) -> None:
        go_on.wait(5)
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(LockFile, "release", blocked)
        started = time.perf_counter()
        store.close()
        assert time.perf_counter() - started < 0.9
        assert place.store().owner_lives(token) is True
        go_on.set()
        for thread in threading.enumerate():
            if thread.name == "resilient-ov-close":
                thread.join(5)
    assert place.store().owner_lives(token) is False


def test_closing_works_while_the_interpreter_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    store = place.store()
    token = store.owner()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        store.close()
    assert place.store().owner_lives(token) is False


def test_a_step_of_the_wall_clock_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    save(store, replace(STATE, pending_commit_since=SINCE))
    for year_s in (4.1e9, 0.0):
        monkeypatch.setattr(time, "time", lambda now=year_s: now)
        os.utime(place.file, (year_s, year_s))
        os.utime(place.marker, (year_s, year_s))
        found = Loaded(watermark=replace(STATE, pending_commit_since=SINCE, revision=1))
        assert load(store) == found
        assert store.unfinished() == (SESSION,)


def test_a_place_that_would_move_with_the_working_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="storage_path: must be absolute"):
        FileWatermarkStore(
            Path("rel"), dice=ScriptedDice(), workers=ManualWorkers(), on_lock_missing=lambda: None
        )


def test_the_file_holds_the_state_and_no_more(place: Place) -> None:
    save(place.store(), STATE)
    assert place.file.read_bytes() == encode(replace(STATE, revision=1))
    assert json.loads(place.file.read_bytes())["revision"] == 1
