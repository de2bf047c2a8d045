"""The write path: what of a presented thread is not stored yet, stored exactly once, committed.

Rule: one path for every entry point. Under the session's lock: load, plan, compare with the
server when that was never done, settle what is in doubt, plan again, send batch by batch with
the intent on disk before the first byte, commit. Text that is not stored comes back to the
caller, who keeps it.
"""

from collections.abc import Callable, Sequence

from resilient_ov import events
from resilient_ov.domain.batches import split, wire_message
from resilient_ov.domain.planning import Plan, Presentation, delivered, plan
from resilient_ov.domain.ports import (
    Clock,
    Dice,
    NewerStateError,
    StateUnwritableError,
    WatermarkStore,
)
from resilient_ov.domain.purge import acquitted, dropped, must_drop
from resilient_ov.domain.waiting import Target
from resilient_ov.domain.watermark import Watermark
from resilient_ov.policy.refusals import Refusal
from resilient_ov.settings import Settings
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.committing import Committing
from resilient_ov.usecases.compare import Comparison
from resilient_ov.usecases.delivery import NOTHING, Delivery, DeliveryStatus, InHand, StoppedError
from resilient_ov.usecases.edits import Edits
from resilient_ov.usecases.persistence import Persistence
from resilient_ov.usecases.reader import SessionReader
from resilient_ov.usecases.sending import Sending
from resilient_ov.usecases.settle import Held, Settler
from resilient_ov.usecases.steps import Flow, NoTimeError, WorkLateError, compute
from resilient_ov.usecases.visit import Visit

# A page that is asked for with less time left would only be cut off.
_PAGE_TIME_S = 0.05


class Deliver:
    """Delivers presented threads. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        calls: Calls,
        store: WatermarkStore,
        persistence: Persistence,
        settler: Settler,
        comparison: Comparison,
        sending: Sending,
        committing: Committing,
        sink: events.EventSink,
        clock: Clock,
        dice: Dice,
        settings: Settings,
        server_id: str,
    ) -> None:
        self._calls = calls
        self._store = store
        self._persistence = persistence
        self._settler = settler
        self._comparison = comparison
        self._sending = sending
        self._committing = committing
        self._sink = sink
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._server_id = server_id
        self._edits = Edits()

    def deliver(
        self,
        context: CallContext,
        target: Target,
        presentation: Presentation,
        *,
        patience_s: float,
        commit_now: bool = False,
        may_go_on: Callable[[], bool] | None = None,
        more_waits: Callable[[], bool] | None = None,
    ) -> Flow[Delivery]:
        """Store what is new of ``presentation`` and commit when it is time.

        ``patience_s`` bounds the wait for the session's lock, ``commit_now`` ignores the
        thresholds of the configuration, ``may_go_on`` is asked before each request of a look or
        rebuild, which is otherwise bounded by the deadline alone. ``more_waits`` is set for what
        waited in this process, and tells whether more of the session does; when its person was
        erased meanwhile it is dropped. Nothing is raised but cancellation: how it ended is the
        result.
        """
        fresh = self._fresh(target)
        with self._store.session(target.session_id) as unit:
            visit = Visit(
                unit,
                fresh,
                owner=self._store.owner,
                clock=self._clock,
                dice=self._dice,
                deadline_s=context.deadline_s,
            )
            work = InHand(presentation)
            reader = SessionReader(
                self._calls,
                context,
                target.identity,
                target.session_id,
                may_go_on or (lambda: self._time_for_a_page(context)),
            )
            try:
                yield from self._open(visit, fresh, patience_s)
                if more_waits is not None and must_drop(visit.watermark, visit.owner):
                    yield from self._drop_purged(visit, work, more_waits)
                    return Delivery(status=DeliveryStatus.DONE, left=NOTHING, committed=True)
                yield from self._store_new(context, target, visit, work, reader)
                task_id = yield from self._committing.commit(
                    context, target, visit, force=commit_now
                )
            except StoppedError as stopped:
                return (yield from self._ended(visit, work, stopped))
            except NoTimeError:
                return self._delivery(visit, work, StoppedError(DeliveryStatus.NO_STATE))
            except (StateUnwritableError, WorkLateError):
                self._persistence.failed()
                return self._delivery(visit, work, StoppedError(DeliveryStatus.NO_STATE))
            except NewerStateError:
                self._state_error(events.StateErrorReason.NEWER_SCHEMA)
                return self._delivery(visit, work, StoppedError(DeliveryStatus.NEWER_STATE))
            finally:
                self._persistence.look()
            return Delivery(
                status=DeliveryStatus.DONE, left=NOTHING, committed=True, task_id=task_id
            )

    def uncommitted(self) -> tuple[Target, ...]:
        """Return the sessions whose commit this process has put off, as configured."""
        return self._committing.put_off()

    # -- opening ---------------------------------------------------------------------------

    def _fresh(self, target: Target) -> Watermark:
        return Watermark(
            session_id=target.session_id,
            openviking_user=target.identity.user or "",
            account=target.account,
            server_id=self._server_id,
            server_profile=self._settings.server_profile.value,
            agent=target.identity.agent,
        )

    def _open(self, visit: Visit, fresh: Watermark, patience_s: float) -> Flow[None]:
        loaded = yield from visit.open(patience_s=patience_s)
        if loaded is None:
            raise StoppedError(DeliveryStatus.LOCKED)
        if loaded.repaired:
            self._state_error(events.StateErrorReason.UNREADABLE)
        if _server_of(visit.watermark) != _server_of(fresh):
            self._state_error(events.StateErrorReason.SERVER_CHANGED)
            visit.watermark = visit.watermark.moved(fresh)

    def _state_error(self, reason: events.StateErrorReason) -> None:
        self._sink.emit(events.StateError(reason=reason))

    # -- storing ---------------------------------------------------------------------------

    def _store_new(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        work: InHand,
        reader: SessionReader,
    ) -> Flow[None]:
        planned = yield from self._plan(visit, work)
        if not planned.unknown and visit.watermark.in_doubt is None:
            return
        if visit.watermark.in_doubt is not None:
            held = yield from self._settler.settle(visit, reader)
            if held is not None:
                raise StoppedError(_held_status(held), held.cause, _held_until_s(held))
            planned = yield from self._plan(visit, work)
        if planned.prefix_lost or visit.watermark.server_total is None:
            history = yield from self._comparison.compare(
                context, target, visit, work.presentation, reader
            )
            planned = yield from self._plan(visit, work, history)
        for _ in range(self._edits.note(target.session_id, work.presentation)):
            self._sink.emit(events.Rebased(reason=events.RebaseReason.EDITED))
        messages = [
            wire_message(
                item,
                max_chars=self._settings.messages.max_message_chars,
                role_id=_role_id(target, item.message.role),
            )
            for item in planned.unknown
        ]
        for batch in split(messages, max_bytes=self._settings.messages.max_batch_bytes):
            yield from self._sending.send(context, target, visit, work, batch)
        visit.watermark = delivered(visit.watermark, work.presentation, planned.digests)
        yield from visit.save()

    def _drop_purged(
        self, visit: Visit, work: InHand, more_waits: Callable[[], bool]
    ) -> Flow[None]:
        """Know what waited and never send it: the host may present it again."""
        planned = yield from self._plan(visit, work)
        digests = tuple(item.digest for item in planned.unknown)
        known = dropped(visit.watermark, digests, self._settings.watermark.window)
        visit.watermark = delivered(known, work.presentation, planned.digests)
        if not more_waits():
            visit.watermark = acquitted(visit.watermark, visit.owner)
        if digests:
            visit.when_saved(
                lambda: self._sink.emit(
                    events.MessagesDropped(reason=events.DropReason.PURGED, count=len(digests))
                )
            )
        yield from visit.save()

    def _plan(self, visit: Visit, work: InHand, history: Sequence[str] | None = None) -> Flow[Plan]:
        watermark, presentation = visit.watermark, work.presentation
        window = self._settings.watermark.window
        planned = yield from compute(
            lambda: plan(watermark, presentation, window=window, history=history)
        )
        work.planned(planned, watermark.in_doubt)
        return planned

    # -- ending ----------------------------------------------------------------------------

    def _ended(self, visit: Visit, work: InHand, stopped: StoppedError) -> Flow[Delivery]:
        try:
            yield from visit.save()
        except (StateUnwritableError, WorkLateError):
            # What was not saved is found out again: an intent stays an intent.
            return self._delivery(visit, work, stopped)
        return self._delivery(visit, work, stopped)

    def _delivery(self, visit: Visit, work: InHand, stopped: StoppedError) -> Delivery:
        doubt = visit.watermark.in_doubt
        return Delivery(
            status=stopped.status,
            left=work.left(),
            committed=stopped.status is DeliveryStatus.NEWER_STATE,
            retry_at_s=stopped.retry_at_s,
            cause=stopped.cause,
            in_doubt=0 if doubt is None else len(doubt.digests),
        )

    def _time_for_a_page(self, context: CallContext) -> bool:
        return context.deadline_s - self._clock.monotonic_s() > _PAGE_TIME_S


def _server_of(watermark: Watermark) -> tuple[str, str]:
    """A session of one server under two contracts is two sessions."""
    return watermark.server_id, watermark.server_profile


def _role_id(target: Target, role: str) -> str | None:
    return target.agent_role if role == "assistant" else target.user_role


def _held_status(held: Held) -> DeliveryStatus:
    return DeliveryStatus.REFUSED if isinstance(held.cause, Refusal) else DeliveryStatus.HELD


def _held_until_s(held: Held) -> float | None:
    if isinstance(held.cause, Refusal):
        return held.cause.retry_at_s
    return None if held.cause is not None else held.until_s
