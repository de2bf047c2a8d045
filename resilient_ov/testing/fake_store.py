"""What the in-memory OpenViking holds, and what tests look at and prepare. No I/O here."""

import re
import threading
from dataclasses import dataclass, field
from typing import Final

from resilient_ov.domain.namespace import unchecked_uri
from resilient_ov.testing.fake_wire import Json

_WORD: Final = re.compile(r"\w+")

Owner = tuple[str, str]
"""Account and user."""


@dataclass(slots=True)
class FakeSession:
    """What the server holds of one session; archives are in order, the first is number 1."""

    live: list[Json] = field(default_factory=list[Json])
    archives: list[list[Json]] = field(default_factory=list[list[Json]])
    tasks: list[str] = field(default_factory=list[str])
    memory_types: list[str] | None = None

    @property
    def everything(self) -> list[Json]:
        """All messages ever stored, in order."""
        return [message for archive in self.archives for message in archive] + self.live


@dataclass(frozen=True, slots=True)
class FakeMemory:
    """One memory; ``score`` None = by the words it shares with the query."""

    owner: Owner
    uri: str
    text: str
    score: float | None = None


class FakeStore:
    """Sessions, tasks and memories by owner. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[Owner, dict[str, FakeSession]] = {}
        self._tasks: dict[str, tuple[Owner, Json]] = {}
        self._memories: list[FakeMemory] = []
        self._made = 0

    def session(self, account: str, user: str, session_id: str) -> FakeSession | None:
        """Return what is stored of a session, None when it was never created."""
        with self._lock:
            return self._sessions.get((account, user), {}).get(session_id)

    def sessions(self) -> dict[tuple[str, str, str], FakeSession]:
        """Return every session by account, user and id."""
        with self._lock:
            return {
                (*owner, session_id): found
                for owner, by_id in self._sessions.items()
                for session_id, found in by_id.items()
            }

    def marks(self, session_id: str) -> list[str]:
        """Return the last source id of every message stored under that id, in order."""
        return [
            (message.get("source_message_ids") or [""])[-1]
            for (_, _, found_id), session in self.sessions().items()
            if found_id == session_id
            for message in session.everything
        ]

    def remember(
        self,
        account: str,
        user: str,
        text: str,
        *,
        category: str = "preferences",
        score: float | None = None,
    ) -> str:
        """Put a memory in place and return its address."""
        with self._lock:
            uri = f"{unchecked_uri('user', user, 'memories', category, self._next('m'))}.md"
            self._memories.append(FakeMemory((account, user), uri, text, score))
            return uri

    def forget_session(self, account: str, user: str, session_id: str) -> None:
        """Lose a session, as a restored backup would."""
        with self._lock:
            self._sessions.get((account, user), {}).pop(session_id, None)

    def fail_tasks(self) -> None:
        """Turn every task into a failed one."""
        with self._lock:
            for _, task in self._tasks.values():
                task["status"] = "failed"

    def _next(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}{self._made:06d}"


def score_of(memory: FakeMemory, query: str) -> float:
    """Return (0.5, 1]: 0.5 means unrelated, as on the real server."""
    if memory.score is not None:
        return memory.score
    asked = {word.lower() for word in _WORD.findall(query)}
    known = {word.lower() for word in _WORD.findall(memory.text)}
    return 0.5 + 0.5 * len(asked & known) / max(1, len(asked))
