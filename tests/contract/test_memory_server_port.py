"""The promises of ``MemoryServer``, in both colours, on the scripted and the embedded server."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    BatchReceipt,
    Command,
    CommitReceipt,
    CommitSession,
    CreateSession,
    EnsureSession,
    Evidence,
    Failure,
    FailureKind,
    GetSession,
    GetTask,
    Health,
    Identity,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    ServerHealth,
    SessionInfo,
    StoredPage,
    Success,
    TaskStatus,
    WireMessage,
)
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.domain.ports import AsyncMemoryServer, Attempt, MemoryServer
from resilient_ov.domain.recall import ServerHit
from resilient_ov.embedded.serve import EmbeddedServer
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.settings import AuthMode, AuthSettings, Settings
from resilient_ov.testing.scripted_server import ScriptedServer

KEY = "contract-key"
NOBODY = Identity(user=None)
_numbers = itertools.count(1)


class Colour:
    """A memory server of one colour, driven from a test."""

    def __init__(self, settings: Settings, key: str | None) -> None:
        self.settings = settings
        self.key = key

    def send(self, command: Command, *, budget_s: float = 10.0) -> Answer:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def value(self, command: Command) -> Any:
        answer = self.send(command)
        assert isinstance(answer, Success), answer
        return answer.value

    def failure(self, command: Command) -> Failure:
        answer = self.send(command)
        assert isinstance(answer, Failure), answer
        return answer


def attempt(command: Command, budget_s: float) -> Attempt:
    return Attempt(
        command=command,
        deadline_s=time.monotonic() + budget_s,
        request_id=f"req-{next(_numbers)}",
        trace_id="trace-1",
    )


class Sync(Colour):
    def __init__(self, settings: Settings, key: str | None) -> None:
        super().__init__(settings, key)
        self.server: MemoryServer = HttpxMemoryServer(settings, key=lambda: self.key)

    def send(self, command: Command, *, budget_s: float = 10.0) -> Answer:
        return self.server.send(attempt(command, budget_s))

    def close(self) -> None:
        self.server.close()


class Async(Colour):
    def __init__(self, settings: Settings, key: str | None) -> None:
        super().__init__(settings, key)
        self.server: AsyncMemoryServer = AsyncHttpxMemoryServer(settings, key=lambda: self.key)
        self.runner = asyncio.Runner()

    def send(self, command: Command, *, budget_s: float = 10.0) -> Answer:
        return self.runner.run(self.server.send(attempt(command, budget_s)))

    def close(self) -> None:
        self.runner.run(self.server.aclose())
        self.runner.close()


@contextmanager
def scripted(_folder: Path) -> Iterator[str]:
    with ScriptedServer(key=KEY) as server:
        yield server.url


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    settings = EmbeddedSettings(data_dir=folder, auth=AuthMode.TRUSTED, root_key=KEY)
    with EmbeddedServer(settings) as server:
        yield server.url


@pytest.fixture(scope="module", params=[scripted, embedded], ids=lambda place: place.__name__)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with request.param(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Callable[..., Colour]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def server(url: str, colour: Callable[..., Colour]) -> Iterator[Colour]:
    settings = Settings(base_url=url, storage_path=Path(), auth=AuthSettings(account="acme"))
    found = colour(settings, KEY)
    yield found
    found.close()


class Scene:
    """One user's session that no other test touches."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.me = Identity(user=f"df_user{number}")
        self.session_id = f"df_session{number}"

    def add(self, *texts: str) -> AddMessages:
        return AddMessages(
            identity=self.me,
            session_id=self.session_id,
            messages=tuple(
                WireMessage(role="user", content=text, source_ids=(f"h-{text}", f"df1-{text}"))
                for text in texts
            ),
        )

    def ensure(self) -> EnsureSession:
        return EnsureSession(identity=self.me, session_id=self.session_id)

    def get(self) -> GetSession:
        return GetSession(identity=self.me, session_id=self.session_id)

    def commit(self) -> CommitSession:
        return CommitSession(identity=self.me, session_id=self.session_id)

    def read(self, *, archive: int | None = None, offset: int = 0, limit: int = 50) -> ReadMessages:
        return ReadMessages(
            identity=self.me,
            session_id=self.session_id,
            archive=archive,
            offset=offset,
            limit=limit,
        )

    def find(self, query: str, *targets: str) -> Search:
        return Search(
            identity=self.me,
            query=query,
            targets=targets or (memories_uri(),),
            limit=8,
            score_threshold=0.55,
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def marks(*texts: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"h-{text}", f"df1-{text}") for text in texts)


def test_anonymous_health_asks_for_nothing(server: Colour) -> None:
    found = server.value(Health(identity=NOBODY))
    assert found == ServerHealth(version="0.5.2", user=None)


def test_health_with_an_identity_proves_the_key(server: Colour, scene: Scene) -> None:
    assert server.value(Health(identity=scene.me)).user == scene.me.user
    server.key = "wrong"
    failure = server.failure(Health(identity=scene.me))
    assert (failure.kind, failure.status) == (FailureKind.AUTH, 401)


def test_ensure_is_idempotent(server: Colour, scene: Scene) -> None:
    fresh = SessionInfo(total_messages=0, live_messages=0, commit_count=0)
    assert server.value(scene.ensure()) == fresh
    assert server.value(scene.ensure()) == fresh


def test_creating_an_existing_session_is_a_conflict(server: Colour, scene: Scene) -> None:
    create = CreateSession(
        identity=scene.me, session_id=scene.session_id, memory_types=("preferences",)
    )
    assert server.value(create) is None
    failure = server.failure(create)
    assert (failure.kind, failure.status) == (FailureKind.CLIENT_ERROR, 409)
    assert (failure.code, failure.enveloped) == ("ALREADY_EXISTS", True)


def test_missing_session_is_not_found(server: Colour, scene: Scene) -> None:
    for command in (scene.get(), scene.read(), scene.commit()):
        failure = server.failure(command)
        assert (failure.kind, failure.status) == (FailureKind.CLIENT_ERROR, 404)
        assert failure.evidence is Evidence.ANSWERED


def test_batches_are_stored_in_order_and_twice_if_sent_twice(server: Colour, scene: Scene) -> None:
    assert server.value(scene.add("a", "b")) == BatchReceipt(live_messages=2, added=2)
    assert server.value(scene.add("b", "c")) == BatchReceipt(live_messages=4, added=2)
    assert server.value(scene.read()) == StoredPage(lines=marks("a", "b", "b", "c"))
    assert server.value(scene.get()) == SessionInfo(
        total_messages=4, live_messages=4, commit_count=0
    )


def test_pages_count_lines(server: Colour, scene: Scene) -> None:
    server.value(scene.add("a", "b", "c"))
    assert server.value(scene.read(offset=1, limit=1)) == StoredPage(lines=marks("b"))
    assert server.value(scene.read(offset=3)) == StoredPage(lines=())


def test_every_character_comes_back_as_one_line(server: Colour, scene: Scene) -> None:
    texts = ("a\nb", "\u2028", "茶🍵", '"\\', "\t")
    server.value(scene.add(*texts))
    assert server.value(scene.read()) == StoredPage(lines=marks(*texts))


def test_commit_archives_and_a_second_one_is_skipped(server: Colour, scene: Scene) -> None:
    server.value(scene.add("a", "b"))
    receipt = server.value(scene.commit())
    assert isinstance(receipt, CommitReceipt)
    assert (receipt.accepted, receipt.archive) == (True, 1)
    assert receipt.task_id is not None
    skipped = server.value(scene.commit())
    assert (skipped.accepted, skipped.task_id, skipped.archive) == (False, None, None)
    assert server.value(scene.read()) == StoredPage(lines=())
    assert server.value(scene.read(archive=1)) == StoredPage(lines=marks("a", "b"))
    assert server.value(scene.get()) == SessionInfo(
        total_messages=2, live_messages=0, commit_count=1
    )


def test_archives_are_listed_in_order(server: Colour, scene: Scene) -> None:
    for text in ("a", "b"):
        server.value(scene.add(text))
        server.value(scene.commit())
    listing = ListArchives(identity=scene.me, session_id=scene.session_id)
    assert server.value(listing) == (1, 2)
    assert server.failure(scene.read(archive=3)).status == 404


def test_extraction_can_be_followed_until_its_end(server: Colour, scene: Scene) -> None:
    server.value(scene.add("I prefer green tea."))
    task_id = server.value(scene.commit()).task_id
    end_s = time.monotonic() + 20
    while server.value(GetTask(identity=scene.me, task_id=task_id)).status in {
        TaskStatus.PENDING,
        TaskStatus.RUNNING,
    }:
        assert time.monotonic() < end_s
    (task,) = server.value(ListTasks(identity=scene.me, session_id=scene.session_id))
    assert (task.task_id, task.status) == (task_id, TaskStatus.COMPLETED)
    hits: tuple[ServerHit, ...] = ()
    while not hits:
        assert time.monotonic() < end_s
        hits = server.value(scene.find("prefer green tea"))
    assert "green tea" in hits[0].text
    assert (hits[0].level, 0.55 < hits[0].score <= 1) == (2, True)


def test_unknown_task_is_not_found(server: Colour, scene: Scene) -> None:
    assert server.failure(GetTask(identity=scene.me, task_id="nope")).status == 404


def test_user_without_memories_finds_nothing(server: Colour, scene: Scene) -> None:
    assert server.value(scene.find("anything")) == ()
    assert (
        server.value(scene.find("anything", memories_uri("profile"), memories_uri("events"))) == ()
    )


def test_another_users_memories_are_refused(server: Colour, scene: Scene) -> None:
    foreign = memories_uri().replace("~", "user/df_other")
    failure = server.failure(scene.find("anything", foreign))
    assert (failure.kind, failure.status) == (FailureKind.AUTH, 403)


def test_users_do_not_see_each_others_sessions(server: Colour, scene: Scene) -> None:
    server.value(scene.add("a"))
    foreign = GetSession(identity=Identity(user="df_other"), session_id=scene.session_id)
    assert server.failure(foreign).status == 404


def test_too_many_messages_are_refused_as_a_whole(server: Colour, scene: Scene) -> None:
    failure = server.failure(scene.add(*(str(number) for number in range(101))))
    assert (failure.kind, failure.status) == (FailureKind.CLIENT_ERROR, 400)
    assert failure.invalid_indices == ()
    assert server.failure(scene.get()).status == 404


def test_wrong_and_missing_keys_are_refused(server: Colour, scene: Scene) -> None:
    for key in ("wrong", None):
        server.key = key
        failure = server.failure(scene.ensure())
        assert (failure.kind, failure.status) == (FailureKind.AUTH, 401)
        assert not failure.provider_fault


def test_success_carries_its_status(server: Colour, scene: Scene) -> None:
    answer = server.send(scene.ensure())
    assert isinstance(answer, Success)
    assert answer.status == 200


def test_spent_deadline_sends_nothing(server: Colour, scene: Scene) -> None:
    answer = server.send(scene.add("a"), budget_s=0.0)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.evidence) == (FailureKind.TIMEOUT, Evidence.NOT_SENT)
    assert (answer.wire_s, answer.byte_received) == (0.0, False)
    assert server.failure(scene.get()).status == 404


def test_closed_server_may_be_closed_and_used_again(
    url: str, colour: Callable[..., Colour], scene: Scene
) -> None:
    settings = Settings(base_url=url, storage_path=Path(), auth=AuthSettings(account="acme"))
    found = colour(settings, KEY)
    for _ in range(2):
        assert found.value(scene.ensure()).total_messages == 0
        if isinstance(found, Sync):
            found.close()
            found.close()
        elif isinstance(found, Async):
            found.runner.run(found.server.aclose())
            found.runner.run(found.server.aclose())
    found.close()
