"""The intent is on the disk before the first byte of a batch leaves: the order of system calls.

A kill -9 cannot prove this, because the kernel keeps what a dead process wrote; a power loss would
not. So the calls themselves are watched: sync of the new file, rename, sync of the directory, and
only then the batch on a socket.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.agent.messages import first_words
from resilient_ov_chaos.cast import personas
from resilient_ov_chaos.targets.embedded import EmbeddedTarget, embedded
from resilient_ov_manager import OpenVikingMemoryManager

pytestmark = [pytest.mark.ci, pytest.mark.timeout(60)]

ALICE = personas("abc123")[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedTarget]:
    with embedded(tmp_path / "server") as target:
        yield target


class Watched:
    """The calls that matter, in order; a batch is noted with the state that is on disk then."""

    def __init__(self, storage: Path, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._storage = storage
        fsync, replace = os.fsync, os.replace

        def noted_fsync(descriptor: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            fsync(descriptor)
            self._note("sync", path)

        def noted_replace(source: Any, target: Any) -> None:
            replace(source, target)
            self._note("rename", Path(target))

        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(os, "replace", noted_replace)
        for name in ("send", "sendall"):
            patch.setattr(socket.socket, name, self._noted_send(getattr(socket.socket, name)))

    def _noted_send(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def noted(sock: socket.socket, data: Any, *rest: Any) -> Any:
            head = bytes(data).partition(b"\r\n")[0]
            if head.startswith(b"POST") and b"/messages" in head:
                self.calls.append("intent" if self._in_doubt() else "no intent")
                self.calls.append("batch")
            return send(sock, data, *rest)

        return noted

    def _in_doubt(self) -> bool:
        (state,) = (self._storage / "openviking" / "sessions").glob("*.json")
        return json.loads(state.read_text(encoding="utf-8"))["in_doubt"] is not None

    def _note(self, what: str, path: Path) -> None:
        if path.name == "sessions":
            self.calls.append(f"{what} directory")
        elif path.parent.name == "sessions":
            self.calls.append(f"{what} file")


ORDER = ["sync file", "rename file", "sync directory", "intent", "batch"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_intent_is_durable_before_the_first_byte_of_a_batch_leaves(
    colour: str, server: EmbeddedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_text(server.key)
    manager = OpenVikingMemoryManager.from_config(
        {
            "base_url": f"http://{server.address}",
            "account": server.account,
            "api_key_file": str(key),
            "storage_path": str(tmp_path / "storage"),
        },
        metrics_registry=CollectorRegistry(),
    )
    with monkeypatch.context() as patch:
        watched = Watched(tmp_path / "storage", patch)
        for turn in range(1, 3):
            add(manager, colour, ALICE, turn)
    manager.close()
    calls = watched.calls
    batches = [n for n, call in enumerate(calls) if call == "batch"]
    assert len(batches) == 2, calls
    for at in batches:
        assert calls[at - 4 : at + 1] == ORDER, calls


def add(manager: OpenVikingMemoryManager, colour: str, who: Persona, turns: int) -> None:
    messages = [m for turn in range(turns) for m in first_words(who)]
    for turn, each in enumerate(messages):
        each.id = f"m{turn}"
        each.content = f"{each.content} {turn}"
    owner = {"user_id": who.user, "agent_name": who.agent}
    if colour == "sync":
        manager.add("thread", messages, **owner)
    else:
        asyncio.run(manager.aadd("thread", messages, **owner))
