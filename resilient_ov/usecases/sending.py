"""Sends batches: each with its intent on disk before the first byte, each ending known or in doubt.

Rule: a batch whose answer is not understood stays in doubt and ends the delivery; what the server
names as bad is found by halving, given up and counted, so that it cannot hold the session.
"""

from collections.abc import Sequence

from resilient_ov import events
from resilient_ov.domain.batches import marked_digest
from resilient_ov.domain.exchange import (
    AddMessages,
    BatchReceipt,
    Evidence,
    Failure,
    Success,
    WireMessage,
)
from resilient_ov.domain.ports import Clock, Dice, StateUnwritableError
from resilient_ov.domain.waiting import Target
from resilient_ov.policy.refusals import Refusal
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.delivery import DeliveryStatus, InHand, StoppedError, stopped_by
from resilient_ov.usecases.poison import Poison
from resilient_ov.usecases.steps import Flow
from resilient_ov.usecases.visit import Visit

_BISECT_STATUSES = frozenset({400, 413, 422})
_MAX_FURTHER_REQUESTS = 8
_NOT_POISON_STATUSES = frozenset({401, 403, 429, 503})


class Sending:
    """Sends batches of open visits. One per process."""

    def __init__(
        self, *, calls: Calls, sink: events.EventSink, clock: Clock, dice: Dice, window: int
    ) -> None:
        self._calls = calls
        self._sink = sink
        self._clock = clock
        self._dice = dice
        self._window = window
        self._poison = Poison(clock)

    def send(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        work: InHand,
        batch: tuple[WireMessage, ...],
    ) -> Flow[None]:
        """Send a batch; what the server names as bad is found and given up, the rest stored."""
        todo = [batch]
        further = 0
        while todo:
            part = todo.pop(0)
            failure = yield from self._send_once(context, target, visit, work, part)
            if failure is None:
                continue
            if failure.status not in _BISECT_STATUSES or not _spoken(failure):
                yield from self._poisoned(visit, work, part, failure)
                continue
            named = [i for i in failure.invalid_indices if i < len(part)]
            if len(part) == 1 or further >= _MAX_FURTHER_REQUESTS:
                yield from self._give_up(visit, work, part, failure)
            elif named:
                bad = tuple(part[i] for i in sorted(set(named)))
                yield from self._give_up(visit, work, bad, failure)
                rest = tuple(m for m in part if m not in bad)
                todo[:0] = [rest] if rest else []
                further += 1
            else:
                middle = len(part) // 2
                todo[:0] = [part[:middle], part[middle:]]
                further += 2

    def _send_once(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        work: InHand,
        batch: tuple[WireMessage, ...],
    ) -> Flow[Failure | None]:
        """Send one request; None = stored, a failure = certainly not applied."""
        if visit.watermark.in_doubt is not None:
            # The last reply showed more than we can explain: look before the next write.
            raise StoppedError(DeliveryStatus.HELD, retry_at_s=self._clock.monotonic_s())
        digests = _digests(batch)

        def intent() -> Flow[None]:
            before = visit.watermark
            visit.watermark = before.intend(
                doubt_id=self._dice.token(), owner=visit.owner, digests=digests
            )
            try:
                yield from visit.save()
            except StateUnwritableError:
                # The old state stands and nothing is sent, so nothing is in doubt.
                visit.watermark = before
                raise

        command = AddMessages(
            identity=target.identity, session_id=target.session_id, messages=batch
        )
        result = yield from self._calls.perform(context, command, before_send=intent)
        match result:
            case Success(value=BatchReceipt() as receipt):
                visit.watermark = visit.watermark.stored(
                    added=len(batch),
                    live=receipt.live_messages,
                    window=self._window,
                    now_utc=self._clock.utc_iso(),
                )
                work.stored(digests)
                self._poison.cured(target.session_id)
                visit.when_saved(
                    lambda: self._sink.emit(
                        events.MessagesCounted(result=events.MessageResult.STORED, count=len(batch))
                    )
                )
                return None
            case Failure() as failure if self._calls.not_applied(command, failure):
                visit.watermark = visit.watermark.not_applied()
                if failure.evidence is Evidence.NOT_SENT or not _spoken(failure):
                    raise stopped_by(failure)
                return failure
            case Failure() as failure:
                raise StoppedError(
                    DeliveryStatus.HELD, failure, retry_at_s=self._clock.monotonic_s()
                )
            case Refusal():
                raise stopped_by(result)
            case _:
                raise StoppedError(DeliveryStatus.HELD)

    def _poisoned(
        self, visit: Visit, work: InHand, batch: tuple[WireMessage, ...], failure: Failure
    ) -> Flow[None]:
        """Count a refusal that will come again; give the batch up at the third."""
        if failure.status in _NOT_POISON_STATUSES:
            raise stopped_by(failure)
        retry_at_s = self._poison.again(visit.watermark.session_id)
        if retry_at_s is not None:
            raise StoppedError(DeliveryStatus.FAILED, failure, retry_at_s)
        yield from self._give_up(visit, work, batch, failure)

    def _give_up(
        self, visit: Visit, work: InHand, batch: tuple[WireMessage, ...], failure: Failure
    ) -> Flow[None]:
        digests = _digests(batch)
        visit.watermark = visit.watermark.given_up(digests, self._window)
        yield from visit.save()
        work.stored(digests)
        too_large = failure.status == 413 and len(batch) == 1
        reason = events.DropReason.TOO_LARGE if too_large else events.DropReason.REJECTED
        self._sink.emit(events.MessagesDropped(reason=reason, count=len(batch)))


def _digests(batch: Sequence[WireMessage]) -> tuple[str, ...]:
    return tuple(d for m in batch if (d := marked_digest(m.source_ids)) is not None)


def _spoken(failure: Failure) -> bool:
    return failure.enveloped or failure.status == 413
