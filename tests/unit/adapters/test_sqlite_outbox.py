import errno
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from resilient_ov.adapters import sqlite_outbox_schema as schema
from resilient_ov.adapters.sqlite_outbox import SqliteOutbox
from resilient_ov.domain.ports import OutboxError, StateUnwritableError
from resilient_ov.domain.waiting import Parcel
from tests.contract.test_outbox_port import OTHER, SESSION, adopt_all, keep, parcel


def outbox(place: Path, owner: str = "me", living: tuple[str, ...] = ()) -> SqliteOutbox:
    return SqliteOutbox(place, owner=lambda: owner, lives=lambda token: token in (owner, *living))


def bytes_in(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())


def test_reading_makes_no_file(tmp_path: Path) -> None:
    found = outbox(tmp_path / "openviking")
    assert (found.depth().messages, found.entries(), found.erase("df_user")) == (0, (), 0)
    assert adopt_all(found) == []
    assert not (tmp_path / "openviking").exists()


def test_every_file_is_the_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        made = outbox(tmp_path / "openviking")
        seen: list[int] = []

        def look(_: str) -> Parcel:
            seen.extend(stat.S_IMODE(path.stat().st_mode) for path in made.file.parent.iterdir())
            return parcel("one")

        made.keep([SESSION], look)
        made.keep([SESSION], look)
    finally:
        os.umask(mask)
    assert len(seen) > 2
    assert set(seen) == {0o600}
    assert stat.S_IMODE(made.file.parent.stat().st_mode) == 0o700


def test_nothing_but_the_database_is_left_between_two_operations(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    assert [path.name for path in made.file.parent.iterdir()] == ["outbox.sqlite3"]


def test_a_text_that_no_longer_waits_leaves_no_trace_in_any_file(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    secret, longer = "a very private thing", "another private thing " * 2000
    keep(made, parcel(secret, longer, "stays"), parcel("stays too", session_id=OTHER))
    assert secret.encode() in bytes_in(tmp_path)
    keep(made, parcel("stays"))
    held = bytes_in(tmp_path)
    assert b"private thing" not in held
    assert b"stays too" in held
    made.keep([SESSION, OTHER], lambda _: None)
    assert b"stays" not in bytes_in(tmp_path)


def test_a_text_that_was_removed_while_another_process_read_goes_with_the_next_keep(
    tmp_path: Path,
) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("a very private thing"))
    reader = sqlite3.connect(made.file)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM message").fetchone()
    made.keep([SESSION], lambda _: None)
    reader.execute("COMMIT")
    reader.close()
    keep(made, parcel("next", session_id=OTHER))
    assert b"private thing" not in bytes_in(tmp_path)


def test_the_file_shrinks_when_nothing_waits_any_more(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel(*("x" * 5000 + str(n) for n in range(100))))
    full = made.file.stat().st_size
    made.keep([SESSION], lambda _: None)
    assert made.file.stat().st_size < full / 10


def test_a_broken_file_is_kept_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    for number in range(6):
        made.file.write_bytes(b"broken in some way " * 300)
        with pytest.raises(OutboxError) as told:
            keep(made, parcel("two"))
        assert told.value.problem == "unreadable"
        assert keep(made, parcel("two")).messages == 1, number
    aside = sorted(path.name for path in made.file.parent.glob("*.corrupt-*"))
    assert aside == [f"outbox.sqlite3.corrupt-{n}" for n in range(4)]


def test_a_database_without_its_tables_is_broken(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    with sqlite3.connect(made.file) as database:
        database.execute("DROP TABLE parcel")
    database.close()
    with pytest.raises(OutboxError):
        made.depth()
    assert keep(made, parcel("two")).messages == 1


def test_a_file_that_was_replaced_meanwhile_is_left_alone(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    made._keep_aside(opened=made.file.stat().st_ino + 1)
    assert made.depth().messages == 1


def test_the_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    with sqlite3.connect(made.file) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(OutboxError) as told:
        keep(made, parcel("two"))
    assert told.value.problem == "unreadable"
    assert list(made.file.parent.glob("*.corrupt-*")) == []


def test_a_parcel_that_nobody_can_read_does_not_hold_up_the_others(tmp_path: Path) -> None:
    dead = outbox(tmp_path, "dead")
    keep(dead, parcel("one", since="2030-01-01T00:00:00Z"))
    keep(dead, parcel("two", session_id=OTHER, since="2030-01-02T00:00:00Z"))
    with sqlite3.connect(dead.file) as database:
        database.execute("UPDATE parcel SET shape = 'x' WHERE session = ?", (SESSION,))
    database.close()
    heir = outbox(tmp_path, "heir")
    assert [p.target.session_id for p in adopt_all(heir)] == [OTHER]
    assert [entry.owner for entry in heir.entries()] == [schema.NOBODY, "heir"]
    assert heir.erase("df_user") == 1


def test_a_place_of_nothing_but_unreadable_parcels_says_so_once(tmp_path: Path) -> None:
    dead = outbox(tmp_path, "dead")
    keep(dead, parcel("one"))
    with sqlite3.connect(dead.file) as database:
        database.execute("DELETE FROM message")
    database.close()
    heir = outbox(tmp_path, "heir")
    with pytest.raises(OutboxError) as told:
        heir.adopt(lambda left: left)
    assert told.value.problem == "unreadable"
    assert heir.adopt(lambda left: left) == 0


def test_many_parcels_are_adopted_in_slices(tmp_path: Path) -> None:
    dead, heir = outbox(tmp_path, "dead"), outbox(tmp_path, "heir")
    keep(dead, *(parcel("x" * 2_000_000, session_id=f"df_{n}") for n in range(6)))
    keep(dead, *(parcel("y", session_id=f"df_small_{n}") for n in range(100)))
    slices: list[int] = []
    while taken := heir.adopt(lambda left: left):
        slices.append(taken)
    assert sum(slices) == 106
    assert slices[0] == 2
    assert max(slices) == 64


def test_another_process_in_the_middle_of_a_change_is_waited_for_only_shortly(
    tmp_path: Path,
) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    other = sqlite3.connect(made.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutboxError) as told:
        keep(made, parcel("two"))
    assert told.value.problem == "busy"
    assert made.depth().messages == 1
    other.close()
    assert keep(made, parcel("two")).messages == 1


def test_a_thread_that_hangs_in_an_operation_is_waited_for_only_shortly(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    hanging, go_on = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        hanging.set()
        go_on.wait()

    thread = threading.Thread(target=made.keep, args=([SESSION], hang))
    thread.start()
    hanging.wait()
    with pytest.raises(OutboxError) as told:
        keep(made, parcel("two"))
    assert told.value.problem == "busy"
    go_on.set()
    thread.join()
    assert keep(made, parcel("two")).messages == 1


@pytest.mark.parametrize(
    ("number", "problem"),
    [(errno.ENOSPC, "no_space"), (errno.EACCES, "denied"), (errno.EIO, "io")],
)
def test_a_place_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "scripted")

    made = outbox(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(OutboxError) as told:
            keep(made, parcel("one"))
    assert told.value.problem == problem
    assert keep(made, parcel("one")).messages == 1


def test_a_full_database_keeps_what_it_has_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    prepare = schema.prepare

    def bounded(database: sqlite3.Connection) -> bool:
        prepared = prepare(database)
        database.execute("PRAGMA max_page_count = 12")
        return prepared

    with monkeypatch.context() as patch:
        patch.setattr(schema, "prepare", bounded)
        with pytest.raises(OutboxError) as told:
            keep(made, parcel("x" * 200_000))
        assert told.value.problem == "no_space"
        assert made.depth().messages == 1
    assert keep(made, parcel("x" * 200_000)).text_bytes > 200_000


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    made = outbox(tmp_path / "openviking")
    made.file.parent.mkdir(parents=True)
    made.file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutboxError):
        keep(made, parcel("one"))
    assert not (tmp_path / "elsewhere").exists()


def test_an_owner_without_a_mark_of_life_keeps_nothing(tmp_path: Path) -> None:
    def nobody() -> str:
        raise StateUnwritableError("denied")

    made = SqliteOutbox(tmp_path, owner=nobody, lives=lambda _: False)
    with pytest.raises(OutboxError) as told:
        keep(made, parcel("one"))
    assert told.value.problem == "denied"
    assert not made.file.exists()


def test_a_child_that_was_forked_in_the_middle_of_an_operation_does_without(
    tmp_path: Path,
) -> None:
    made = outbox(tmp_path)

    def forked(_: str) -> None:
        made.renew()  # what the child's copy does

    made.keep([SESSION], forked)
    with pytest.raises(OutboxError) as told:
        made.depth()
    assert told.value.problem == "forked"


def test_a_child_that_was_forked_between_two_operations_goes_on(tmp_path: Path) -> None:
    made = outbox(tmp_path)
    keep(made, parcel("one"))
    made.renew()
    assert made.depth().messages == 1


def test_an_error_without_a_number_is_one_of_the_disk() -> None:
    assert schema.problem_of(sqlite3.ProgrammingError()) == "io"
