"""Which request of which conversation is struck by which fault, and how often that happened.

Rule: a strike is counted by the server that made it, at the moment it did.
"""

import errno
import sys
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from resilient_ov.domain.identity import scope, session_id
from resilient_ov.testing.fake_wire import FakeRequest
from resilient_ov.testing.script import Route, Rule, route_of

_TOO_LATE_S = 1.5

PHASES: tuple[Route, ...] = ("ensure", "batch", "commit", "session", "content", "list")
"""The requests of a write; the last three are those of the read-back after a batch in doubt."""

REFUSED = "connection refused"

FAULTS: dict[str, dict[str, Any]] = {
    "closed after the answer": {"do": "ok_then_close"},
    "reset, no effect": {"do": "reset"},
    "answer cut, no effect": {"do": "truncate"},
    "closed, after the effect": {"do": "apply_then_drop"},
    "answer cut, after the effect": {"do": "apply_then_truncate"},
    "answer after the deadline": {"do": "apply_then_delay", "seconds": _TOO_LATE_S},
    # It lands a quarter of a second after the connection was closed, half the settle time.
    "lands late": {"do": "apply_late", "seconds": 0.25},
    "dripped beyond the deadline": {"do": "drip", "every_s": 0.2, "size": 8},
    "hang": {"do": "hang"},
    "HTML with status 200": {"do": "status", "code": 200, "html": True},
    "429": {"do": "status", "code": 429},
    "500": {"do": "status", "code": 500},
    "502 of a proxy": {"do": "status", "code": 502, "html": True},
    "503": {"do": "status", "code": 503},
    "503 of a proxy": {"do": "status", "code": 503, "html": True},
    "504 of a proxy": {"do": "status", "code": 504, "html": True},
}


@dataclass(slots=True)
class Write:
    """One write and what strikes it: (request, fault), in this order."""

    number: int
    strikes: deque[tuple[Route, str]]
    prelude: bool
    texts: list[str] = field(default_factory=list[str])

    @property
    def thread(self) -> str:
        return f"thread-{self.number}"


class Plan:
    """Which conversation is struck by what next, and what has struck so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._strikes: dict[str, deque[tuple[Route, str]]] = {}
        self.struck: Counter[tuple[Route, str]] = Counter()

    def rules(self) -> list[Rule]:
        """Return the server's script: each fault where the plan says so."""
        return [
            Rule(on="any", when=partial(self._strikes_now, name), **how)
            for name, how in FAULTS.items()
        ]

    def begin(self, write: Write) -> None:
        """Let the next requests of a conversation be struck."""
        with self._lock:
            self._strikes[session_of(write.thread)] = write.strikes

    def hit(self, phase: Route, fault: str) -> None:
        """Count a strike."""
        with self._lock:
            self.struck[phase, fault] += 1

    def _strikes_now(self, fault: str, request: FakeRequest) -> bool:
        conversation = conversation_in(request)
        with self._lock:
            strikes = self._strikes.get(conversation)
            if not strikes or strikes[0] != (route_of(request), fault):
                return False
            self.struck[strikes.popleft()] += 1
            return True


def session_of(thread: str) -> str:
    """Return the server's name of a conversation."""
    return session_id(scope("bench", "someone", None), thread)


def conversation_in(request: FakeRequest) -> str:
    places = request.path.split("/") + request.query.get("uri", "").split("/")
    return next((place for place in places if place.startswith("df_") and len(place) == 55), "")


class Refusals:
    """Refuses connects to some ports while told to: what the kernel says of a closed port."""

    def __init__(self) -> None:
        self.ports: set[int] = set()
        self.refused: Counter[int] = Counter()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and arguments[1][1] in self.ports:
            self.refused[arguments[1][1]] += 1
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
