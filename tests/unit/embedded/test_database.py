import asyncio
import sqlite3
from pathlib import Path

import pytest

from resilient_ov.embedded.database import Database
from resilient_ov.settings.server import ServerProfile

V0_5 = ServerProfile.V0_5


def test_a_unit_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO accounts (account, created_at) VALUES ('a', 'now')")
        raise LookupError

    async def scenario() -> int:
        database = Database(tmp_path, V0_5)
        with pytest.raises(LookupError):
            await database.call(half)
        count = await database.call(
            lambda db: db.execute("SELECT count(*) FROM accounts").fetchone()[0]
        )
        database.close()
        return count

    assert asyncio.run(scenario()) == 0


def test_a_cancelled_caller_does_not_stop_its_unit(tmp_path: Path) -> None:
    async def scenario() -> int:
        database = Database(tmp_path, V0_5)
        started, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(db: sqlite3.Connection) -> None:
            loop.call_soon_threadsafe(started.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
            db.execute("INSERT INTO accounts (account, created_at) VALUES ('a', 'now')")

        caller = asyncio.create_task(database.call(slow))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go_on.set()
        count = await database.call(
            lambda db: db.execute("SELECT count(*) FROM accounts").fetchone()[0]
        )
        database.close()
        return count

    assert asyncio.run(scenario()) == 1


def test_a_folder_serves_one_server_at_a_time(tmp_path: Path) -> None:
    first = Database(tmp_path, V0_5)
    with pytest.raises(RuntimeError, match="another embedded server"):
        Database(tmp_path, V0_5)
    first.close()
    Database(tmp_path, V0_5).close()


def test_a_folder_keeps_the_profile_it_was_made_with(tmp_path: Path) -> None:
    Database(tmp_path, ServerProfile.NAMESPACE).close()
    with pytest.raises(RuntimeError, match=r"made with profile namespace.*another folder"):
        Database(tmp_path, V0_5)
    Database(tmp_path, ServerProfile.NAMESPACE).close()


def test_a_damaged_file_is_told_and_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "embedded.sqlite3").write_text("certainly no database at all" * 40)
    for _ in range(2):
        with pytest.raises(sqlite3.DatabaseError):
            Database(tmp_path, V0_5)
    held = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert [path for path in held if path.is_relative_to(tmp_path)] == []
