"""Several real processes on one storage folder: exclusion, kill -9 and fork."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.lock_file import lock_works
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import Loaded
from resilient_ov.testing.workers import ManualWorkers

SCRIPT = Path(__file__).with_name("state_process.py")
SESSION = "df_s"


class Process:
    def __init__(self, root: Path) -> None:
        # The fork of a process with threads is what is tested here.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(SCRIPT), str(root)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, *command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        return json.loads(line)

    def ask(self, *command: object) -> object:
        self.send(*command)
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.stdin = None
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Process]]:
    started: list[Process] = []

    def make() -> Process:
        started.append(Process(tmp_path))
        return started[-1]

    yield make
    for process in started:
        process.end()


def files(root: Path, part: str) -> list[str]:
    return sorted(path.name for path in (root / "openviking" / part).iterdir())


def test_two_processes_lose_no_update(start: Callable[[], Process], tmp_path: Path) -> None:
    first, second = start(), start()
    (tmp_path / "openviking" / "sessions").mkdir(parents=True)
    (tmp_path / "openviking" / "sessions" / "x.123.456.tmp").touch()
    first.send("add", SESSION, 60)
    second.send("add", SESSION, 60)
    assert first.answer() is None
    assert second.answer() is None
    assert first.ask("open", SESSION) == 120
    assert files(tmp_path, "sessions") == [f"{SESSION}.json", "x.123.456.tmp"]
    saved = json.loads((tmp_path / "openviking" / "sessions" / f"{SESSION}.json").read_bytes())
    assert saved["revision"] == 120


def test_a_session_held_by_one_process_is_refused_to_another_at_once(
    start: Callable[[], Process],
) -> None:
    first, second = start(), start()
    assert first.ask("open", SESSION) == 0
    assert second.ask("open", SESSION) is None
    assert second.ask("open", "df_other") == 0
    first.ask("save", SESSION, 1)
    first.ask("leave", SESSION)
    first.ask("close")
    assert second.ask("open", SESSION) == 1


def test_one_process_leads_until_it_is_killed(start: Callable[[], Process]) -> None:
    first, second = start(), start()
    assert first.ask("lead") is True
    assert second.ask("lead") is False
    token = first.ask("owner")
    assert second.ask("lives", token) is True
    first.kill()
    assert second.ask("lives", token) is False
    assert second.ask("lead") is True


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_process_killed_in_a_save_leaves_the_old_state_and_nothing_for_long(
    start: Callable[[], Process], tmp_path: Path, step: str
) -> None:
    victim, heir = start(), start()
    assert victim.ask("open", SESSION) == 0
    victim.ask("save", SESSION, 7)
    victim.send("die_in", step, SESSION)
    victim.process.wait(10)
    assert len(files(tmp_path, "sessions")) == 2
    assert heir.ask("unfinished") == [SESSION]
    assert heir.ask("open", SESSION) == 7
    assert files(tmp_path, "sessions") == [f"{SESSION}.json"]
    heir.ask("save", SESSION, 8)
    heir.ask("leave", SESSION)
    heir.ask("close")
    assert files(tmp_path, "locks") == []


def test_what_a_killed_process_held_is_counted_once_by_all(
    start: Callable[[], Process], tmp_path: Path
) -> None:
    victims = [start() for _ in range(2)]
    heirs = [start() for _ in range(3)]
    for process, waiting in zip([*victims, *heirs], [5, 11, 0, 0, 0], strict=True):
        assert process.ask("offer", waiting) is True
    assert [heir.ask("bury") for heir in heirs] == [0, 0, 0]
    for victim in victims:
        victim.kill()
    counted = 0
    for _ in range(3):
        for heir in heirs:
            heir.send("bury")
        counted += sum(int(str(heir.answer())) for heir in heirs)
    assert counted == 16
    assert len(files(tmp_path, "status")) == 3
    assert len(files(tmp_path, "owners")) == 3


def test_a_forked_child_is_a_new_owner_and_leaves_its_parents_locks_alone(
    start: Callable[[], Process], tmp_path: Path
) -> None:
    parent, other = start(), start()
    token = parent.ask("owner")
    assert parent.ask("lead") is True
    assert parent.ask("open", SESSION) == 0
    told = parent.ask("fork", SESSION, 0)
    assert isinstance(told, dict)
    assert {key: told[key] for key in told if key != "child"} == {
        "open": False,
        "parent_lives": True,
        "lead": False,
        "fresh_token": True,
        "other_session": 0,
    }
    # The child has closed and exited; the parent still holds everything.
    assert files(tmp_path, "locks") == [f"{SESSION}.lock"]
    assert files(tmp_path, "owners") == [f"{token}.lock"]
    assert other.ask("lives", token) is True
    assert other.ask("lead") is False
    assert other.ask("open", SESSION) is None
    parent.ask("save", SESSION, 3)
    parent.ask("leave", SESSION)
    parent.ask("close")
    assert other.ask("lives", token) is False
    assert other.ask("lead") is True
    assert other.ask("open", SESSION) == 3


def test_a_child_that_outlives_its_parent_keeps_none_of_its_locks(
    start: Callable[[], Process],
) -> None:
    parent, other = start(), start()
    token = parent.ask("owner")
    assert parent.ask("lead") is True
    assert parent.ask("open", SESSION) == 0
    told = parent.ask("fork", SESSION, 60.0)
    assert isinstance(told, dict)
    try:
        assert other.ask("lead") is False
        parent.kill()
        assert other.ask("lives", token) is False
        assert other.ask("lead") is True
        assert other.ask("open", SESSION) == 0
    finally:
        os.kill(told["child"], signal.SIGKILL)


def test_a_blocked_disk_neither_delays_a_fork_nor_harms_the_child(
    start: Callable[[], Process],
) -> None:
    answer = start().ask("fork_on_blocked_disk", SESSION)
    assert isinstance(answer, list)
    took_s, code = answer
    assert took_s < 2
    assert code == 0


def test_cancelled_visits_hold_no_lock_a_second_later(tmp_path: Path) -> None:
    workers = WorkerPool(threads=2, waiting=8)
    store = FileWatermarkStore(
        tmp_path, dice=SystemDice(), workers=workers, on_lock_missing=lambda: None
    )

    async def visit(number: int) -> None:
        with store.session(f"df_{number % 7}") as unit:
            asked = asyncio.get_running_loop().create_future()
            workers.submit(unit.open, lambda *_: None)
            await asked

    async def cancel_all() -> None:
        for number in range(1000):
            task = asyncio.create_task(visit(number))
            await asyncio.sleep(0)
            if number % 3 == 0:
                await asyncio.sleep(0.0005)
            task.cancel()

    try:
        asyncio.run(cancel_all())
        end_s = time.monotonic() + 1
        while files(tmp_path, "locks") and time.monotonic() < end_s:
            time.sleep(0.01)
        assert files(tmp_path, "locks") == []
        for number in range(7):
            with store.session(f"df_{number}") as unit:
                assert unit.open() == Loaded(watermark=None)
    finally:
        store.close()
        workers.close()


def test_a_child_process_proves_that_the_lock_works(tmp_path: Path) -> None:
    store = FileWatermarkStore(
        tmp_path, dice=SystemDice(), workers=ManualWorkers(), on_lock_missing=lambda: None
    )
    assert store.lock_works() is True
    assert list(store.place.iterdir()) == []


def test_a_lock_that_lies_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, kind: None)
    assert lock_works(tmp_path) is False
    assert list(tmp_path.iterdir()) == []
