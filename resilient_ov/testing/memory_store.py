"""A watermark store in memory, with several owners on one place, death and faults on demand.

Rule: it keeps the promises of the port (exclusive visits, revisions, markers, life of owners) and
does no I/O, so it never blocks.
"""

import re
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from types import TracebackType

from resilient_ov.domain.ports import Loaded, NewerStateError, StateUnwritableError
from resilient_ov.domain.watermark import Watermark

_SESSION_ID = re.compile(r"[a-z0-9_]{1,64}")


class MemoryPlace:
    """What the owners of one place share; give one to several stores to play several processes.

    ``open_problem`` and ``save_problem`` are the words of the ``StateUnwritableError`` that every
    open or save raises, None = healthy; ``saves`` counts the saves that wrote something.
    """

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.states: dict[str, Watermark] = {}
        self.unreadable: set[str] = set()
        self.newer: set[str] = set()
        self.markers: set[str] = set()
        self.holders: dict[str, _MemoryUnit] = {}
        self.owners: set[str] = set()
        self.leader: str | None = None
        self.open_problem: str | None = None
        self.save_problem: str | None = None
        self.saves = 0
        self._tokens = count(1)

    def fresh_token(self) -> str:
        """Return the next owner's token."""
        return f"{next(self._tokens):032x}"

    def break_state(self, session_id: str) -> None:
        """Make the state of a session unreadable."""
        with self.mutex:
            self.states.pop(session_id, None)
            self.unreadable.add(session_id)


class MemoryWatermarkStore:
    """Implements ``WatermarkStore`` for one owner of a place. Safe from any thread."""

    def __init__(self, place: MemoryPlace | None = None) -> None:
        self.place = place if place is not None else MemoryPlace()
        self._token: str | None = None
        self._persistent = True

    def session(self, session_id: str) -> AbstractContextManager["_MemoryUnit"]:
        """Return a visit; nothing is done before its ``open``."""
        if not _SESSION_ID.fullmatch(session_id):
            raise ValueError("a session id is 1 to 64 characters of a-z, 0-9 and _")
        return _MemoryUnit(self, session_id)

    def owner(self) -> str:
        """Return this owner's token; the owner lives from the first call on."""
        with self.place.mutex:
            if self._token is None:
                self.check(self.place.open_problem)
                self._token = self.place.fresh_token()
                self.place.owners.add(self._token)
            return self._token

    def owner_lives(self, token: str) -> bool:
        """Tell whether the owner with that token lives."""
        with self.place.mutex:
            return token in self.place.owners

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of sessions with something to settle or commit, sorted."""
        with self.place.mutex:
            return tuple(sorted(self.place.markers))

    def lead(self) -> bool:
        """Be the sweeper of this place if nobody else is."""
        token = self.owner()
        with self.place.mutex:
            if self.place.leader is None:
                self.place.leader = token
            return self.place.leader == token

    def persistent(self) -> bool:
        """Tell whether the last attempt to write succeeded."""
        return self._persistent

    def probe(self) -> None:
        """Find out whether a save would fail."""
        with self.place.mutex:
            self.check(self.place.open_problem)
            self.check(self.place.save_problem)
            self.succeeded()

    def close(self) -> None:
        """End this owner's life; what it holds in a visit stays held until the visit is left."""
        place = self.place
        with place.mutex:
            if self._token is None:
                return
            place.owners.discard(self._token)
            if place.leader == self._token:
                place.leader = None
            self._token = None

    def kill(self) -> None:
        """Let the process die: its marks and every session lock it held are gone at once."""
        place = self.place
        with place.mutex:
            for session_id, unit in list(place.holders.items()):
                if unit.store is self:
                    del place.holders[session_id]
            self.close()

    def check(self, problem: str | None) -> None:
        """Raise the scripted fault, if any, and remember it."""
        if problem is not None:
            self._persistent = False
            raise StateUnwritableError(problem)

    def succeeded(self) -> None:
        """Remember a successful write."""
        self._persistent = True


class _MemoryUnit:
    """One visit; see ``SessionUnit``."""

    def __init__(self, store: MemoryWatermarkStore, session_id: str) -> None:
        self.store = store
        self._place = store.place
        self._session_id = session_id
        self._left = False
        self._last: Watermark | None = None

    def __enter__(self) -> "_MemoryUnit":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._place.mutex:
            self._left = True
            if self._place.holders.get(self._session_id) is self:
                del self._place.holders[self._session_id]

    def open(self) -> Loaded | None:
        """Take the session's lock without waiting and load; None = held by another."""
        place = self._place
        with place.mutex:
            if place.holders.get(self._session_id) is self:
                raise RuntimeError("the visit is open already")
            if self._left or self._session_id in place.holders:
                return None
            self.store.check(place.open_problem)
            if self._session_id in place.newer:
                raise NewerStateError
            place.holders[self._session_id] = self
            repaired = self._session_id in place.unreadable
            place.unreadable.discard(self._session_id)
            self._last = place.states.get(self._session_id)
            return Loaded(watermark=self._last, repaired=repaired)

    def save(self, watermark: Watermark) -> None:
        """Keep the state, one revision higher, if anything but the revision changed."""
        place = self._place
        with place.mutex:
            if place.holders.get(self._session_id) is not self:
                raise RuntimeError("a save needs a visit that was opened and not left")
            last = self._last
            if last is not None and watermark == replace(last, revision=watermark.revision):
                return
            self.store.check(place.save_problem)
            revision = 1 if last is None else last.revision + 1
            self._last = replace(watermark, revision=revision)
            place.states[self._session_id] = self._last
            place.saves += 1
            if watermark.unfinished:
                place.markers.add(self._session_id)
            else:
                place.markers.discard(self._session_id)
            self.store.succeeded()
