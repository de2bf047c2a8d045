"""Delivers in the background what the calls could not: every waiting session, until it is done.

Rule: only schedules and decides when to try again; the write path itself is ``Deliver``. It asks
the gate like everybody else, so it is the probe that finds the server back.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from resilient_ov import events
from resilient_ov.domain.messages import conversation
from resilient_ov.domain.planning import Presentation, present
from resilient_ov.domain.ports import Clock, Dice
from resilient_ov.domain.waiting import Target
from resilient_ov.usecases.backlog import Backlog, HandOver, Waiting
from resilient_ov.usecases.call import CallContext, origin_of
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.delivery import Delivery, DeliveryStatus
from resilient_ov.usecases.extraction import Extractions
from resilient_ov.usecases.steps import Flow, compute

_AT_ONCE = 4
_FIRST_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 30.0
_LOCKED_RETRY_S = 0.25
_SWITCH_POLL_S = 1.0
_PACED_AFTER_RECOVERY_S = 60.0
_PACE_S = 0.1


@dataclass(frozen=True, slots=True)
class _Place:
    """What the last sweep saw in the whole place: unfinished sessions, the oldest since when."""

    commits: int
    since_s: float


class Writer:
    """The background delivery of one process. Safe from any thread; never blocks."""

    def __init__(
        self,
        *,
        backlog: Backlog,
        deliver: Deliver,
        extractions: Extractions,
        sink: events.EventSink,
        clock: Clock,
        dice: Dice,
        delivery_s: float,
        wake: Callable[[], None],
    ) -> None:
        self._backlog = backlog
        self._deliver = deliver
        self._extractions = extractions
        self._sink = sink
        self._clock = clock
        self._dice = dice
        self._delivery_s = delivery_s
        self._wake = wake
        self._lock = threading.Lock()
        self._running = 0
        self._reading = False
        self._recovered_s: float | None = None
        self._started_s = float("-inf")
        self._in_doubt: dict[str, int] = {}
        self._told: tuple[int, int] = (0, 0)
        self._place: _Place | None = None
        self._finishing = False
        self.closed = False

    # -- intake ----------------------------------------------------------------------------

    def accept(self, hand_over: HandOver, *, urgent: bool) -> bool:
        """Take a copied list without reading it; False = refused (full or closed).

        ``urgent`` = the host never presents these messages again.
        """
        if self.closed or not self._backlog.accept(hand_over, urgent=urgent):
            return False
        self._tell()
        self._wake()
        return True

    def put(
        self,
        target: Target,
        presentation: Presentation,
        *,
        trace_id: str | None,
        delivery: Delivery | None = None,
    ) -> bool:
        """Keep what a call has left over, due when its delivery says; False = refused."""
        now_s = self._clock.monotonic_s()
        due_s = now_s if delivery is None else self._due_s(delivery, 1, now_s)
        if self.closed or not self._backlog.put(
            target, presentation, trace_id=trace_id, now_s=now_s, due_s=due_s
        ):
            return False
        if delivery is not None and delivery.in_doubt:
            self._in_doubt[target.session_id] = delivery.in_doubt
        self._tell()
        self._wake()
        return True

    def holds(self, session_id: str) -> bool:
        """Tell whether messages of the session wait here."""
        return self._backlog.holds(session_id)

    def moving(self, session_id: str) -> bool:
        """Tell whether the session is being delivered, or is about to be."""
        return self._backlog.moving(session_id, self._clock.monotonic_s())

    def recovered(self) -> None:
        """Note that a breaker closed: what waits is due, and goes out slowly at first."""
        self._recovered_s = self._clock.monotonic_s()
        self._backlog.hurry()
        self._wake()

    def finish(self) -> None:
        """From now on commit at once, whatever the configured thresholds."""
        self._finishing = True

    def hurry(self) -> None:
        """Make everything due now."""
        self._backlog.hurry()
        self._wake()

    def idle(self) -> bool:
        """Tell whether nothing waits, is being sent or is in doubt."""
        depth = self._backlog.depth()
        return depth.sessions == 0 and depth.unread == 0

    def waiting_messages(self) -> tuple[int, int]:
        """Return how many messages wait, and how many of them are in doubt."""
        return self._backlog.depth().messages, sum(self._in_doubt.values())

    def waiting_sessions(self) -> dict[str, tuple[str, str | None]]:
        """Return the sessions with something waiting: id -> the server's user, and agent."""
        return {
            target.session_id: (target.identity.user or "", target.identity.agent)
            for target in self._backlog.targets()
        }

    def tell_place(self, *, commits: int, oldest_s: float) -> None:
        """Tell what waits in the whole place; called by the process that sweeps it."""
        self._place = _Place(commits, self._clock.monotonic_s() - oldest_s)
        self._sink.emit(self._pending())

    # -- scheduling ------------------------------------------------------------------------

    def jobs(self, now_s: float) -> list[Flow[None]]:
        """Return the flows to start now; each runs to its end on a worker of its own."""
        with self._lock:
            started: list[Flow[None]] = []
            hand_over = self._backlog.unread()
            if hand_over is not None and not self._reading:
                self._reading = True
                started.append(self._read(hand_over))
            for session_id in self._backlog.due(now_s):
                if self._running >= _AT_ONCE or now_s < self._paced_until_s(now_s):
                    break
                waiting = self._backlog.take(session_id)
                if waiting is not None:
                    self._running += 1
                    self._started_s = now_s
                    started.append(self._send(waiting))
            return started

    def next_s(self, now_s: float) -> float | None:
        """Return when ``jobs`` is worth asking again; None = not before something changes."""
        with self._lock:
            if self._running >= _AT_ONCE:
                return None
            due_s = self._backlog.next_due_s()
            return None if due_s is None else max(due_s, self._paced_until_s(now_s))

    def _paced_until_s(self, now_s: float) -> float:
        if self._recovered_s is None or now_s - self._recovered_s > _PACED_AFTER_RECOVERY_S:
            return float("-inf")
        return self._started_s + _PACE_S

    # -- the jobs --------------------------------------------------------------------------

    def _read(self, hand_over: HandOver) -> Flow[None]:
        try:
            presentation = yield from compute(lambda: read(hand_over))
            self._backlog.read(hand_over, presentation, self._clock.monotonic_s())
        finally:
            self._reading = False
            self._tell()
            self._wake()

    def _send(self, waiting: Waiting) -> Flow[None]:
        target, tries = waiting.target, waiting.tries
        left: Presentation | None = waiting.presentation
        due_s = self._clock.monotonic_s() + _FIRST_BACKOFF_S
        try:
            context = CallContext.starting(
                self._clock,
                budget_s=self._delivery_s,
                origin=origin_of(target.identity.user, target.session_id, waiting.trace_id),
            )
            delivery = yield from self._deliver.deliver(
                context,
                target,
                waiting.presentation,
                patience_s=_LOCKED_RETRY_S,
                commit_now=self._finishing,
                more_waits=lambda: self._backlog.more(target.session_id),
            )
            if delivery.task_id is not None:
                self._extractions.watch(target, delivery.task_id)
            tries = tries + 1 if _unhealthy(delivery) else 0
            left = None if delivery.finished else delivery.left
            due_s = self._due_s(delivery, tries, self._clock.monotonic_s())
            self._note(target, delivery)
        finally:
            with self._lock:
                self._running -= 1
            self._backlog.give_back(target.session_id, left, due_s=due_s, tries=tries)
            self._tell()
            self._wake()

    def _note(self, target: Target, delivery: Delivery) -> None:
        if delivery.in_doubt:
            self._in_doubt[target.session_id] = delivery.in_doubt
        else:
            self._in_doubt.pop(target.session_id, None)
        if delivery.status is DeliveryStatus.NEWER_STATE and delivery.left.fingerprints:
            self._sink.emit(
                events.MessagesDropped(
                    reason=events.DropReason.STATE_UNAVAILABLE,
                    count=len(delivery.left.fingerprints),
                )
            )

    def _due_s(self, delivery: Delivery, tries: int, now_s: float) -> float:
        if delivery.status is DeliveryStatus.LOCKED:
            return now_s + _LOCKED_RETRY_S * (0.5 + self._dice.fraction())
        if delivery.status is DeliveryStatus.REFUSED and delivery.retry_at_s is not None:
            # A switch has no end; its file may change within a second.
            endless = delivery.retry_at_s == float("inf")
            return now_s + _SWITCH_POLL_S if endless else delivery.retry_at_s
        if delivery.retry_at_s is not None:
            return delivery.retry_at_s
        longest_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** max(0, tries - 1))
        return now_s + longest_s * self._dice.fraction()

    def _tell(self) -> None:
        now = self.waiting_messages()
        if now != self._told:
            self._told = now
            self._sink.emit(self._pending())

    def _pending(self) -> events.PendingChanged:
        depth = self._backlog.depth()
        own = events.PendingChanged(writes=depth.messages, in_doubt=len(self._in_doubt))
        if self._place is None:
            return own
        now_s = self._clock.monotonic_s()
        since_s = now_s if depth.oldest_since_s is None else depth.oldest_since_s
        if self._place.commits:
            since_s = min(since_s, self._place.since_s)
        return replace(own, commits=self._place.commits, oldest_s=now_s - since_s)


def read(hand_over: HandOver) -> Presentation:
    """Return what a copied list holds worth remembering."""
    if hand_over.presentation is not None:
        return hand_over.presentation
    found = conversation(hand_over.messages, hand_over.keep_hidden)
    return present(hand_over.target.session_id, found.messages)


def _unhealthy(delivery: Delivery) -> bool:
    return delivery.status in (DeliveryStatus.FAILED, DeliveryStatus.NO_STATE) or (
        delivery.status is DeliveryStatus.HELD and delivery.cause is not None
    )
