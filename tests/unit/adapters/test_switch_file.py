from pathlib import Path

import pytest

from resilient_ov.adapters.switch_file import FILE_NAME, SwitchFile
from resilient_ov.policy.rules import Group
from resilient_ov.policy.switches import Mode, SwitchError, Switches
from resilient_ov.testing.clock import ManualClock


def test_what_one_process_writes_another_finds_once(tmp_path: Path) -> None:
    clock = ManualClock()
    writer, reader = SwitchFile(tmp_path, clock), SwitchFile(tmp_path, clock)
    assert reader.changed() is None
    writer.write(Switches({}).switched("read", Mode.FORCED_OPEN, now_s=clock.monotonic_s()))
    found = reader.changed()
    assert found is not None
    assert found.mode(Group.RECALL, clock.monotonic_s()) is Mode.FORCED_OPEN
    assert reader.changed() is None
    assert not list(tmp_path.glob("*.tmp"))


def test_an_end_survives_the_way_through_the_file(tmp_path: Path) -> None:
    clock = ManualClock()
    file = SwitchFile(tmp_path, clock, wall_s=lambda: 1_000_000.0)
    now_s = clock.monotonic_s()
    file.write(Switches({}).switched("all", Mode.DISABLED, now_s=now_s, for_s=60))
    found = file.current()
    assert found.mode(Group.APPEND, now_s + 59) is Mode.DISABLED
    assert found.mode(Group.APPEND, now_s + 61) is Mode.NORMAL


def test_a_torn_file_is_told_once_and_a_removed_one_means_normal(tmp_path: Path) -> None:
    file = SwitchFile(tmp_path, ManualClock())
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(SwitchError):
        file.changed()
    assert file.changed() is None
    (tmp_path / FILE_NAME).unlink()
    assert file.changed() == Switches({})
    assert file.changed() is None
    assert file.current() == Switches({})
