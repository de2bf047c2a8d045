"""A memory server of either colour in front of a scripted server."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    Failure,
    Identity,
    Search,
    Success,
    WireMessage,
)
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.domain.ports import Attempt
from resilient_ov.settings import AuthSettings, Settings

KEY = "test-key"
ME = Identity(user="df_me")
FIND = Search(
    identity=ME, query="green tea", targets=(memories_uri(),), limit=8, score_threshold=0.55
)
SOON_S = 10.0
"""A budget that a healthy call never needs."""

_numbers = itertools.count(1)


def add(text: str = "hello", *, session_id: str = "df_s") -> AddMessages:
    message = WireMessage(role="user", content=text, source_ids=(f"df1-{text[:20]}",))
    return AddMessages(identity=ME, session_id=session_id, messages=(message,))


def attempt(command: Command, budget_s: float = SOON_S, *, trace_id: str | None = None) -> Attempt:
    return Attempt(
        command=command,
        deadline_s=time.monotonic() + budget_s,
        request_id=f"req-{next(_numbers)}",
        trace_id=trace_id,
    )


def settings(url: str, **rest: Any) -> Settings:
    given: dict[str, Any] = {"auth": AuthSettings(account="acme"), "storage_path": Path()} | rest
    return Settings(base_url=url, **given)


class Client:
    """One colour; ``healed`` counts replaced pools."""

    def __init__(
        self,
        found: Settings,
        *,
        key: Callable[[], str | None] = lambda: KEY,
        resolver: Resolver | None = None,
    ) -> None:
        self.healed = 0
        self._make(found, key, resolver)

    def _heal(self) -> None:
        self.healed += 1

    def _make(
        self, found: Settings, key: Callable[[], str | None], resolver: Resolver | None
    ) -> None:
        raise NotImplementedError

    def send(self, command: Command, budget_s: float = SOON_S, **rest: Any) -> Answer:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def failure(self, command: Command, budget_s: float = SOON_S) -> Failure:
        answer = self.send(command, budget_s)
        assert isinstance(answer, Failure), answer
        return answer

    def value(self, command: Command, budget_s: float = SOON_S) -> Any:
        answer = self.send(command, budget_s)
        assert isinstance(answer, Success), answer
        return answer.value


class SyncClient(Client):
    def _make(
        self, found: Settings, key: Callable[[], str | None], resolver: Resolver | None
    ) -> None:
        self.server = HttpxMemoryServer(found, key=key, resolver=resolver, on_healed=self._heal)

    def send(self, command: Command, budget_s: float = SOON_S, **rest: Any) -> Answer:
        return self.server.send(attempt(command, budget_s, **rest))

    def close(self) -> None:
        self.server.close()


class AsyncClient(Client):
    def _make(
        self, found: Settings, key: Callable[[], str | None], resolver: Resolver | None
    ) -> None:
        self.server = AsyncHttpxMemoryServer(
            found, key=key, resolver=resolver, on_healed=self._heal
        )
        self.runner = asyncio.Runner()
        self.runner.get_loop()

    def send(self, command: Command, budget_s: float = SOON_S, **rest: Any) -> Answer:
        return self.runner.run(self.server.send(attempt(command, budget_s, **rest)))

    def close(self) -> None:
        self.runner.run(self.server.aclose())
        self.runner.close()


COLOURS: dict[str, type[Client]] = {"sync": SyncClient, "async": AsyncClient}
