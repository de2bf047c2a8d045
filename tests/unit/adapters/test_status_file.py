import json
import os
import stat
from pathlib import Path

import pytest

from resilient_ov.adapters.lock_file import LockFiles
from resilient_ov.adapters.owners import Owners
from resilient_ov.adapters.status_file import ProcessStatus, StatusFiles
from resilient_ov.testing.clock import ManualClock, ScriptedDice


class Place:
    """Several processes of one folder, played in one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.dice = ScriptedDice()
        self.owners: list[Owners] = []

    def status(self) -> StatusFiles:
        owners = Owners(self.root, LockFiles(lambda: None), self.dice.token)
        self.owners.append(owners)
        return StatusFiles(self.root, owners, self.clock)

    def file(self, number: int) -> Path:
        return self.root / "status" / f"{number:032x}.json"

    def die(self, number: int) -> None:
        """End the life of the ``number``-th owner; its files stay."""
        mark = self.root / "owners" / f"{number:032x}.lock"
        content = self.file(number).read_bytes() if self.file(number).exists() else None
        self.owners[number - 1].close()
        mark.touch()
        if content is not None:
            self.file(number).write_bytes(content)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_offered_is_written_for_everybody_to_read(place: Place) -> None:
    first, second = place.status(), place.status()
    sessions = {"s1": ("df_x", None), "s2": ("df_y", "researcher")}
    first.offer(waiting=3, facts={"healthy": False}, sessions=sessions)
    assert first.due_in_s() == 0.0
    assert first.write_due() is True
    assert stat.S_IMODE(place.file(1).stat().st_mode) == 0o600
    (read,) = second.read_all()
    assert read == ProcessStatus(
        token=f"{1:032x}",
        lives=True,
        pid=os.getpid(),
        host=os.uname().nodename,
        written_at="2030-01-01T00:00:00.000Z",
        waiting=3,
        facts={"healthy": False},
        sessions=sessions,
    )


@pytest.mark.parametrize("told", [None, [], {"s1": None}, {"s1": ["u"]}, {"s1": [1, None]}])
def test_a_version_that_does_not_say_what_waits_says_nothing(place: Place, told: object) -> None:
    first, second = place.status(), place.status()
    first.offer(waiting=3, facts={})
    first.write_due()
    content = json.loads(place.file(1).read_bytes())
    place.file(1).write_text(json.dumps(content | {"sessions": told}))
    assert [dict(read.sessions) for read in second.read_all()] == [{}]


def test_nothing_is_written_without_an_offer_or_a_change(place: Place) -> None:
    status = place.status()
    assert (status.due_in_s(), status.write_due()) == (None, False)
    assert status.read_all() == ()
    status.offer(waiting=0, facts={"a": [1]})
    assert status.write_due() is True
    place.clock.advance(60)
    status.offer(waiting=0, facts={"a": [1]})
    assert (status.due_in_s(), status.write_due()) == (None, False)
    assert list(place.root.iterdir()) != []


def test_changes_are_written_at_most_once_a_second(place: Place) -> None:
    status = place.status()
    status.offer(waiting=1, facts={})
    assert status.write_due() is True
    status.offer(waiting=2, facts={})
    status.offer(waiting=3, facts={})
    assert status.due_in_s() == pytest.approx(1.0)
    assert status.write_due() is False
    place.clock.advance(0.75)
    assert status.due_in_s() == pytest.approx(0.25)
    assert status.write_due() is False
    place.clock.advance(0.25)
    assert status.write_due() is True
    assert [read.waiting for read in status.read_all()] == [3]


def test_the_wall_clock_decides_nothing(place: Place) -> None:
    status = place.status()
    status.offer(waiting=1, facts={})
    assert status.write_due() is True
    status.offer(waiting=2, facts={})
    place.clock.step_wall(10 * 365 * 86400)
    assert status.write_due() is False


def test_a_failed_write_is_tried_again_a_second_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = place.status()
    status.offer(waiting=1, facts={})

    def full(*_args: object) -> int:
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="full"):
            status.write_due()
    assert status.due_in_s() == pytest.approx(1.0)
    assert not place.file(1).exists()
    place.clock.advance(1)
    assert status.write_due() is True


def test_a_dead_process_is_counted_once_and_dropped(place: Place) -> None:
    dead, first, second = place.status(), place.status(), place.status()
    for status, waiting in ((dead, 5), (first, 100), (second, 1000)):
        status.offer(waiting=waiting, facts={})
        assert status.write_due() is True
    place.die(1)
    place.file(1).with_suffix(".tmp").touch()
    assert [(read.waiting, read.lives) for read in first.read_all()] == [
        (5, False),
        (100, True),
        (1000, True),
    ]
    assert first.bury_dead() == 5
    assert (first.bury_dead(), second.bury_dead()) == (0, 0)
    assert [read.waiting for read in second.read_all()] == [100, 1000]
    assert sorted(p.stem for p in (place.root / "owners").iterdir()) == [
        f"{2:032x}",
        f"{3:032x}",
    ]
    assert sorted(p.name for p in (place.root / "status").iterdir()) == [
        f"{2:032x}.json",
        f"{3:032x}.json",
    ]


def test_a_dead_mark_without_a_file_is_dropped_too(place: Place) -> None:
    dead, living = place.status(), place.status()
    place.owners[0].token()
    place.die(1)
    assert living.bury_dead() == 0
    assert list((place.root / "owners").iterdir()) == []
    assert dead.read_all() == ()


def test_a_file_that_cannot_be_dropped_is_not_counted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, living = place.status(), place.status()
    dead.offer(waiting=5, facts={})
    assert dead.write_due() is True
    place.die(1)

    def denied(_path: Path) -> None:
        raise OSError(30, "read only")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", denied)
        with pytest.raises(OSError, match="read only"):
            living.bury_dead()
    assert living.bury_dead() == 5


GOOD: dict[str, object] = {"pid": 1, "host": "h", "written_at": "t", "waiting": 2, "facts": {}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        *(json.dumps({**GOOD, key: None}).encode() for key in GOOD),
        json.dumps({**GOOD, "waiting": -1}).encode(),
    ],
)
def test_an_unreadable_file_is_left_out_and_counts_nothing(place: Place, content: bytes) -> None:
    dead, living = place.status(), place.status()
    dead.offer(waiting=5, facts={})
    assert dead.write_due() is True
    place.file(1).write_bytes(content)
    assert living.read_all() == ()
    place.die(1)
    assert living.bury_dead() == 0
    assert not place.file(1).exists()


def test_strange_names_are_no_processes(place: Place) -> None:
    status = place.status()
    status.offer(waiting=5, facts={})
    assert status.write_due() is True
    (place.root / "status" / ".nfs01.json").write_text("{}")
    assert len(status.read_all()) == 1
    assert status.bury_dead() == 0


def test_closing_removes_our_file_once(place: Place) -> None:
    status = place.status()
    status.offer(waiting=1, facts={})
    assert status.write_due() is True
    status.close()
    status.close()
    assert not place.file(1).exists()
    assert status.due_in_s() is None
    status.offer(waiting=1, facts={})
    place.clock.advance(1)
    assert status.write_due() is True
    place.file(1).unlink()
    status.close()


def test_a_forked_child_does_not_remove_its_parents_file(place: Place) -> None:
    status = place.status()
    status.offer(waiting=1, facts={})
    assert status.write_due() is True
    status.renew()
    status.close()
    assert place.file(1).exists()
