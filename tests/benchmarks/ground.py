"""What the gates stand on: managers as a host makes them, turns as a host has them.

Rule: defaults everywhere, except what a gate's own bound speaks of.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager

KEY = "test-key"
os.environ["BENCHMARK_KEY"] = KEY
# Lines are made as ever; only the table shall be on the screen.
logging.getLogger("resilient_ov").addHandler(logging.NullHandler())
logging.getLogger("resilient_ov").propagate = False


def manager_at(url: str, storage: str | Path, **config: Any) -> OpenVikingMemoryManager:
    """Return a manager with the defaults, the key of the scripted server and ``config``."""
    return OpenVikingMemoryManager.from_config(
        {
            "base_url": url,
            "account": "bench",
            "api_key_env": "BENCHMARK_KEY",
            "storage_path": str(storage),
        }
        | config
    )


@contextlib.contextmanager
def managed(server: ScriptedServer, **config: Any) -> Iterator[OpenVikingMemoryManager]:
    """Give a manager in front of a scripted server, with a place of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        manager = manager_at(server.url, storage, **config)
        try:
            yield manager
        finally:
            manager.close()


def message(kind: str, text: str, name: str) -> Any:
    """Return a message as the host's framework makes it."""
    return SimpleNamespace(
        type=kind, content=text, id=name, name=None, additional_kwargs={}, tool_calls=[]
    )


def turn(number: int, *, chars: int = 40) -> list[Any]:
    """Return what the user said and what was answered."""
    pad = "x" * max(0, chars - 24)
    return [
        message("human", f"I like tea number {number} {pad}", f"h{number}"),
        message("ai", f"Noted, tea number {number} {pad}", f"a{number}"),
    ]


def breaker_state(manager: OpenVikingMemoryManager, group: str) -> str:
    """Return closed, half_open or open."""
    told = manager.status()["breakers"].get(group)
    return "closed" if told is None else str(told["state"])
