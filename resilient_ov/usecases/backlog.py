"""What waits to be delivered, per session, and when each session is due.

Rule: memory only and quick; one short lock, never held across a step. A message is held once:
lists of one session are merged. The order of a session is the order in which it was accepted.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from resilient_ov.domain.planning import Presentation, having_waited, merge
from resilient_ov.domain.waiting import Target

KeepHidden = Callable[[Mapping[str, object]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A list as the host gave it, copied but not yet read.

    ``presentation`` set = it was read already, and waits only behind others that were not.
    """

    target: Target
    messages: tuple[object, ...]
    keep_hidden: KeepHidden | None
    chars: int
    trace_id: str | None = None
    presentation: Presentation | None = None


@dataclass(slots=True)
class Waiting:
    """One session's waiting messages; an empty presentation = only a commit or a look is owed."""

    target: Target
    presentation: Presentation
    trace_id: str | None
    since_s: float
    due_s: float = 0.0
    tries: int = 0
    sending: bool = False
    added: list[Presentation] = field(default_factory=list[Presentation])


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much waits: messages and characters, sessions, lists not yet read, the oldest's age."""

    messages: int
    chars: int
    sessions: int
    unread: int
    oldest_since_s: float | None


class Backlog:
    """The memory outbox: bounded by calls and characters, ordered per session.

    The last quarter of both bounds is reserved for ``urgent`` hand-overs, whose messages the host
    will never present again.
    """

    def __init__(self, *, max_calls: int, max_chars: int) -> None:
        self._max_calls = max_calls
        self._max_chars = max_chars
        self._lock = threading.Lock()
        self._unread: deque[HandOver] = deque()
        self._sessions: dict[str, Waiting] = {}
        self._chars = 0

    def accept(self, hand_over: HandOver, *, urgent: bool) -> bool:
        """Take a list without reading it; False = full, nothing taken. Constant time."""
        with self._lock:
            if not self._room(hand_over.chars, urgent=urgent):
                return False
            self._unread.append(hand_over)
            self._chars += hand_over.chars
            return True

    def unread(self) -> HandOver | None:
        """Return the oldest list that was not read yet, without taking it."""
        with self._lock:
            return self._unread[0] if self._unread else None

    def read(self, hand_over: HandOver, presentation: Presentation, now_s: float) -> None:
        """Replace the oldest unread list by what it holds."""
        with self._lock:
            if not self._unread or self._unread[0] is not hand_over:
                return  # taken away meanwhile: a fork or a shutdown
            self._unread.popleft()
            self._chars -= hand_over.chars
            if presentation.fingerprints or hand_over.presentation is not None:
                self._merge(hand_over.target, presentation, hand_over.trace_id, now_s, now_s)

    def put(
        self,
        target: Target,
        presentation: Presentation,
        *,
        trace_id: str | None,
        now_s: float,
        due_s: float,
    ) -> bool:
        """Keep what a call could not deliver; False = full, nothing kept.

        An empty list (only a look or a commit is owed) is always kept.
        """
        with self._lock:
            owed = not presentation.fingerprints
            if not owed and not self._room(presentation.chars, urgent=False):
                return False
            if any(h.target.session_id == target.session_id for h in self._unread):
                # The order of a session is the order in which it was accepted.
                behind = HandOver(
                    target=target,
                    messages=(),
                    keep_hidden=None,
                    chars=presentation.chars,
                    trace_id=trace_id,
                    presentation=presentation,
                )
                self._unread.append(behind)
                self._chars += behind.chars
            else:
                self._merge(target, presentation, trace_id, now_s, due_s)
            return True

    def take(self, session_id: str) -> Waiting | None:
        """Begin a delivery of a session; nobody else gets it until ``give_back``."""
        with self._lock:
            waiting = self._sessions.get(session_id)
            if waiting is None or waiting.sending:
                return None
            waiting.sending = True
            return waiting

    def give_back(
        self, session_id: str, left: Presentation | None, *, due_s: float, tries: int
    ) -> None:
        """End a delivery: ``left`` None = all is done; else what still waits, due again then."""
        with self._lock:
            waiting = self._sessions.get(session_id)
            if waiting is None:
                return
            waiting.sending = False
            self._chars -= waiting.presentation.chars
            if left is None and not waiting.added:
                del self._sessions[session_id]
                return
            kept = Presentation() if left is None else left
            for newer in waiting.added:
                self._chars -= newer.chars
                kept = merge(kept, newer)
            waiting.added.clear()
            self._chars += kept.chars
            waiting.presentation = kept
            waiting.due_s = 0.0 if left is None else due_s
            waiting.tries = 0 if left is None else tries

    def due(self, now_s: float) -> tuple[str, ...]:
        """Return the sessions that are due and not being sent, the longest waiting first."""
        with self._lock:
            ready = [
                (w.since_s, s)
                for s, w in self._sessions.items()
                if not w.sending and w.due_s <= now_s
            ]
        return tuple(session for _, session in sorted(ready))

    def next_due_s(self) -> float | None:
        """Return when the next session is due; None = nothing waits that is not being sent."""
        with self._lock:
            return min((w.due_s for w in self._sessions.values() if not w.sending), default=None)

    def hurry(self, sessions: Iterable[str] | None = None) -> None:
        """Make sessions due now: all, or the named ones."""
        with self._lock:
            for session_id in self._sessions if sessions is None else sessions:
                if session_id in self._sessions:
                    self._sessions[session_id].due_s = 0.0

    def holds(self, session_id: str) -> bool:
        """Tell whether anything of the session waits, read or unread."""
        with self._lock:
            return session_id in self._sessions or any(
                h.target.session_id == session_id for h in self._unread
            )

    def more(self, session_id: str) -> bool:
        """Tell whether anything of the session came after what is being delivered."""
        with self._lock:
            waiting = self._sessions.get(session_id)
            return (waiting is not None and bool(waiting.added)) or any(
                h.target.session_id == session_id for h in self._unread
            )

    def targets(self) -> list[Target]:
        """Return every session of which anything waits, some of them perhaps twice."""
        with self._lock:
            return [w.target for w in self._sessions.values()] + [h.target for h in self._unread]

    def moving(self, session_id: str, now_s: float) -> bool:
        """Tell whether the session is being delivered, or is about to be."""
        with self._lock:
            waiting = self._sessions.get(session_id)
            if waiting is not None and (waiting.sending or waiting.due_s <= now_s):
                return True
            return any(h.target.session_id == session_id for h in self._unread)

    def depth(self) -> Depth:
        """Return how much waits."""
        with self._lock:
            waiting = list(self._sessions.values())
            messages = sum(
                len(w.presentation.fingerprints) + sum(len(a.fingerprints) for a in w.added)
                for w in waiting
            )
            return Depth(
                messages=messages + sum(map(_length, self._unread)),
                chars=self._chars,
                sessions=len(waiting),
                unread=len(self._unread),
                oldest_since_s=min((w.since_s for w in waiting), default=None),
            )

    def clear(self) -> int:
        """Drop everything; return how many messages that were."""
        messages = self.depth().messages
        with self._lock:
            self._unread.clear()
            self._sessions.clear()
            self._chars = 0
        return messages

    def _room(self, chars: int, *, urgent: bool) -> bool:
        share = 1.0 if urgent else 0.75
        calls = len(self._unread) + len(self._sessions)
        return calls < self._max_calls * share and self._chars + chars <= self._max_chars * share

    def _merge(
        self,
        target: Target,
        presentation: Presentation,
        trace_id: str | None,
        now_s: float,
        due_s: float,
    ) -> None:
        presentation = having_waited(presentation)
        waiting = self._sessions.get(target.session_id)
        if waiting is None:
            self._sessions[target.session_id] = Waiting(
                target, presentation, trace_id, since_s=now_s, due_s=due_s
            )
            self._chars += presentation.chars
            return
        waiting.trace_id = trace_id or waiting.trace_id
        if waiting.sending:
            # The list in flight is compared with its outcome first.
            waiting.added.append(presentation)
            self._chars += presentation.chars
            return
        self._chars -= waiting.presentation.chars
        waiting.presentation = merge(waiting.presentation, presentation)
        self._chars += waiting.presentation.chars
        # A turn of an unhealthy session must not shorten its back-off.
        waiting.due_s = max(waiting.due_s, due_s) if waiting.tries else min(waiting.due_s, due_s)


def _length(hand_over: HandOver) -> int:
    read = hand_over.presentation
    return len(hand_over.messages) if read is None else len(read.fingerprints)


def text_chars(messages: Iterable[object]) -> int:
    """Return the length of the messages' texts without reading what they mean."""
    return sum(map(_chars, messages))


def _chars(message: object) -> int:
    content: object
    if isinstance(message, Mapping):
        content = cast("Mapping[str, object]", message).get("content")
    else:
        content = getattr(message, "content", None)
    if isinstance(content, str):
        return len(content)
    return sum(map(_block_chars, cast("list[object]", content))) if isinstance(content, list) else 0


def _block_chars(block: object) -> int:
    text = cast("Mapping[str, object]", block).get("text") if isinstance(block, Mapping) else block
    return len(text) if isinstance(text, str) else 0
