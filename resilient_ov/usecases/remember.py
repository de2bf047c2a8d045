"""``add``: stores a turn inside its budget; what does not fit into it goes to the writer.

Rule: a message that was presented is either stored, or held by the writer, or counted as given
up, also when the call is cancelled at any step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from resilient_ov import events
from resilient_ov.domain.exchange import Evidence, Failure
from resilient_ov.domain.planning import Presentation
from resilient_ov.domain.ports import Clock, Dice
from resilient_ov.domain.waiting import Target
from resilient_ov.policy.refusals import Refusal, RefusalReason
from resilient_ov.policy.rules import Group
from resilient_ov.usecases.backlog import HandOver, KeepHidden, text_chars
from resilient_ov.usecases.call import CallContext
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.delivery import NOTHING, Delivery, DeliveryStatus
from resilient_ov.usecases.extraction import Extractions
from resilient_ov.usecases.steps import Flow, compute, wait
from resilient_ov.usecases.writer import Writer, read

_JOIN_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """How an ``add`` ended; ``cause`` = why it is not OK, where an operation is to blame."""

    outcome: events.CallOutcome
    cause: Failure | Refusal | None = None
    in_doubt: bool = False


OK = Remembered(outcome=events.CallOutcome.OK)


class Remember:
    """Stores turns. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        deliver: Deliver,
        writer: Writer,
        extractions: Extractions,
        sink: events.EventSink,
        clock: Clock,
        dice: Dice,
        wait_for_extraction: bool,
    ) -> None:
        self._deliver = deliver
        self._writer = writer
        self._extractions = extractions
        self._sink = sink
        self._clock = clock
        self._dice = dice
        self._wait_for_extraction = wait_for_extraction

    def remember(
        self,
        context: CallContext,
        target: Target,
        messages: Sequence[object],
        keep_hidden: KeepHidden | None,
    ) -> Flow[Remembered]:
        """Store what is worth remembering of a whole thread, as far as the budget goes."""
        trace_id = context.origin.trace_id
        hand_over = HandOver(
            target=target,
            messages=tuple(messages),
            keep_hidden=keep_hidden,
            chars=0,
            trace_id=trace_id,
        )
        left: Presentation | None = None
        delivery: Delivery | None = None
        begun = False
        try:
            presentation = yield from compute(lambda: read(hand_over))
            begun = True
            if not presentation.fingerprints:
                return OK
            left = presentation
            if self._writer.closed:
                left = None
                return self._dropped(events.DropReason.SHUTDOWN, presentation)
            if self._writer.holds(target.session_id):
                left = None
                return (yield from self._join(context, target, presentation))
            delivery = yield from self._store(context, target, presentation)
            left = None if delivery.finished else delivery.left
            if delivery.finished:
                yield from self._after_commit(context, target, delivery)
        except BaseException:
            # Cancelled, or a fault of our own: what was presented must not be lost with the call.
            if not begun:
                unread = replace(hand_over, chars=text_chars(hand_over.messages))
                self._writer.accept(unread, urgent=False)
            elif left is not None:
                self._writer.put(target, left, trace_id=trace_id, delivery=delivery)
            raise
        return self._ended(target, delivery, trace_id)

    def hand_over(self, hand_over: HandOver) -> Remembered:
        """Give a copied list to the writer without reading it; no I/O, constant time."""
        if self._writer.accept(hand_over, urgent=True):
            return Remembered(outcome=events.CallOutcome.PENDING)
        shut = self._writer.closed
        reason = events.DropReason.SHUTDOWN if shut else events.DropReason.QUEUE_FULL
        self._sink.emit(events.MessagesDropped(reason=reason, count=len(hand_over.messages)))
        return Remembered(outcome=events.CallOutcome.DROPPED)

    def _store(
        self, context: CallContext, target: Target, presentation: Presentation
    ) -> Flow[Delivery]:
        left_s = context.deadline_s - self._clock.monotonic_s()
        delivery = yield from self._deliver.deliver(
            context, target, presentation, patience_s=left_s
        )
        if _own_batch_unknown(delivery):
            # The first look may find it stored: then the turn ends well inside its budget.
            delivery = yield from self._deliver.deliver(
                context, target, delivery.left, patience_s=0.0
            )
        return delivery

    def _join(
        self, context: CallContext, target: Target, presentation: Presentation
    ) -> Flow[Remembered]:
        """Queue behind waiting messages of the session; wait only while they are on their way."""
        if not self._writer.put(target, presentation, trace_id=context.origin.trace_id):
            return Remembered(outcome=events.CallOutcome.DROPPED)
        while self._writer.moving(target.session_id):
            left_s = context.deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                break
            yield from wait(min(left_s, _JOIN_POLL_S * (0.5 + self._dice.fraction())))
        if self._writer.holds(target.session_id):
            return Remembered(outcome=events.CallOutcome.PENDING)
        return OK

    def _ended(self, target: Target, delivery: Delivery, trace_id: str | None) -> Remembered:
        if delivery.status is DeliveryStatus.NEWER_STATE:
            return self._dropped(events.DropReason.STATE_UNAVAILABLE, delivery.left)
        if delivery.finished:
            return OK
        kept = self._writer.put(target, delivery.left, trace_id=trace_id, delivery=delivery)
        if not kept and delivery.in_doubt:
            # The text is given up, but the doubt must be settled: it holds the session.
            self._writer.put(target, NOTHING, trace_id=trace_id, delivery=delivery)
        return Remembered(
            outcome=events.CallOutcome.PENDING if kept else events.CallOutcome.DROPPED,
            cause=delivery.cause,
            in_doubt=delivery.in_doubt > 0,
        )

    def _after_commit(self, context: CallContext, target: Target, delivery: Delivery) -> Flow[None]:
        if delivery.task_id is None:
            return  # nothing was written, so nothing is asked
        # The task of this very turn has only begun: asking for it now would be polling.
        yield from self._extractions.check_earlier(context, target)
        self._extractions.watch(target, delivery.task_id)
        if self._wait_for_extraction:
            yield from self._extractions.wait_for(context, target, delivery.task_id)

    def _dropped(self, reason: events.DropReason, presentation: Presentation) -> Remembered:
        self._sink.emit(events.MessagesDropped(reason=reason, count=len(presentation.fingerprints)))
        return Remembered(
            outcome=events.CallOutcome.DROPPED,
            cause=Refusal(group=Group.APPEND, reason=RefusalReason.CLOSED, retry_at_s=float("inf"))
            if reason is events.DropReason.SHUTDOWN
            else None,
        )


def _own_batch_unknown(delivery: Delivery) -> bool:
    return (
        delivery.status is DeliveryStatus.HELD
        and isinstance(delivery.cause, Failure)
        and delivery.cause.evidence is not Evidence.NOT_SENT
        and bool(delivery.left.fingerprints or delivery.in_doubt)
        and delivery.left is not NOTHING
    )
