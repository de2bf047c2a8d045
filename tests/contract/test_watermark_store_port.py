"""The promises of ``WatermarkStore``, on the fake and on the file store."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import (
    Loaded,
    NewerStateError,
    StateUnwritableError,
    WatermarkStore,
)
from resilient_ov.domain.watermark import InDoubt, ReadBack, Watermark
from resilient_ov.testing.memory_store import MemoryPlace, MemoryWatermarkStore

SESSION = "df_" + "a" * 52
OTHER = "df_" + "b" * 52


def state(session_id: str = SESSION, **changes: object) -> Watermark:
    base = Watermark(
        session_id=session_id,
        openviking_user="df_user",
        account="deerflow",
        server_id="0123abcd",
        server_profile="0.5",
        server_total=3,
    )
    return replace(base, **changes)


def doubt(*digests: str) -> InDoubt:
    return InDoubt(
        id="d1",
        owner="0" * 32,
        digests=digests,
        total_before=1,
        newest_archive_before=0,
        read_back=ReadBack(owner="0" * 32, absent_looks=1, last_absent_end_s=12.5),
    )


class Place(Protocol):
    def store(self) -> WatermarkStore: ...

    def damage(self, session_id: str) -> None: ...

    def put_newer(self, session_id: str) -> None: ...

    @contextmanager
    def unwritable(self, problem: str) -> Iterator[None]: ...


class Memory:
    def __init__(self) -> None:
        self.place = MemoryPlace()

    def store(self) -> WatermarkStore:
        return MemoryWatermarkStore(self.place)

    def damage(self, session_id: str) -> None:
        self.place.break_state(session_id)

    def put_newer(self, session_id: str) -> None:
        self.place.newer.add(session_id)

    @contextmanager
    def unwritable(self, problem: str) -> Iterator[None]:
        self.place.save_problem = problem
        yield
        self.place.save_problem = None


class Files:
    def __init__(self, root: Path, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.workers = workers
        self.monkeypatch = monkeypatch

    def store(self) -> WatermarkStore:
        return FileWatermarkStore(
            self.root, dice=SystemDice(), workers=self.workers, on_lock_missing=lambda: None
        )

    def file(self, session_id: str) -> Path:
        return self.root / "openviking" / "sessions" / f"{session_id}.json"

    def damage(self, session_id: str) -> None:
        self.file(session_id).write_bytes(b"")

    def put_newer(self, session_id: str) -> None:
        self.file(session_id).parent.mkdir(parents=True, exist_ok=True)
        self.file(session_id).write_bytes(b'{"schema_version":3,"later":true}')

    @contextmanager
    def unwritable(self, problem: str) -> Iterator[None]:
        number = {"no_space": 28, "denied": 13, "io": 5}[problem]

        def refuse(descriptor: int) -> None:
            raise OSError(number, "scripted")

        with self.monkeypatch.context() as patch:
            patch.setattr(os, "fsync", refuse)
            yield


@pytest.fixture
def workers() -> Iterator[WorkerPool]:
    pool = WorkerPool(threads=2, waiting=8)
    yield pool
    pool.close()


@pytest.fixture(params=["memory", "files"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    workers: WorkerPool,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    return Memory() if request.param == "memory" else Files(tmp_path, workers, monkeypatch)


def load(store: WatermarkStore, session_id: str = SESSION) -> Loaded | None:
    with store.session(session_id) as unit:
        return unit.open()


def save(store: WatermarkStore, watermark: Watermark) -> None:
    with store.session(watermark.session_id) as unit:
        assert unit.open() is not None
        unit.save(watermark)


def test_a_session_never_seen_has_no_state(place: Place) -> None:
    assert load(place.store()) == Loaded(watermark=None, repaired=False)


def test_every_field_comes_back_to_another_owner(place: Place) -> None:
    whole = state(
        server_live=2,
        submitted=("1" * 32, "2" * 32),
        committed=("1" * 32,),
        prefix_count=4,
        prefix_digest="f" * 32,
        in_doubt=doubt("3" * 32),
        pending_commit_since="2030-01-01T00:00:00.000Z",
        last_commit_task_id="task",
        last_archive_uri="viking://session/x/history/archive_001",
        newest_archive=1,
        extra={"later": {"a": [1, None]}},
    )
    save(place.store(), whole)
    assert load(place.store()) == Loaded(watermark=replace(whole, revision=1))


def test_each_change_is_one_revision_and_no_change_is_none(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        unit.open()
        unit.save(state())
        unit.save(state(revision=77))
        unit.save(state(server_total=4))
    assert load(store) == Loaded(watermark=state(server_total=4, revision=2))
    save(store, state(server_total=4))
    assert load(store) == Loaded(watermark=state(server_total=4, revision=2))
    save(store, state(server_total=5, revision=0))
    assert load(store) == Loaded(watermark=state(server_total=5, revision=3))


def test_a_held_session_is_refused_at_once_and_free_after_leaving(place: Place) -> None:
    first, second = place.store(), place.store()
    with first.session(SESSION) as holder:
        assert holder.open() == Loaded(watermark=None)
        assert load(second) is None
        assert load(first) is None
        assert load(second, OTHER) == Loaded(watermark=None)
        holder.save(state())
    assert load(second) == Loaded(watermark=state(revision=1))
    assert load(first) == Loaded(watermark=state(revision=1))


def test_a_refused_visit_may_ask_again(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as late:
        with store.session(SESSION) as holder:
            holder.open()
            assert late.open() is None
        assert late.open() == Loaded(watermark=None)


def test_open_after_leaving_holds_nothing(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        pass
    assert unit.open() is None
    assert load(store) == Loaded(watermark=None)


def test_leaving_twice_does_not_free_the_next_visit(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as first:
        first.open()
    with store.session(SESSION) as second:
        assert second.open() is not None
        first.__exit__(None, None, None)
        assert load(store) is None


def test_save_needs_a_visit_that_was_opened_and_not_left(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        with pytest.raises(RuntimeError, match="a save needs a visit"):
            unit.save(state())
        unit.open()
    with pytest.raises(RuntimeError, match="a save needs a visit"):
        unit.save(state())
    assert load(store) == Loaded(watermark=None)


def test_a_visit_is_opened_once(place: Place) -> None:
    with place.store().session(SESSION) as unit:
        unit.open()
        with pytest.raises(RuntimeError, match="open already"):
            unit.open()
        unit.save(state())


@pytest.mark.parametrize("hostile", ["", "../x", "A", "a" * 65, "a.b", "a\n", "é", "a/b"])
def test_an_id_that_is_no_session_id_is_refused(place: Place, hostile: str) -> None:
    with pytest.raises(ValueError, match="session id"):
        place.store().session(hostile)


def test_unfinished_names_what_is_to_settle_or_commit(place: Place) -> None:
    store = place.store()
    assert store.unfinished() == ()
    save(store, state(OTHER, in_doubt=doubt()))
    save(store, state(SESSION, pending_commit_since="2030-01-01T00:00:00.000Z"))
    save(store, state("df_done"))
    assert place.store().unfinished() == (SESSION, OTHER)
    save(store, state(OTHER))
    assert store.unfinished() == (SESSION,)
    save(store, state(SESSION))
    assert store.unfinished() == ()


def test_an_unreadable_state_is_told_once_and_can_be_replaced(place: Place) -> None:
    store = place.store()
    save(store, state(pending_commit_since="2030-01-01T00:00:00.000Z"))
    place.damage(SESSION)
    assert load(store) == Loaded(watermark=None, repaired=True)
    assert load(store) == Loaded(watermark=None, repaired=False)
    save(store, state())
    assert load(store) == Loaded(watermark=state(revision=1))


def test_a_newer_state_is_refused_and_its_lock_is_free(place: Place) -> None:
    store = place.store()
    place.put_newer(SESSION)
    for _ in range(2):
        with store.session(SESSION) as unit, pytest.raises(NewerStateError):
            unit.open()


@pytest.mark.parametrize("problem", ["no_space", "denied", "io"])
def test_a_failed_save_changes_nothing_and_the_next_one_recovers(
    place: Place, problem: str
) -> None:
    store = place.store()
    assert store.persistent() is True
    save(store, state())
    with store.session(SESSION) as unit:
        unit.open()
        with place.unwritable(problem):
            with pytest.raises(StateUnwritableError) as raised:
                unit.save(state(server_total=9))
            assert raised.value.problem == problem
            assert store.persistent() is False
            unit.save(state())
            assert store.persistent() is False
        unit.save(state(server_total=9))
        assert store.persistent() is True
    assert load(store) == Loaded(watermark=state(server_total=9, revision=2))


def test_the_probe_fails_when_a_save_would(place: Place) -> None:
    store = place.store()
    store.probe()
    with place.unwritable("no_space"):
        with pytest.raises(StateUnwritableError) as raised:
            store.probe()
        assert raised.value.problem == "no_space"
        assert store.persistent() is False
    store.probe()
    assert store.persistent() is True


def test_a_visit_that_failed_to_save_frees_the_session(place: Place) -> None:
    store = place.store()
    with store.session(SESSION) as unit:
        unit.open()
        with place.unwritable("io"), pytest.raises(StateUnwritableError):
            unit.save(state())
    assert load(store) == Loaded(watermark=None)


def test_owners_are_told_apart_and_live_until_they_close(place: Place) -> None:
    first, second = place.store(), place.store()
    token = first.owner()
    assert len(token) == 32
    assert int(token, 16) >= 0
    assert first.owner() == token
    assert second.owner() != token
    assert first.owner_lives(token) is True
    assert second.owner_lives(token) is True
    first.close()
    first.close()
    assert second.owner_lives(token) is False


@pytest.mark.parametrize("token", ["", "f" * 32, "../../x", "0" * 31 + "\n"])
def test_a_token_nobody_holds_is_dead(place: Place, token: str) -> None:
    assert place.store().owner_lives(token) is False


def test_one_owner_leads_until_it_closes(place: Place) -> None:
    first, second = place.store(), place.store()
    assert first.lead() is True
    assert second.lead() is False
    assert first.lead() is True
    first.close()
    assert second.lead() is True
    assert first.lead() is False


def test_no_update_is_lost_between_threads_of_two_owners(place: Place) -> None:
    stores = [place.store(), place.store()]
    done = [0, 0]

    def add(index: int) -> None:
        while done[index] < 20:
            with stores[index].session(SESSION) as unit:
                loaded = unit.open()
                if loaded is None:
                    continue
                before = loaded.watermark
                total = 0 if before is None else before.server_total or 0
                unit.save(state(server_total=total + 1))
                done[index] += 1

    threads = [threading.Thread(target=add, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(stores[0]) == Loaded(watermark=state(server_total=40, revision=40))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "save", "leave", "damage", "close", "lead"]),
        st.integers(0, 1),
        st.sampled_from([SESSION, OTHER]),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=25,
)


def play(place: Place, steps: list[tuple[str, int, str, int, bool]]) -> list[object]:
    """Run the steps on two owners; return all that was returned or raised."""
    stores = [place.store(), place.store()]
    visits = {(who, sid): stores[who].session(sid) for who in (0, 1) for sid in (SESSION, OTHER)}
    units = {key: visit.__enter__() for key, visit in visits.items()}
    seen: list[object] = []
    for what, who, session_id, total, unfinished in steps:
        unit = units[who, session_id]
        try:
            if what == "open":
                seen.append(unit.open())
            elif what == "save":
                since = "2030-01-01T00:00:00.000Z" if unfinished else None
                unit.save(state(session_id, server_total=total, pending_commit_since=since))
                seen.append(stores[who].unfinished())
            elif what == "leave":
                visits[who, session_id].__exit__(None, None, None)
                visits[who, session_id] = stores[who].session(session_id)
                units[who, session_id] = visits[who, session_id].__enter__()
            elif what == "damage" and load(stores[who], session_id) not in (
                None,
                Loaded(watermark=None),
            ):
                place.damage(session_id)
            elif what == "lead":
                seen.append(stores[who].lead())
            elif what == "close":
                stores[who].close()
        except RuntimeError as error:
            seen.append(str(error)[:20])
    for visit in visits.values():
        visit.__exit__(None, None, None)
    for store in stores:
        store.close()
    return seen


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_fake_and_file_store_answer_alike(
    steps: list[tuple[str, int, str, int, bool]],
    tmp_path_factory: pytest.TempPathFactory,
    workers: WorkerPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Files(tmp_path_factory.mktemp("place"), workers, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        assert play(files, steps) == play(Memory(), steps)
