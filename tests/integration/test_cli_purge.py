"""`resilient-ov purge`: the person is gone, stays gone, and nobody else is touched."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import REGISTRY
from typer.testing import CliRunner

from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_manager.cli import app
from resilient_ov_manager.purging.local_side import Held
from resilient_ov_manager.purging.run import erase
from resilient_ov_manager.purging.server_side import ServerSide
from resilient_ov_manager.terminal import CommandError
from tests.integration.namespace_world import As

KEY = "purge-test-key"
Purge = Callable[..., tuple[int, str, str]]


class World:
    """A server, a gateway and the configuration both use."""

    def __init__(self, folder: Path, server: EmbeddedServer, http: httpx.Client) -> None:
        self.server = server
        self.http = http
        self.raw: dict[str, Any] = {
            "base_url": server.url,
            "account": "acme",
            "api_key_env": "PURGE_TEST_KEY",
            "storage_path": str(folder / "storage"),
            "budgets": {"add_seconds": 10, "search_seconds": 10},
        }
        self.storage = folder / "storage"
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(self.raw))
        self.manager = OpenVikingMemoryManager.from_config(self.raw)

    def on_server(self, user: str, agent: str | None = None) -> As:
        hashed = openviking_user(scope("acme", user, agent))
        return As(self.http, "acme", hashed, key=KEY)

    def add(self, user: str, *texts: str, agent: str | None = None) -> None:
        """Present a thread of user messages and wait until it is extracted."""
        messages = [
            SimpleNamespace(
                type="human", content=text, id=f"m{n}", additional_kwargs={}, tool_calls=[]
            )
            for n, text in enumerate(texts)
        ]
        self.manager.add("thread-1", messages, user_id=user, agent_name=agent)

    def extracted(self, user: str) -> None:
        for session in self.sessions(user):
            while any(
                task["status"] in {"pending", "running"}
                for task in self.on_server(user).result(
                    "GET", "/tasks", params={"resource_id": session}
                )
            ):
                pass

    def sessions(self, user: str, agent: str | None = None) -> list[str]:
        listed = self.on_server(user, agent).result("GET", "/sessions")
        return [entry["session_id"] for entry in listed]

    def total(self, user: str) -> int:
        ids = self.sessions(user)
        metas = [self.on_server(user).result("GET", f"/sessions/{one}") for one in ids]
        return sum(meta["total_message_count"] for meta in metas)

    def waiting(self) -> int:
        """Messages that the gateway says to have in its memory."""
        files = (self.storage / "openviking" / "status").glob("*.json")
        return sum(json.loads(file.read_text())["waiting"] for file in files)

    def switch(self, mode: str) -> None:
        """Switch writes, and wait until the gateway follows."""
        words = ("switch", "write", mode, "--storage", str(self.storage))
        assert CliRunner().invoke(app, words).exit_code == 0
        time.sleep(1.5)

    @staticmethod
    def until(condition: Callable[[], bool]) -> None:
        until_s = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < until_s
            time.sleep(0.05)

    def found(self, user: str, query: str) -> list[str]:
        return [hit["content"] for hit in self.manager.search(query, user_id=user)]


@pytest.fixture
def delay_s() -> float:
    return 0.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float) -> Iterator[World]:
    monkeypatch.setenv("PURGE_TEST_KEY", KEY)
    settings = EmbeddedSettings(
        data_dir=tmp_path / "server", root_key=KEY, extraction_delay_s=delay_s
    )
    with EmbeddedServer(settings) as server, httpx.Client(base_url=server.url) as http:
        made = World(tmp_path, server, http)
        yield made
        made.manager.close()


def purged_messages() -> float:
    told = REGISTRY.get_sample_value("openviking_messages_dropped_total", {"reason": "purged"})
    assert told is not None
    return told


def purge(world: World, *arguments: str, user: str = "alice") -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ("purge", "--config", str(world.config), "--user", user, *arguments)
    )
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def test_a_person_is_erased_and_stays_erased(world: World) -> None:
    world.add("alice", "I like tea.", "I live in Oslo.")
    world.add("bob", "I like tea.")
    for user in ("alice", "bob"):
        world.extracted(user)
    assert world.found("alice", "tea")

    code, shown, told = purge(world, "--yes")
    assert (code, told) == (0, "")
    assert "1 sessions" in shown
    assert "state of 1 sessions kept as digests only" in shown
    assert "Name custom agents with --agent" in shown
    assert world.sessions("alice") == []
    assert world.found("alice", "tea") == []
    assert world.found("bob", "tea") == ["User likes tea."]

    world.add("alice", "I like tea.", "I live in Oslo.")
    assert world.sessions("alice") == []
    world.add("alice", "I like tea.", "I live in Oslo.", "I like cake.")
    assert world.total("alice") == 1
    world.extracted("alice")
    assert world.found("alice", "likes") == ["User likes cake."]


def test_a_second_run_finds_nothing(world: World) -> None:
    world.add("alice", "I like tea.")
    world.extracted("alice")
    assert purge(world, "--yes")[0] == 0
    code, shown, _ = purge(world, "--yes")
    assert code == 0
    assert "0 sessions, 0 running extractions and 0 memory folders erased" in shown


def test_agents_are_erased_by_name(world: World) -> None:
    world.add("alice", "I like tea.", agent="researcher")
    assert purge(world, "--yes")[0] == 0
    assert len(world.sessions("alice", "researcher")) == 1
    code, shown, _ = purge(world, "--yes", "--agent", "researcher")
    assert code == 0
    assert world.sessions("alice", "researcher") == []
    assert "Name custom agents" not in shown


def test_forgetting_says_what_then_happens_and_it_does(world: World) -> None:
    world.add("alice", "I like tea.", "I live in Oslo.")
    code, shown, _ = purge(world, "--yes", "--forget")
    assert code == 0
    assert "state of 1 sessions removed" in shown
    assert "stores that whole thread again" in shown
    world.add("alice", "I like tea.", "I live in Oslo.")
    assert world.total("alice") == 2


def test_without_yes_nothing_is_erased(world: World) -> None:
    world.add("alice", "I like tea.")
    code, _, told = purge(world)
    assert code == 2
    assert "nothing was erased" in told
    assert world.total("alice") == 1


@pytest.mark.parametrize("delay_s", [30.0])
def test_a_running_extraction_is_ended_first(world: World) -> None:
    world.add("alice", "I like tea.")
    code, shown, _ = purge(world, "--yes")
    assert code == 0
    assert "1 running extractions" in shown
    assert world.sessions("alice") == []


def test_a_run_that_died_is_finished_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("alice", "I like tea.")
    world.extracted("alice")

    def dies(_: ServerSide) -> None:
        raise CommandError("the power went out")

    with monkeypatch.context() as broken:
        broken.setattr(ServerSide, "delete_memories", dies)
        assert purge(world, "--yes")[0] == 2
    assert world.found("alice", "tea")
    # The state is marked already: a gateway that goes on stores nothing old again.
    world.add("alice", "I like tea.")
    assert world.sessions("alice") == []
    assert purge(world, "--yes")[0] == 0
    assert world.found("alice", "tea") == []


@pytest.mark.parametrize("known", [True, False], ids=["a known thread", "an unknown thread"])
def test_a_running_gateway_drops_what_waits_and_counts_it(world: World, known: bool) -> None:
    world.add("alice" if known else "bob", "I like tea.")
    world.switch("forced_open")
    world.add("alice", "I like tea.", "I live in Oslo.")
    waiting = 1 if known else 2
    world.until(lambda: world.waiting() == waiting)
    before = purged_messages()

    code, shown, told = purge(world, "--yes")
    assert (code, told) == (0, "")
    assert "gateways dropped what waited for 1 sessions" in shown
    assert world.waiting() == 0
    assert purged_messages() - before == waiting
    world.switch("normal")
    world.add("alice", "I like tea.", "I live in Oslo.")
    assert world.sessions("alice") == []
    world.add("alice", "I like tea.", "I live in Oslo.", "I like cake.")
    world.until(lambda: world.total("alice") == 1)


def test_what_waits_for_others_is_left_alone_and_does_not_hold_it_back(world: World) -> None:
    world.add("alice", "I like tea.")
    world.switch("forced_open")
    world.add("bob", "I like tea.")
    world.until(lambda: world.waiting() == 1)
    code, shown, _ = purge(world, "--yes")
    assert code == 0
    assert "gateways dropped" not in shown
    assert world.waiting() == 1
    world.switch("normal")
    world.until(lambda: world.total("bob") == 1)


def test_what_keeps_coming_back_is_told() -> None:
    class Endless:
        def sessions(self) -> tuple[str, ...]:
            return ("s",)

        def open_tasks(self, session: str) -> tuple[str, ...]:
            return ()

        def memories(self) -> int:
            return 0

        def delete_session(self, session: str) -> None:
            return

    class Nothing:
        def sessions_of(self, user: str) -> tuple[str, ...]:
            return ()

        def held(self, user: str) -> dict[str, Held]:
            return {}

        def gateways(self) -> bool:
            return False

    server: Any = Endless()
    local: Any = Nothing()
    with pytest.raises(CommandError, match="keep coming back"):
        erase(server, local, "df_x", forget=False)


def test_a_task_that_never_ends_is_told() -> None:
    class Stuck:
        cancelled: tuple[str, ...] = ()

        def sessions(self) -> tuple[str, ...]:
            return ("s",)

        def memories(self) -> int:
            return 0

        def open_tasks(self, session: str) -> tuple[str, ...]:
            return ("t",)

        def cancel(self, task: str) -> None:
            self.cancelled += (task,)

    class Nothing:
        def sessions_of(self, user: str) -> tuple[str, ...]:
            return ()

        def held(self, user: str) -> dict[str, Held]:
            return {}

        def gateways(self) -> bool:
            return False

    time_s = [0.0]

    def sleep(seconds: float) -> None:
        time_s[0] += seconds

    server: Any = Stuck()
    local: Any = Nothing()
    with pytest.raises(CommandError, match="1 extraction tasks did not end within 120 s"):
        erase(server, local, "df_x", forget=False, sleep=sleep, now=lambda: time_s[0])
    assert server.cancelled == ("t",)


def test_a_gateway_that_does_not_drop_is_told() -> None:
    class Busy:
        ordered = 0

        def sessions_of(self, user: str) -> tuple[str, ...]:
            return ()

        def held(self, user: str) -> dict[str, Held]:
            return {"s": Held(None, ("token",))}

        def gateways(self) -> bool:
            return True

        def have_dropped(self, user: str, session: str, held: Held) -> bool:
            self.ordered += 1
            return False

    time_s = [0.0]

    def sleep(seconds: float) -> None:
        time_s[0] += seconds

    server: Any = None
    local: Any = Busy()
    with pytest.raises(CommandError, match="messages of 1 sessions still wait in gateways"):
        erase(server, local, "df_x", forget=False, sleep=sleep, now=lambda: time_s[0])
    assert local.ordered > 1


def test_a_batch_in_doubt_is_waited_for_and_erased_when_it_arrives() -> None:
    class Late:
        """A session that comes once more while the purge waits."""

        def __init__(self) -> None:
            self.there = ["s"]

        def sessions(self) -> tuple[str, ...]:
            return tuple(self.there)

        def memories(self) -> int:
            return 0

        def open_tasks(self, session: str) -> tuple[str, ...]:
            return ()

        def delete_session(self, session: str) -> None:
            self.there.remove(session)

    class Doubting:
        def sessions_of(self, user: str) -> tuple[str, ...]:
            return ("s",)

        def held(self, user: str) -> dict[str, Held]:
            return {}

        def gateways(self) -> bool:
            return False

        def mark(self, session: str) -> bool:
            return True

    server: Any = Late()
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        server.there.append("late")

    local: Any = Doubting()
    erased = erase(server, local, "df_x", forget=False, settle_s=5.0, sleep=sleep)
    assert waited == [5.0]
    assert (server.there, erased.sessions) == ([], 2)


@pytest.mark.parametrize(
    ("changes", "arguments", "problem"),
    [
        ({"server_profile": "namespace"}, (), "not in this version for server_profile namespace"),
        ({"auth_mode": "api_key", "owner_user_id": "bob", "account": None}, (), "one API key"),
        ({}, ("--agent", "not an agent"), "agent_name must be"),
        ({"retrieval": {"top_k": 0}}, (), "retrieval.top_k"),
    ],
)
def test_a_wrong_input_is_told(
    world: World, changes: dict[str, Any], arguments: tuple[str, ...], problem: str
) -> None:
    raw = {name: value for name, value in (world.raw | changes).items() if value is not None}
    world.config.write_text(yaml.safe_dump(raw))
    code, shown, told = purge(world, "--yes", *arguments)
    assert (code, shown) == (2, "")
    assert problem in told


def test_a_server_that_is_away_is_exit_1(world: World) -> None:
    world.config.write_text(yaml.safe_dump(world.raw | {"base_url": "http://127.0.0.1:1"}))
    code, _, told = purge(world, "--yes")
    assert code == 1
    assert "could not be reached" in told
    assert "goes on where it stopped" in told


def test_a_refused_key_is_exit_1(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURGE_TEST_KEY", "wrong-key-4711")
    code, _, told = purge(world, "--yes")
    assert code == 1
    assert "answered 401 to GET. Check the key" in told
    assert "4711" not in told
