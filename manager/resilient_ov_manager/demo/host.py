"""The host of the demo: calls the memory manager as DeerFlow's event loop does, and times it.

Rule: only the manager's public methods are used. Each call runs on one event loop, as in the
gateway; between calls nothing of ours runs there.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from resilient_ov_manager.demo.conversation import HostMessage, Talk, keep_hidden
from resilient_ov_manager.demo.stage import Call

if TYPE_CHECKING:
    from resilient_ov_manager.manager import OpenVikingMemoryManager

R = TypeVar("R")

RAISED = "raised"


def build_manager(raw: Mapping[str, Any]) -> "OpenVikingMemoryManager":
    """Build the manager from a `backend_config`, with the host's hook."""
    return manager_class().from_config(dict(raw), should_keep_hidden_message=keep_hidden)


def manager_class() -> "type[OpenVikingMemoryManager]":
    """Return the manager without importing DeerFlow, which takes up to a minute.

    Its base class is then the recorded contract, as on a machine without DeerFlow.
    """
    modules = cast("dict[str, Any]", sys.modules)
    absent = "deerflow" not in modules
    if absent:
        modules["deerflow"] = None
    try:
        from resilient_ov_manager.manager import OpenVikingMemoryManager
    finally:
        if absent:
            del modules["deerflow"]
    return OpenVikingMemoryManager


class Host:
    """Makes calls one after the other and keeps a record of each."""

    def __init__(self, manager: "OpenVikingMemoryManager", runner: asyncio.Runner) -> None:
        self._manager = manager
        self._runner = runner
        self.calls: list[Call] = []

    def inject(self, talk: Talk) -> str:
        """Ask for the text that a new thread of this user and agent would be given."""
        return self._timed(
            "aget_context",
            talk.speaker,
            lambda: self._manager.aget_context(talk.user, agent_name=talk.agent),
            lambda text: f"{len(text.splitlines()) - 1} memories" if text else "no memory",
            instead="",
        )

    def search(self, talk: Talk, query: str) -> list[dict[str, Any]]:
        """Search the memory of this user and agent."""
        return self._timed(
            "asearch",
            talk.speaker,
            lambda: self._manager.asearch(query, user_id=talk.user, agent_name=talk.agent),
            lambda hits: f"{len(hits)} hits" if hits else "no hit",
            instead=[],
        )

    def add(self, talk: Talk, messages: list[HostMessage]) -> None:
        """Present a thread at the end of a turn."""
        self._timed(
            "aadd",
            talk.speaker,
            lambda: self._manager.aadd(
                talk.thread, list(messages), user_id=talk.user, agent_name=talk.agent
            ),
            lambda _: "returned",
            instead=None,
        )

    def compact(self, talk: Talk, removed: list[HostMessage]) -> None:
        """Hand over what a compaction is about to remove, on the loop and without waiting."""

        async def hand_over() -> None:
            self._manager.add_nowait(
                talk.thread, list(removed), user_id=talk.user, agent_name=talk.agent
            )

        self._timed(
            "add_nowait",
            talk.speaker,
            hand_over,
            lambda _: f"hands over {len(removed)}",
            instead=None,
        )

    def pending(self) -> int:
        """Return how many messages wait to be delivered."""
        waiting: int = self._manager.status()["pending"]["writes"]
        return waiting

    def breakers(self) -> dict[str, str]:
        """Return the state of each circuit breaker."""
        told = self._manager.status()["breakers"]
        return {group: str(breaker["state"]) for group, breaker in told.items()}

    def leave(self, timeout_s: float) -> bool:
        """Shut down as the gateway does; True = nothing is left."""
        return self._manager.shutdown_flush(timeout_s)

    def _outcomes(self) -> Counter[str]:
        calls: dict[str, int] = self._manager.status()["calls"]
        return Counter(calls)

    def _timed(
        self,
        name: str,
        speaker: str,
        begin: Callable[[], Awaitable[R]],
        saw: Callable[[R], str],
        *,
        instead: R,
    ) -> R:
        """Make one call; an error, which the host must never get, is recorded."""

        async def run() -> tuple[R, str, float]:
            began_s = time.perf_counter()
            try:
                result = await begin()
                told = saw(result)
            except Exception as error:  # noqa: BLE001 - whatever comes is what the demo looks for
                result, told = instead, f"{RAISED} {type(error).__name__}"
            return result, told, time.perf_counter() - began_s

        before = self._outcomes()
        result, told, took_s = self._runner.run(run())
        ended = self._outcomes() - before
        self.calls.append(
            Call(
                name=name,
                speaker=speaker,
                took_s=took_s,
                outcome=", ".join(sorted(ended)) or "-",
                saw=told,
            )
        )
        return result
