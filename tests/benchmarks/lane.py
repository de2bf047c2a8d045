"""How the gates of the write path make writes, and what they ask the server afterwards.

Rule: a write is a list that the host presents in a call of the manager; nothing else is called.
"""

import time
from collections.abc import Iterable
from typing import Any

from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.ground import message
from tests.benchmarks.ledger import Ledger
from tests.benchmarks.strikes import Plan, Write, session_of

ADD_S = 1.0
_MOST_WAITING = 200
_LATEST_S = 600.0

CONFIG: dict[str, Any] = {
    "session": {"settle_seconds": 0.5},
    "budgets": {"add_seconds": ADD_S},
    "breaker": {
        "consecutive_failures": 1_000,
        "consecutive_timeouts": 1_000,
        "minimum_calls": 10_000,
    },
}


def steps_of(write: Write, plan: Plan, after: bool) -> Iterable[list[Any]]:
    """Yield the lists that the host presents, one after another; strikes begin in between."""
    shown: list[Any] = []

    def said(turn: int) -> list[Any]:
        for kind in ("human", "ai"):
            text = f"{kind} of {write.thread} in turn {turn}"
            write.texts.append(text)
            shown.append(message(kind, text, f"{write.thread}-{turn}-{kind}"))
        return list(shown)

    if write.prelude:
        yield said(0)
    plan.begin(write)
    yield said(1)
    if after:
        yield said(2)


class Lane:
    """A manager, its ledger, and how writes are made with it."""

    def __init__(self, manager: OpenVikingMemoryManager, plan: Plan, ledger: Ledger) -> None:
        self.manager = manager
        self.plan = plan
        self.ledger = ledger

    def add(self, write: Write, *, after: bool) -> None:
        """Make one write on this thread."""
        for shown in steps_of(write, self.plan, after):
            self.manager.add(write.thread, shown, user_id="someone")
            self._noted(write)

    async def aadd(self, write: Write, *, after: bool) -> None:
        """Make one write on this loop."""
        for shown in steps_of(write, self.plan, after):
            await self.manager.aadd(write.thread, shown, user_id="someone")
            self._noted(write)

    def _noted(self, write: Write) -> None:
        self.ledger.present(session_of(write.thread), write.texts)

    def until_roomy(self) -> None:
        """Wait while so much waits that the writer's queue could fill up."""
        while int(self.manager.status()["pending"]["writes"]) > _MOST_WAITING:
            time.sleep(0.05)

    def until_delivered(self) -> None:
        """Wait for the writer."""
        writer = self.manager._process.backend().writer
        end_s = time.monotonic() + _LATEST_S
        while not writer.idle():
            if time.monotonic() > end_s:
                raise SystemExit(f"not delivered after {_LATEST_S:g} s")
            time.sleep(0.01)


def stored_in(server: ScriptedServer) -> list[tuple[str, list[str]]]:
    """Return the texts of each conversation that the server holds."""
    return [
        (name, [stored["parts"][0]["text"] for stored in session.everything])
        for (_, _, name), session in server.store.sessions().items()
    ]
