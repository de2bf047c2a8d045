"""An outbox in memory that several owners share, with death, faults and power loss on demand.

Rule: it keeps the promises of the port and does no I/O. What it keeps is packed and unpacked as a
real one does, so that nothing passes that could not be written down.
"""

import threading
from collections.abc import Callable, Collection

from resilient_ov.adapters.outbox_parcel import Packed, pack, unpack
from resilient_ov.domain.ports import OutboxError
from resilient_ov.domain.waiting import Kept, OutboxDepth, Parcel

Shelves = dict[tuple[str, str], Packed]


class OutboxPlace:
    """What the owners of one place share; give one to several outboxes to play several processes.

    ``problem`` is the word of the ``OutboxError`` that every method raises, None = healthy;
    ``syncs`` False = it lies: what was kept is gone after ``lose_power``.
    """

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.kept: Shelves = {}
        self.synced: Shelves = {}
        self.problem: str | None = None
        self.syncs = True
        self.generation = 1
        self.keeps = 0

    def lose_power(self) -> None:
        """Forget what was not synced."""
        with self.mutex:
            self.kept = dict(self.synced)

    def break_down(self) -> None:
        """Be found broken, and begun anew empty."""
        with self.mutex:
            self.kept, self.synced = {}, {}
            self.generation += 1

    def sync(self) -> None:
        """Make durable what is kept, unless it lies."""
        if self.syncs:
            self.synced = dict(self.kept)


class MemoryOutbox:
    """Implements ``Outbox`` for one owner of a place. Safe from any thread."""

    durable = True

    def __init__(
        self,
        place: OutboxPlace,
        *,
        owner: Callable[[], str],
        lives: Callable[[str], bool],
        at_once: int = 8,
    ) -> None:
        self.place = place
        self._owner = owner
        self._lives = lives
        self._at_once = at_once

    def keep(
        self, session_ids: Collection[str], waiting: Callable[[str], Parcel | None]
    ) -> OutboxDepth:
        """Keep what waits of these sessions, all or none."""
        with self.place.mutex:
            self._check()
            owner = self._owner()
            parcels = {session_id: waiting(session_id) for session_id in session_ids}
            for session_id, parcel in parcels.items():
                self._put(owner, session_id, parcel)
            self.place.sync()
            self.place.keeps += 1
            return self._depth()

    def adopt(self, take: Callable[[Parcel], Parcel | None]) -> int:
        """Take over what dead owners left, as long as there is room."""
        with self.place.mutex:
            self._check()
            owner = self._owner()
            left = [key for key in self._oldest_first() if not self._lives(key[0])]
            taken = 0
            for key in left[: self._at_once]:
                parcel = take(unpack(self.place.kept[key]))
                if parcel is None:
                    break
                del self.place.kept[key]
                self._put(owner, key[1], parcel)
                taken += 1
            self.place.sync()
            return taken

    def depth(self) -> OutboxDepth:
        """Return how much is kept in the whole place."""
        with self.place.mutex:
            self._check()
            return self._depth()

    def entries(self) -> tuple[Kept, ...]:
        """Return every parcel without its text."""
        with self.place.mutex:
            self._check()
            return tuple(
                Kept(
                    owner=owner,
                    session_id=session_id,
                    messages=len(packed.texts),
                    text_bytes=packed.text_bytes,
                    since_utc=packed.since_utc,
                )
                for owner, session_id in self._oldest_first()
                for packed in (self.place.kept[owner, session_id],)
            )

    def erase(self, user: str) -> int:
        """Remove what dead owners left for a user."""
        with self.place.mutex:
            self._check()
            gone = [
                k for k, p in self.place.kept.items() if p.user == user and not self._lives(k[0])
            ]
            erased = sum(len(self.place.kept.pop(key).texts) for key in gone)
            self.place.sync()
            return erased

    def close(self) -> None:
        """Release nothing: there is nothing to release."""

    def _check(self) -> None:
        if self.place.problem is not None:
            raise OutboxError(self.place.problem)

    def _put(self, owner: str, session_id: str, parcel: Parcel | None) -> None:
        if parcel is None:
            self.place.kept.pop((owner, session_id), None)
        else:
            self.place.kept[owner, session_id] = pack(parcel)

    def _oldest_first(self) -> list[tuple[str, str]]:
        kept = self.place.kept
        return sorted(kept, key=lambda key: (kept[key].since_utc, key))

    def _depth(self) -> OutboxDepth:
        kept = self.place.kept.values()
        return OutboxDepth(
            sessions=len(kept),
            messages=sum(len(packed.texts) for packed in kept),
            text_bytes=sum(packed.text_bytes for packed in kept),
            since_utc=min((packed.since_utc for packed in kept), default=None),
            generation=str(self.place.generation),
        )
