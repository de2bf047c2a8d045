"""The main job end to end: DeerFlow-shaped turns through the manager to the embedded server."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resilient_ov.embedded.serve import EmbeddedServer
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov_manager import OpenVikingMemoryManager

KEY = "main-job-key-4711"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(EmbeddedSettings(data_dir=tmp_path / "server", root_key=KEY))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def manager(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenVikingMemoryManager]:
    monkeypatch.setenv("MAIN_JOB_KEY", KEY)
    made = OpenVikingMemoryManager.from_config(
        {
            "base_url": server.url,
            "account": "deerflow",
            "api_key_env": "MAIN_JOB_KEY",
            "storage_path": str(tmp_path / "storage"),
        }
    )
    yield made
    made.close()


def human(text: str, name: str) -> Any:
    return SimpleNamespace(type="human", content=text, id=name, additional_kwargs={}, tool_calls=[])


def ai(text: str, name: str) -> Any:
    return SimpleNamespace(type="ai", content=text, id=name, additional_kwargs={}, tool_calls=[])


def wait_for_memory(manager: OpenVikingMemoryManager, user: str, query: str) -> list[Any]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        hits = manager.search(query, user_id=user)
        if hits:
            return hits
        time.sleep(0.1)
    raise AssertionError("nothing was remembered")


TURN = [
    human("I prefer concise technical explanations.", "h1"),
    ai("Noted: concise and technical.", "a1"),
]


def test_a_turn_is_remembered_in_a_new_thread_and_only_for_its_user(
    manager: OpenVikingMemoryManager,
) -> None:
    assert manager.warm() is True
    manager.add("thread-1", TURN, user_id="alice")
    hits = wait_for_memory(manager, "alice", "how should explanations be written")
    assert any("concise technical explanations" in hit["content"] for hit in hits)
    assert "concise technical explanations" in manager.get_context("alice")
    assert manager.get_context("bob") == ""
    assert manager.get_context("alice", agent_name="researcher") == ""


def test_a_turn_on_an_event_loop_is_remembered(manager: OpenVikingMemoryManager) -> None:
    async def talk() -> str:
        await manager.aadd("thread-2", TURN, user_id="carol")
        end = time.monotonic() + 20
        while time.monotonic() < end:
            text = await manager.aget_context("carol")
            if text:
                return text
            await asyncio.sleep(0.1)
        return ""

    assert "concise technical explanations" in asyncio.run(talk())


def test_the_same_list_again_sends_nothing(
    manager: OpenVikingMemoryManager, server: EmbeddedServer
) -> None:
    manager.add("thread-3", TURN, user_id="dave")
    manager.add("thread-3", TURN, user_id="dave")
    assert manager.shutdown_flush(5.0) is True
