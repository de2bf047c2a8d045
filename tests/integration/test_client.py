"""The facade without DeerFlow, in both colours, and the two examples that use it."""

import asyncio
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from resilient_ov import AsyncClient, Client, OpenVikingError
from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov.settings import Settings
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.host_config import settings_from_config

KEY = "client-test-key"
THREAD = [
    {"role": "user", "content": "I like tea in the morning.", "id": "m0"},
    {"role": "assistant", "content": "Noted.", "id": "m1"},
]
Call = Callable[..., Any]


class InColour:
    """One client; `call` runs a method of it in its colour."""

    def __init__(self, settings: Settings, colour: str, runner: asyncio.Runner) -> None:
        self.colour = colour
        self._runner = runner
        self._client = Client(settings) if colour == "sync" else AsyncClient(settings)

    def call(self, method: str, *arguments: Any, **more: Any) -> Any:
        result = getattr(self._client, method)(*arguments, **more)
        if self.colour == "async" and method != "add_nowait":
            return self._runner.run(self._awaited(result))
        return result

    def close(self) -> None:
        self.call("close" if self.colour == "sync" else "aclose")

    async def _awaited(self, result: Any) -> Any:
        return await result


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_TEST_KEY", KEY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder = tmp_path_factory.mktemp("client")
    with EmbeddedServer(EmbeddedSettings(data_dir=folder, root_key=KEY)) as made:
        yield made


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer(key=KEY) as made:
        yield made


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Call]:
    clients: list[InColour] = []
    with asyncio.Runner() as runner:

        def one(url: str, **more: Any) -> InColour:
            raw = {
                "base_url": url,
                "account": "acme",
                "api_key_env": "CLIENT_TEST_KEY",
                "storage_path": str(tmp_path / "state"),
                "budgets": {"add_seconds": 10, "search_seconds": 10, "get_context_seconds": 10},
                **more,
            }
            clients.append(InColour(settings_from_config(raw), request.param, runner))
            return clients[-1]

        yield one
        for client in clients:
            client.close()


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)


def test_what_is_added_is_recalled(make: Call, server: EmbeddedServer) -> None:
    client = make(server.url)
    user = f"alice-{client.colour}"
    assert client.call("warm") is True
    assert client.call("get_context", user_id=user) == ""
    client.call("add", "t1", THREAD, user_id=user)
    until(lambda: bool(client.call("search", "tea", user_id=user)))
    (hit,) = client.call("search", "tea", user_id=user, category="preferences")
    assert hit["content"] == "User likes tea in the morning."
    assert "likes tea" in client.call("get_context", user_id=user, query="tea")
    assert client.call("search", "tea", user_id=user, agent_name="other") == []


def test_a_thread_that_is_presented_again_stores_nothing(
    make: Call, scripted: ScriptedServer
) -> None:
    client = make(scripted.url)
    for _ in range(3):
        client.call("add", "t1", THREAD, user_id="alice")
    assert sum("batch" in seen.route for seen in scripted.requests) == 1


def test_a_hand_over_is_delivered_by_the_flush(make: Call, scripted: ScriptedServer) -> None:
    client = make(scripted.url)
    client.call("add_nowait", "t1", THREAD, user_id="alice")
    assert client.call("flush", 20.0) is True
    assert sum("batch" in seen.route for seen in scripted.requests) == 1


def test_a_server_that_is_away_raises_nothing(make: Call) -> None:
    client = make("http://127.0.0.1:1", startup_policy="warn")
    assert client.call("warm") is False
    assert client.call("get_context", user_id="alice") == ""
    assert client.call("search", "tea", user_id="alice") == []
    client.call("add", "t1", THREAD, user_id="alice")
    assert client.call("flush", 0.1) is False


def test_under_fail_fast_our_own_error_is_raised(make: Call, scripted: ScriptedServer) -> None:
    scripted.script(Rule(on="find", do="status", code=500))
    client = make(scripted.url, failure_policy={"read": "fail_fast"})
    with pytest.raises(OpenVikingError):
        client.call("search", "tea", user_id="alice")


def test_after_closing_reads_are_empty_and_nothing_raises(
    make: Call, scripted: ScriptedServer
) -> None:
    client = make(scripted.url)
    client.call("add", "t1", THREAD, user_id="alice")
    client.close()
    client.close()
    assert client.call("search", "tea", user_id="alice") == []


def test_contexts_flush(scripted: ScriptedServer, tmp_path: Path) -> None:
    raw = {
        "base_url": scripted.url,
        "account": "acme",
        "api_key_env": "CLIENT_TEST_KEY",
        "storage_path": str(tmp_path),
    }
    settings = settings_from_config(raw)
    with Client(settings) as client:
        client.add_nowait("t1", THREAD, user_id="alice")

    async def run() -> None:
        async with AsyncClient(settings) as other:
            other.add_nowait("t2", THREAD, user_id="alice")

    asyncio.run(run())
    assert sum("batch" in seen.route for seen in scripted.requests) == 2


def test_a_cancelled_flush_leaves_its_thread_alone(tmp_path: Path) -> None:
    raw = {
        "base_url": "http://127.0.0.1:1",
        "account": "acme",
        "api_key_env": "CLIENT_TEST_KEY",
        "storage_path": str(tmp_path),
    }

    settings = settings_from_config(raw)

    async def run() -> None:
        client = AsyncClient(settings)
        client.add_nowait("t1", THREAD, user_id="alice")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.flush(2.0), 0.05)
        await client.aclose()

    asyncio.run(run())


def test_a_missing_key_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_from_config(
        {
            "base_url": "http://127.0.0.1:1",
            "account": "acme",
            "api_key_env": "CLIENT_TEST_KEY",
            "storage_path": str(tmp_path),
        }
    )
    monkeypatch.delenv("CLIENT_TEST_KEY")
    with pytest.raises(ValueError, match="CLIENT_TEST_KEY"):
        Client(settings)


def test_a_forked_child_has_a_backend_of_its_own(scripted: ScriptedServer, tmp_path: Path) -> None:
    raw = {
        "base_url": scripted.url,
        "account": "acme",
        "api_key_env": "CLIENT_TEST_KEY",
        "storage_path": str(tmp_path),
        "budgets": {"add_seconds": 10},
    }
    client = Client(settings_from_config(raw))
    client.add("t1", THREAD, user_id="alice")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            client.add("t2", THREAD, user_id="alice")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    client.close()
    assert sum("batch" in seen.route for seen in scripted.requests) == 2


def example(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_web_example_remembers_its_users(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENVIKING_API_KEY", KEY)
    monkeypatch.setenv("OPENVIKING_URL", server.url)
    monkeypatch.setenv("CHAT_STATE", str(tmp_path))
    app = example("fastapi_chat").app

    async def run() -> tuple[Any, Any]:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://chat") as http,
        ):

            async def said(user: str, text: str) -> Any:
                body = {"user": user, "thread": "t1", "text": text}
                return (await http.post("/chat", json=body)).json()

            first = await said("alice", "I like tea in the morning.")
            again = await said("alice", "tea")
            while not again["known"]:
                await asyncio.sleep(0.05)
                again = await said("alice", "tea")
            stranger = await said("bob", "tea")
            return first, (again, stranger)

    first, (again, stranger) = asyncio.run(run())
    assert first["answer"] == "You said: I like tea in the morning."
    assert again["answer"].endswith("And I remember you.")
    assert stranger["known"] == ""


def test_the_graph_example_recalls_before_and_remembers_after(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    nodes = example("langgraph_nodes")
    settings = settings_from_config(
        {
            "base_url": server.url,
            "account": "graphs",
            "api_key_env": "CLIENT_TEST_KEY",
            "storage_path": str(tmp_path),
            "budgets": {"add_seconds": 10, "get_context_seconds": 10},
            "retrieval": {"score_threshold": 0.3},
        }
    )
    with Client(settings) as client:
        memory = nodes.MemoryNodes(client)
        state = {"user_id": "alice", "thread_id": "t1", "messages": [THREAD[0]], "memory": ""}
        assert memory.recall(state) == {"memory": ""}
        state |= nodes.answer(state)
        assert memory.remember(state) == {}
        until(lambda: "likes tea" in memory.recall(state)["memory"])
