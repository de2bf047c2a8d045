"""Servers and gateways of the cases, closed after each test."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from resilient_ov.adapters import transport
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.cases.rig import KEY, KEY_ENV, Gateway, Log, Make, config
from tests.unit.observability.spans import spans

__all__ = ["gateway", "log", "phases", "serve", "spans"]


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    """Start a scripted server."""
    made: list[ScriptedServer] = []

    def start(*rules: Rule, **rest: Any) -> ScriptedServer:
        made.append(ScriptedServer(*rules, **rest))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def gateway(
    serve: Callable[..., ScriptedServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Make a gateway of a server (or its URL); sections of the configuration by keyword."""
    monkeypatch.setenv(KEY_ENV, KEY)
    made: list[Gateway] = []

    def make(
        server: ScriptedServer | str,
        *,
        colour: str = "sync",
        storage: Path | None = None,
        hooks: dict[str, Any] | None = None,
        **given: Any,
    ) -> Gateway:
        url = server if isinstance(server, str) else server.url
        full = config(url, storage or tmp_path / "storage", given)
        made.append(Gateway(full, colour=colour, **(hooks or {})))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def log() -> Iterator[Log]:
    """Hear every logger at DEBUG; the test runner's own files would block an event loop."""
    found = Log()
    root, ours = logging.getLogger(), logging.getLogger("resilient_ov")
    before = root.level, ours.level
    files = [handler for handler in root.handlers if isinstance(handler, logging.FileHandler)]
    for handler in files:
        root.removeHandler(handler)
    for logger in (root, ours):
        logger.addHandler(found)
        logger.setLevel(logging.DEBUG)
    ours.propagate = False
    yield found
    ours.propagate = True
    for logger, level in zip((root, ours), before, strict=True):
        logger.removeHandler(found)
        logger.setLevel(level)
    for handler in files:
        root.addHandler(handler)


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float | None]]:
    """The phase timeouts of every request that our transports get to see, and what is `left`."""
    seen: list[dict[str, float | None]] = []
    begin = transport._begin

    def spy(request: httpx.Request, now: Callable[[], float]) -> Any:
        left_s = request.extensions[transport.DEADLINE] - now()
        seen.append({**request.extensions["timeout"], "left": left_s})
        return begin(request, now)

    monkeypatch.setattr(transport, "_begin", spy)
    return seen
