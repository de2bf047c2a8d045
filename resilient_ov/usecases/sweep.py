"""The sweeper: settles and commits what dead processes left, one session at a time.

Rule: never sends messages, never waits for a session's lock, never hurries: two requests a
second on average. One process per place does it.
"""

from collections.abc import Callable

from resilient_ov import events
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.ports import (
    Clock,
    Dice,
    NewerStateError,
    StateUnwritableError,
    WatermarkStore,
)
from resilient_ov.domain.waiting import Target
from resilient_ov.domain.watermark import Watermark
from resilient_ov.usecases.call import CallContext, origin_of
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.delivery import NOTHING, DeliveryStatus
from resilient_ov.usecases.steps import Flow, WorkLateError, work
from resilient_ov.usecases.writer import Writer

_MAX_JITTER_S = 30.0
_ROUND_S = 5.0
_VISIT_S = 1.0
_BURST = 6.0
_PER_S = 2.0
_FIRST_BACKOFF_S = 5.0
_LONGEST_BACKOFF_S = 600.0
_DISK_S = 5.0


class Sweeper:
    """A source of jobs, like the writer. Safe from any thread; never blocks."""

    def __init__(
        self,
        *,
        store: WatermarkStore,
        deliver: Deliver,
        writer: Writer,
        bury_dead: Callable[[], int],
        sink: events.EventSink,
        clock: Clock,
        dice: Dice,
        settle_s: float,
        commit_min_s: float,
        server_profile: str,
    ) -> None:
        self._store = store
        self._deliver = deliver
        self._writer = writer
        self._bury_dead = bury_dead
        self._sink = sink
        self._clock = clock
        self._quiet_s = max(settle_s, commit_min_s)
        self._settle_s = settle_s
        self._server_profile = server_profile
        self._pacer = _Pacer(clock)
        self._running = False
        self._next_s = clock.monotonic_s() + _MAX_JITTER_S * dice.fraction()
        self._seen: dict[str, tuple[int, float]] = {}
        self._since_s: dict[str, float] = {}
        self._retry: dict[str, tuple[float, int]] = {}
        self.leads = False

    def jobs(self, now_s: float) -> list[Flow[None]]:
        """Return the round to start now, if one is due."""
        if self._running or now_s < self._next_s:
            return []
        self._running = True
        return [self._round()]

    def next_s(self, now_s: float) -> float | None:
        """Return when ``jobs`` is worth asking again."""
        return None if self._running else max(now_s, self._next_s)

    def _round(self) -> Flow[None]:
        began_s = self._clock.monotonic_s()
        try:
            try:
                self.leads = yield from work(self._store.lead, began_s + _DISK_S)
                if not self.leads:
                    return
                ended = yield from work(self._bury_dead, began_s + _DISK_S)
                sessions = yield from work(self._store.unfinished, began_s + _DISK_S)
            except (StateUnwritableError, WorkLateError, OSError):
                return
            if ended:
                self._sink.emit(
                    events.MessagesDropped(reason=events.DropReason.PROCESS_ENDED, count=ended)
                )
            for known in [s for s in self._seen if s not in set(sessions)]:
                self._seen.pop(known)
                self._retry.pop(known, None)
                self._since_s.pop(known, None)
            for session_id in sessions:
                self._since_s.setdefault(session_id, began_s)
            oldest_s = began_s - min(self._since_s.values(), default=began_s)
            self._writer.tell_place(commits=len(sessions), oldest_s=oldest_s)
            for session_id in sessions:
                yield from self._session(session_id)
        finally:
            self._running = False
            self._next_s = self._clock.monotonic_s() + _ROUND_S

    def _session(self, session_id: str) -> Flow[None]:
        now_s = self._clock.monotonic_s()
        retry_s, tries = self._retry.get(session_id, (now_s, 0))
        if now_s < retry_s or self._writer.holds(session_id) or not self._pacer.ready():
            return
        watermark = yield from self._peek(session_id)
        if watermark is None or not self._is_ours(watermark) or not self._quiet(watermark):
            return
        if not (yield from self._orphaned(watermark)):
            return
        target = Target(
            identity=Identity(user=watermark.openviking_user, agent=watermark.agent),
            session_id=session_id,
            account=watermark.account,
        )
        context = CallContext.starting(
            self._clock,
            budget_s=_VISIT_S,
            origin=origin_of(watermark.openviking_user, session_id),
            sweeper=True,
        )
        began_s = self._clock.monotonic_s()
        delivery = yield from self._deliver.deliver(
            context,
            target,
            NOTHING,
            patience_s=0.0,
            commit_now=True,
            may_go_on=self._pacer.take,
        )
        took_s = self._clock.monotonic_s() - began_s
        if delivery.status is DeliveryStatus.DONE:
            outcome = events.CallOutcome.OK
            self._retry.pop(session_id, None)
        else:
            outcome = events.CallOutcome.PENDING
            wait_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0**tries)
            held = delivery.status is DeliveryStatus.HELD and delivery.cause is None
            until_s = delivery.retry_at_s if held and delivery.retry_at_s is not None else None
            self._retry[session_id] = (
                (until_s, tries) if until_s is not None else (began_s + wait_s, tries + 1)
            )
        self._sink.emit(
            events.CallFinished(
                call=events.Call.SWEEP,
                outcome=outcome,
                duration_s=took_s,
                overshoot_s=max(0.0, took_s - _VISIT_S),
                origin=context.origin,
            )
        )

    def _peek(self, session_id: str) -> Flow[Watermark | None]:
        deadline_s = self._clock.monotonic_s() + _VISIT_S
        try:
            with self._store.session(session_id) as unit:
                loaded = yield from work(unit.open, deadline_s)
        except (StateUnwritableError, NewerStateError, WorkLateError):
            return None
        return None if loaded is None else loaded.watermark

    def _is_ours(self, watermark: Watermark) -> bool:
        """Only a turn of its thread knows who owns a session that another contract named."""
        return watermark.server_profile == self._server_profile

    def _quiet(self, watermark: Watermark) -> bool:
        """Tell whether the session has been left alone long enough, by our own clock."""
        now_s = self._clock.monotonic_s()
        revision, since_s = self._seen.get(watermark.session_id, (-1, now_s))
        if revision != watermark.revision:
            self._seen[watermark.session_id] = (watermark.revision, now_s)
            return False
        # A read-back of our own moves the revision; the settle time is its own pace.
        mine = watermark.in_doubt is not None and watermark.in_doubt.read_back is not None
        return now_s - since_s >= (0.0 if mine else self._quiet_s)

    def _orphaned(self, watermark: Watermark) -> Flow[bool]:
        doubt = watermark.in_doubt
        if doubt is None or not doubt.digests:
            return True  # a mere look needs nobody's text
        owner = doubt.owner
        try:
            return (
                yield from work(
                    # A doubt of this very process without a waiting text was given up at a bound.
                    lambda: owner == self._store.owner() or not self._store.owner_lives(owner),
                    self._clock.monotonic_s() + _VISIT_S,
                )
            )
        except (StateUnwritableError, WorkLateError):
            return False


class _Pacer:
    """Two requests a second, six at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = _BURST
        self._at_s = clock.monotonic_s()

    def ready(self) -> bool:
        """Tell whether a visit may begin."""
        self._refill()
        return self._tokens >= 1.0

    def take(self) -> bool:
        """Pay for one request; False = not now."""
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now_s = self._clock.monotonic_s()
        self._tokens = min(_BURST, self._tokens + (now_s - self._at_s) * _PER_S)
        self._at_s = now_s
