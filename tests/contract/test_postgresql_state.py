"""What only a database shared by hosts has: leases, fences, its own outages, rights and versions.

A peer that died or was paused is played by moving its lease into the past, by the database's clock.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import cast

import psycopg
import pytest

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.postgresql_database import Database, DatabaseError, Dsn
from resilient_ov.adapters.postgresql_schema import MIGRATIONS, SCHEMA_VERSION, TABLES, migrate
from resilient_ov.adapters.postgresql_watermark_store import PostgresqlWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import Loaded, StateUnwritableError, Workers
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.workers import ManualWorkers
from tests.postgresql import Schema, Server

SESSION = "df_s"


def state(total: int, **changes: object) -> Watermark:
    return Watermark(
        session_id=SESSION,
        openviking_user="df_user",
        account="deerflow",
        server_id="0123",
        server_profile="0.5",
        server_total=total,
        **cast("dict[str, str]", changes),
    )


class World:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.schema: Schema = server.schema()
        self.pool = WorkerPool(threads=2, waiting=16)
        self.stores: list[PostgresqlWatermarkStore] = []

    def store(
        self, *, workers: Workers | None = None, write_s: float = 2.0, spare_s: float = 60.0
    ) -> PostgresqlWatermarkStore:
        made = PostgresqlWatermarkStore(
            Dsn(self.schema.gateway),
            dice=SystemDice(),
            workers=workers or self.pool,
            write_s=write_s,
            settle_s=0.5,
            spare_s=spare_s,
        )
        self.stores.append(made)
        return made

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.admin(statement, schema=self.schema.name)

    def die(self, store: PostgresqlWatermarkStore) -> None:
        """Let the lease run out; the process does not know."""
        self.sql(
            "UPDATE resilient_ov_owners SET lease_until = now() - interval '1 second'"
            f" WHERE token = '{store.lease.current}'"
        )

    def end(self) -> None:
        for store in self.stores:
            store.close()
        self.pool.close()


@pytest.fixture
def world(postgresql: Server) -> Iterator[World]:
    made = World(postgresql)
    yield made
    made.end()


def until(true: Callable[[], bool], *, within_s: float = 10.0) -> None:
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def problem(run: Callable[[], object]) -> str:
    with pytest.raises(StateUnwritableError) as raised:
        run()
    return raised.value.problem


def refusal(run: Callable[[], object]) -> str:
    with pytest.raises(DatabaseError) as raised:
        run()
    return raised.value.problem


# -- lease and fence ---------------------------------------------------------------------------


def test_a_session_of_a_living_owner_is_not_taken(world: World) -> None:
    first, second = world.store(), world.store()
    with first.session(SESSION) as held, second.session(SESSION) as other:
        assert held.open() is not None
        assert other.open() is None


def test_a_session_held_by_a_dead_peer_is_taken_over_and_its_intent_is_found(world: World) -> None:
    dead, heir = world.store(), world.store()
    with dead.session(SESSION) as held:
        held.open()
        held.save(state(3, pending_commit_since="2030-01-01T00:00:00.000Z"))
        world.die(dead)
        with heir.session(SESSION) as taken:
            loaded = taken.open()
            assert loaded is not None
            assert loaded.watermark is not None
            assert loaded.watermark.server_total == 3
            assert heir.unfinished() == (SESSION,)


def test_a_dead_owner_that_wakes_up_saves_nothing(world: World) -> None:
    paused, heir = world.store(), world.store()
    with paused.session(SESSION) as held:
        held.open()
        held.save(state(1))
        world.die(paused)
        assert problem(lambda: held.save(state(2))) == "taken_over"
        with heir.session(SESSION) as taken:
            assert taken.open() == Loaded(watermark=state(1, revision=1))


def test_a_late_save_does_not_overwrite_the_next_owner_even_with_a_lease_again(
    world: World,
) -> None:
    paused, heir = world.store(), world.store()
    with paused.session(SESSION) as held:
        held.open()
        token = paused.lease.current
        world.die(paused)
        with heir.session(SESSION) as taken:
            taken.open()
            taken.save(state(5))
        # Whatever gave the paused owner its lease back, the fence is another one.
        world.sql(
            f"UPDATE resilient_ov_owners SET lease_until = 'infinity' WHERE token = '{token}'"
        )
        assert problem(lambda: held.save(state(9))) == "taken_over"
    with heir.session(SESSION) as seen:
        until(lambda: seen.open() is not None)
        assert heir.persistent() is True


def test_a_dead_session_is_taken_over_by_exactly_one(world: World) -> None:
    dead = world.store()
    with dead.session(SESSION) as held:
        held.open()
        world.die(dead)
        heirs = [world.store() for _ in range(6)]
        for heir in heirs:
            heir.owner()
        visits = [heir.session(SESSION) for heir in heirs]
        units = [visit.__enter__() for visit in visits]
        found: list[Loaded | None] = []
        threads = [threading.Thread(target=lambda u=unit: found.append(u.open())) for unit in units]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(loaded is not None for loaded in found) == 1
        for visit in visits:
            visit.__exit__(None, None, None)


def test_the_fence_grows_at_each_visit(world: World) -> None:
    store = world.store()
    fences = []
    for _ in range(3):
        with store.session(SESSION) as unit:
            unit.open()
            fences += world.sql("SELECT fence FROM resilient_ov_sessions")
    assert fences == [(1,), (2,), (3,)]


def test_dead_stays_dead_and_the_process_becomes_another_owner(world: World) -> None:
    store, other = world.store(), world.store()
    token = store.owner()
    assert other.owner_lives(token) is True
    world.die(store)
    assert other.owner_lives(token) is False
    with store.session(SESSION) as unit:
        assert unit.open() == Loaded(watermark=None)
    assert store.owner() != token
    assert other.owner_lives(token) is False
    assert other.owner_lives(store.owner()) is True


def test_a_lease_is_renewed_while_its_process_lives(world: World) -> None:
    store, other = world.store(write_s=0.2, spare_s=0.6), world.store()
    token = store.owner()
    first_end_s = store.owned_until_s()
    until(lambda: store.owned_until_s() > first_end_s + 1.5)
    assert other.owner_lives(token) is True
    assert store.owner() == token


def test_who_leads_is_followed_when_its_lease_ends(world: World) -> None:
    first, second = world.store(), world.store()
    assert (first.lead(), second.lead()) == (True, False)
    world.die(first)
    assert second.lead() is True
    assert first.lead() is False


def test_what_is_owned_ends_before_the_lease_in_the_database_does(world: World) -> None:
    store = world.store()
    assert store.owned_until_s() == 0.0
    store.owner()
    now_s = time.monotonic()
    ((left_s,),) = world.sql(
        "SELECT extract(epoch FROM lease_until - clock_timestamp())::float8"
        " FROM resilient_ov_owners"
    )
    assert (
        60.0 < store.owned_until_s() - now_s <= cast("float", left_s) + (time.monotonic() - now_s)
    )


def test_an_owner_that_closed_is_dead_at_once(world: World) -> None:
    store, other = world.store(), world.store()
    token = store.owner()
    with store.session(SESSION) as unit:
        unit.open()
    store.close()
    assert other.owner_lives(token) is False
    with other.session(SESSION) as taken:
        assert taken.open() == Loaded(watermark=None)


def test_closing_leaves_an_open_visit_its_session(world: World) -> None:
    store, other = world.store(), world.store()
    with store.session(SESSION) as unit:
        unit.open()
        store.close()
        with other.session(SESSION) as asked:
            assert asked.open() is None
        unit.save(state(4))
    with other.session(SESSION) as asked:
        until(lambda: asked.open() is not None)


# -- leaving -----------------------------------------------------------------------------------


def test_leaving_asks_nothing_of_the_database_and_frees_this_process_at_once(world: World) -> None:
    workers = ManualWorkers()
    store, other = world.store(workers=workers), world.store()
    with store.session(SESSION) as unit:
        unit.open()
    assert workers.waiting() == 1
    with other.session(SESSION) as asked:
        assert asked.open() is None
    with store.session(SESSION) as again:
        assert again.open() == Loaded(watermark=None)
        # The first visit's give-back comes late and takes nothing from the second.
        workers.run_all()
        again.save(state(1))


def test_a_session_that_no_worker_gives_back_is_given_back_by_the_next_beat(world: World) -> None:
    store, other = world.store(workers=ManualWorkers(places=0)), world.store()
    with store.session(SESSION) as unit:
        unit.open()
    with other.session(SESSION) as asked:
        until(lambda: asked.open() is not None)


def test_a_visit_left_while_it_opens_keeps_nothing(world: World) -> None:
    store, other = world.store(), world.store()
    store.owner()
    visit = store.session(SESSION)
    unit = visit.__enter__()
    take = store.take

    def leave_then_take(session_id: str) -> object:
        visit.__exit__(None, None, None)
        return take(session_id)

    store.take = leave_then_take  # type: ignore[method-assign, assignment]
    unit.open()
    with other.session(SESSION) as asked:
        until(lambda: asked.open() is not None)


# -- the database goes -------------------------------------------------------------------------


def test_a_killed_database_is_told_at_once_and_used_again_when_it_is_back(world: World) -> None:
    store = world.store()
    with store.session(SESSION) as unit:
        unit.open()
        unit.save(state(7))
    world.server.kill()
    try:
        began_s = time.monotonic()
        with store.session(SESSION) as unit:
            assert problem(unit.open) == "unreachable"
        assert time.monotonic() - began_s < 2.0
        assert problem(store.probe) == "unreachable"
        assert problem(store.unfinished) == "unreachable"
        assert problem(lambda: store.owner_lives("0" * 32)) == "unreachable"
        assert store.lead() is False
        assert store.persistent() is False
    finally:
        world.server.start()
    with store.session(SESSION) as unit:
        assert unit.open() == Loaded(watermark=state(7, revision=1))
        unit.save(state(8))
    assert store.persistent() is True


def test_a_visit_goes_on_over_a_restart_of_the_database(world: World) -> None:
    store = world.store()
    with store.session(SESSION) as unit:
        unit.open()
        unit.save(state(1))
        world.server.kill()
        world.server.start()
        unit.save(state(2))
    with world.store().session(SESSION) as seen:
        until(lambda: seen.open() is not None)


def test_a_database_that_hangs_is_left_in_time_and_used_again(world: World) -> None:
    store = world.store(write_s=1.0)
    with store.session(SESSION) as unit:
        unit.open()
        world.server.freeze()
        try:
            began_s = time.monotonic()
            assert problem(lambda: unit.save(state(1))) == "late"
            assert time.monotonic() - began_s < 1.5
            assert problem(store.unfinished) == "unreachable"
            assert time.monotonic() - began_s < 6.0
        finally:
            world.server.thaw()
    # The save that was given up may have landed since; whatever did is whole.
    with store.session(SESSION) as unit:
        loaded = unit.open()
        assert loaded is not None
        assert loaded.watermark in (None, state(1, revision=1))
        unit.save(state(2))


def test_a_statement_behind_a_lock_ends_in_time(world: World) -> None:
    store, other = world.store(write_s=0.6), world.store()
    with store.session(SESSION) as unit:
        unit.open()
        unit.save(state(1))
        with psycopg.connect(world.schema.owner) as blocker:
            blocker.execute("SELECT 1 FROM resilient_ov_sessions FOR UPDATE")
            assert problem(lambda: unit.save(state(2))) == "late"
            with other.session(SESSION) as asked:
                assert asked.open() is None
            blocker.rollback()
        unit.save(state(3))


def test_connections_cut_by_an_operator_cost_nothing_but_a_retry(world: World) -> None:
    store = world.store()
    with store.session(SESSION) as unit:
        unit.open()
        world.server.admin(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'"
        )
        unit.save(state(1))
        assert store.persistent() is True


# -- rights, versions, secrets -----------------------------------------------------------------


def test_without_its_rights_a_gateway_is_denied_by_name(world: World) -> None:
    store = world.store()
    world.sql("REVOKE UPDATE ON resilient_ov_sessions FROM gateway")
    assert problem(store.probe) == "denied"


def test_the_documented_rights_do_not_let_a_gateway_change_a_table(world: World) -> None:
    database = Database(Dsn(world.schema.gateway), limit_s=5)
    assert refusal(lambda: database.run("DROP TABLE resilient_ov_sessions")) == "denied"
    assert refusal(lambda: database.run("UPDATE resilient_ov_schema SET version = 9")) == "denied"
    assert refusal(lambda: database.run("CREATE TABLE mine (a int)")) == "denied"
    database.close()


def test_a_database_without_tables_is_refused_by_name(postgresql: Server) -> None:
    bare = World(postgresql)
    bare.schema = postgresql.schema(migrated=False)
    assert problem(bare.store().probe) == "schema_missing"
    bare.end()


@pytest.mark.parametrize(
    ("version", "word"),
    [(SCHEMA_VERSION + 1, "schema_newer"), (SCHEMA_VERSION - 1, "schema_older")],
)
def test_tables_of_another_version_are_refused_by_name(
    world: World, version: int, word: str
) -> None:
    store = world.store()
    world.sql(f"UPDATE resilient_ov_schema SET version = {version}")
    with store.session(SESSION) as unit:
        assert problem(unit.open) == word


def test_migrating_twice_or_at_once_makes_the_tables_once(postgresql: Server) -> None:
    schema = postgresql.schema(migrated=False)
    databases = [Database(Dsn(schema.owner), limit_s=10) for _ in range(3)]
    done: list[tuple[int, int]] = []
    threads = [threading.Thread(target=lambda d=d: done.append(migrate(d))) for d in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [after for _, after in done] == [len(MIGRATIONS)] * 3
    assert migrate(databases[0]) == (SCHEMA_VERSION, SCHEMA_VERSION)
    made = postgresql.admin(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema.name}'")
    assert sorted(str(row[0]) for row in made) == sorted(f"resilient_ov_{name}" for name in TABLES)
    for database in databases:
        database.close()


def test_newer_tables_are_not_migrated(world: World) -> None:
    world.sql("UPDATE resilient_ov_schema SET version = 99")
    database = Database(Dsn(world.schema.owner), limit_s=10)
    assert refusal(lambda: migrate(database)) == "schema_newer"
    database.close()


CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    ("dsn", "word"),
    [
        ("postgresql://{canary}:{canary}@127.0.0.1:{port}/postgres", "denied"),
        ("postgresql://gateway:{canary}@127.0.0.1:{port}/{canary}", "denied"),
        ("postgresql://gateway:gateway-secret@127.0.0.1:{port}/{canary}", "unreachable"),
        ("postgresql//gateway:{canary}@{canary}", "dsn"),
        ("postgresql://gateway:{canary}@127.0.0.1:1/{canary}", "unreachable"),
        ("host=127.0.0.1 port={port} nonsense={canary}", "dsn"),
    ],
)
def test_no_part_of_the_address_is_told(
    postgresql: Server, dsn: str, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="resilient_ov")
    hidden = Dsn(dsn.format(canary=CANARY, port=postgresql.port))
    pool = WorkerPool(threads=1, waiting=1)
    store = PostgresqlWatermarkStore(
        hidden, dice=SystemDice(), workers=pool, write_s=2.0, settle_s=1.0
    )
    with store.session(SESSION) as unit, pytest.raises(StateUnwritableError) as raised:
        unit.open()
    assert raised.value.problem == word
    told = "".join(traceback.format_exception(raised.value)) + repr(hidden) + repr(raised.value)
    cause: BaseException | None = raised.value
    while cause is not None:
        told += repr(cause)
        cause = cause.__cause__ or cause.__context__
    assert CANARY not in told + caplog.text
    store.close()
    pool.close()
