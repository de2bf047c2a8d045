import errno
import os
from pathlib import Path

import pytest

from resilient_ov.adapters.lock_file import LockFile, LockFiles
from resilient_ov.adapters.owners import Owners, is_token
from resilient_ov.testing.clock import ScriptedDice


class Place:
    """Several owners of one folder, in one process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dice = ScriptedDice()

    def owners(self) -> Owners:
        return Owners(self.root, LockFiles(lambda: None), self.dice.token)

    def mark(self, token: str) -> Path:
        return self.root / "owners" / f"{token}.lock"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def token(number: int) -> str:
    return f"{number:032x}"


def test_nothing_is_written_before_the_token_is_asked_for(place: Place) -> None:
    owners = place.owners()
    assert list(place.root.iterdir()) == []
    assert owners.token() == token(1)
    assert place.mark(token(1)).exists()
    owners.close()
    assert not place.mark(token(1)).exists()


def test_a_dead_owner_is_claimed_once_and_its_mark_goes(place: Place) -> None:
    dead, living, other = place.owners(), place.owners(), place.owners()
    dead.token()
    living.token()
    assert living.claim_dead(token(1)) is None
    assert living.claim_dead(token(2)) is None
    dead.renew()
    _close_descriptors(place.mark(token(1)))
    assert living.lives(token(1)) is False
    claimed = living.claim_dead(token(1))
    assert claimed is not None
    assert other.claim_dead(token(1)) is None
    assert living.marked() == {token(1), token(2)}
    claimed.release()
    assert living.marked() == {token(2)}


def test_marks_of_no_place_are_none(place: Place) -> None:
    assert place.owners().marked() == frozenset()


def test_a_removed_mark_is_made_again_under_the_same_token(place: Place) -> None:
    owners, other = place.owners(), place.owners()
    owners.token()
    place.mark(token(1)).unlink()
    assert other.lives(token(1)) is False
    assert owners.lives(token(1)) is True
    assert owners.token() == token(1)
    assert other.lives(token(1)) is True


def test_a_mark_that_is_being_examined_leads_to_another_token(place: Place) -> None:
    owners, other = place.owners(), place.owners()
    owners.token()
    place.mark(token(1)).unlink()
    examined = other.claim_dead(token(1))
    assert examined is not None
    assert owners.token() == token(2)
    examined.release()
    assert other.lives(token(2)) is True


def test_a_mark_that_cannot_be_taken_is_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = place.owners()
    with monkeypatch.context() as patch:
        patch.setattr(LockFiles, "take", lambda self, path: None)
        with pytest.raises(OSError, match="no owner mark"):
            owners.token()
    assert is_token(owners.token())


def test_the_lead_is_taken_again_when_its_file_was_removed(place: Place) -> None:
    first, second = place.owners(), place.owners()
    assert first.lead() is True
    (place.root / "sweeper.lock").unlink()
    assert second.lead() is True
    assert first.lead() is False
    second.close()
    assert first.lead() is True


def test_nobody_leads_a_place_that_cannot_be_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = place.owners()

    def denied(*_args: object) -> int:
        raise PermissionError(errno.EACCES, "denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        assert owners.lead() is False
    assert owners.lead() is True


def test_where_locks_are_missing_everybody_lives_and_leads(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(self: LockFile) -> bool:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(LockFile, "lock", no_locks)
    first, second = place.owners(), place.owners()
    first.token()
    second.token()
    assert second.claim_dead(token(1)) is None
    assert (first.lead(), second.lead()) == (True, True)


def test_a_forked_child_takes_a_new_token(place: Place) -> None:
    owners = place.owners()
    assert owners.token() == token(1)
    owners.renew()
    assert owners.token() == token(2)
    assert place.mark(token(1)).exists()


@pytest.mark.parametrize("word", ["", "a" * 31, "A" * 32, "g" * 32, "a" * 33, "a" * 32 + "\n"])
def test_only_32_hexadecimal_characters_are_a_token(word: str) -> None:
    assert is_token(word) is False


def _close_descriptors(path: Path) -> None:
    """Let the holder of a lock file die: every descriptor of it is closed."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                os.close(int(name))
        except OSError:
            continue
