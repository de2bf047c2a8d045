"""Settles a batch in doubt by reading back, under the session's lock.

Rule: every outcome is saved before anything else is done with it, and an unanswered look starts
the clock of absence again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from resilient_ov import events
from resilient_ov.domain.exchange import Failure
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.settlement import (
    Look,
    Settled,
    StillInDoubt,
    Unknowable,
    findings,
    judge,
    may_look_s,
    unanswered,
    unusable,
)
from resilient_ov.domain.watermark import InDoubt, ReadBack
from resilient_ov.policy.refusals import Refusal
from resilient_ov.usecases.look import Looks
from resilient_ov.usecases.reader import (
    NotAnsweredError,
    SessionReader,
    SliceOverError,
    UnreadableError,
)
from resilient_ov.usecases.steps import Flow, work
from resilient_ov.usecases.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The doubt stands; another look can tell more from ``until_s`` (monotonic) on.

    ``cause`` = why this look was not answered, if it was not.
    """

    until_s: float
    cause: Failure | Refusal | None = None


class Settler:
    """Takes looks and applies the verdict. One per process."""

    def __init__(
        self,
        looks: Looks,
        sink: events.EventSink,
        clock: Clock,
        *,
        lives: Callable[[str], bool],
        settle_s: float,
        window: int,
    ) -> None:
        self._looks = looks
        self._sink = sink
        self._clock = clock
        self._lives = lives
        self._settle_s = settle_s
        self._window = window

    def settle(self, visit: Visit, reader: SessionReader) -> Flow[Held | None]:
        """Look once if a look can tell more by now; None = nothing is in doubt any more.

        Raises what saving raises; the state on disk then still holds the doubt.
        """
        doubt = visit.watermark.in_doubt
        if doubt is None:
            return None
        if (yield from self._others_to_settle(visit, doubt)):
            return Held(until_s=self._clock.monotonic_s() + self._settle_s)
        earliest_s = may_look_s(doubt, owner=visit.owner, settle_s=self._settle_s)
        if self._clock.monotonic_s() < earliest_s:
            return Held(until_s=earliest_s)
        # Written down before asking: a look that ends with the time of its call could not be.
        yield from self._remember(visit, unanswered(doubt, owner=visit.owner))
        try:
            look = yield from self._looks.take(reader, visit.watermark.session_id, doubt)
        except SliceOverError:
            visit.watermark = replace(visit.watermark, in_doubt=doubt)
            return Held(until_s=self._clock.monotonic_s())
        except NotAnsweredError as stopped:
            self._looks.forget(visit.watermark.session_id)
            self._deferred()
            return Held(until_s=self._clock.monotonic_s(), cause=stopped.result)
        except UnreadableError:
            self._looks.forget(visit.watermark.session_id)
            return (yield from self._unusable(visit, doubt))
        return (yield from self._apply(visit, doubt, look))

    def _others_to_settle(self, visit: Visit, doubt: InDoubt) -> Flow[bool]:
        """Tell whether a living process has the doubt in hand: two must not take turns at it.

        The process that sent the batch holds its text, so it settles while it lives; after it,
        whoever began to look.
        """
        begun = doubt.read_back.owner if doubt.read_back is not None else visit.owner
        others = tuple(o for o in (doubt.owner, begun) if o != visit.owner)
        if doubt.owner == visit.owner or not others or not doubt.digests:
            return False
        return (yield from work(lambda: any(map(self._lives, others)), visit.deadline_s))

    def _apply(self, visit: Visit, doubt: InDoubt, look: Look) -> Flow[Held | None]:
        self._tell_findings(visit, doubt, look)
        verdict = judge(doubt, look, owner=visit.owner, settle_s=self._settle_s)
        if isinstance(verdict, StillInDoubt):
            self._deferred()
            yield from self._remember(visit, verdict.read_back)
            return Held(until_s=verdict.look_again_s)
        self._settled(visit, doubt, look, verdict)
        yield from visit.save()
        return None

    def _settled(self, visit: Visit, doubt: InDoubt, look: Look, verdict: Settled) -> None:
        visit.watermark = visit.watermark.settled(
            present=verdict.present,
            total=look.total,
            live=look.live,
            newest_archive=look.newest_archive,
            window=self._window,
            now_utc=self._clock.utc_iso(),
        )
        visit.when_saved(lambda: self._tell_settled(doubt, look, verdict))

    def _tell_settled(self, doubt: InDoubt, look: Look, verdict: Settled) -> None:
        stored, absent = len(verdict.present), len(doubt.digests) - len(verdict.present)
        if stored:
            self._sink.emit(events.Reconciled(result=events.ReconciliationResult.PRESENT))
            self._sink.emit(
                events.MessagesCounted(result=events.MessageResult.RECONCILED, count=stored)
            )
        if absent:
            self._sink.emit(events.Reconciled(result=events.ReconciliationResult.ABSENT))
        if look.gone:
            self._rebased(events.RebaseReason.SESSION_GONE)
        elif look.total < doubt.total_before:
            self._rebased(events.RebaseReason.SERVER_BEHIND)

    def _unusable(self, visit: Visit, doubt: InDoubt) -> Flow[Held | None]:
        verdict = unusable(doubt, owner=visit.owner)
        if isinstance(verdict, ReadBack):
            self._deferred()
            yield from self._remember(visit, verdict)
            return Held(until_s=self._clock.monotonic_s() + self._settle_s)
        assert isinstance(verdict, Unknowable)  # noqa: S101 - the other half of the union
        visit.watermark = visit.watermark.unknowable(self._window)
        yield from visit.save()
        self._sink.emit(events.Reconciled(result=events.ReconciliationResult.UNKNOWABLE))
        if doubt.digests:
            self._sink.emit(
                events.MessagesDropped(
                    reason=events.DropReason.UNKNOWABLE, count=len(doubt.digests)
                )
            )
        return None

    def _remember(self, visit: Visit, read_back: ReadBack) -> Flow[None]:
        """Save the read-back, unless a look that never counted is all there would be to save."""
        doubt = visit.watermark.in_doubt
        begun = doubt is not None and doubt.read_back is not None
        if begun or read_back != ReadBack(owner=read_back.owner):
            visit.watermark = visit.watermark.looked(read_back)
            yield from visit.save()

    def _tell_findings(self, visit: Visit, doubt: InDoubt, look: Look) -> None:
        found = findings(look, doubt, visit.watermark.submitted)
        if found.duplicated:
            self._sink.emit(
                events.MessagesCounted(
                    result=events.MessageResult.DUPLICATED, count=found.duplicated
                )
            )
        if found.foreign:
            self._sink.emit(events.StateError(reason=events.StateErrorReason.FOREIGN_WRITER))

    def _deferred(self) -> None:
        self._sink.emit(events.Reconciled(result=events.ReconciliationResult.DEFERRED))

    def _rebased(self, reason: events.RebaseReason) -> None:
        self._sink.emit(events.Rebased(reason=reason))
