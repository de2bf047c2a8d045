"""Asks the server what a session holds, when our own state cannot tell.

Rule: nothing is sent before this has ended; what it learns goes into the state in hand.
"""

from resilient_ov import events
from resilient_ov.domain.exchange import (
    CreateSession,
    EnsureSession,
    Failure,
    SessionInfo,
    Success,
)
from resilient_ov.domain.planning import Presentation, adopted_head
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.waiting import Target
from resilient_ov.policy.refusals import Refusal
from resilient_ov.settings import Settings
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.delivery import DeliveryStatus, StoppedError, stopped_by
from resilient_ov.usecases.reader import (
    NotAnsweredError,
    SessionReader,
    SliceOverError,
    UnreadableError,
)
from resilient_ov.usecases.rebuild import Rebuilds
from resilient_ov.usecases.steps import Flow
from resilient_ov.usecases.visit import Visit


class Comparison:
    """Compares sessions with the server. One per process."""

    def __init__(
        self,
        *,
        calls: Calls,
        rebuilds: Rebuilds,
        sink: events.EventSink,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._calls = calls
        self._rebuilds = rebuilds
        self._sink = sink
        self._clock = clock
        self._settings = settings

    def compare(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        presentation: Presentation,
        reader: SessionReader,
    ) -> Flow[tuple[str, ...]]:
        """Ask the server what it has, and learn from it what is stored already."""
        info = yield from self._ensure(context, target)
        history: tuple[str, ...] = ()
        if info.total_messages > 0:
            try:
                rebuilt = yield from self._rebuilds.take(
                    reader,
                    target.session_id,
                    info,
                    presentation,
                    self._settings.watermark.window,
                )
            except NotAnsweredError as stopped:
                raise stopped_by(stopped.result) from None
            except SliceOverError:
                now_s = self._clock.monotonic_s()
                raise StoppedError(DeliveryStatus.HELD, retry_at_s=now_s) from None
            except UnreadableError:
                raise StoppedError(DeliveryStatus.FAILED) from None
            history = rebuilt.digests
            visit.watermark = visit.watermark.rebuilt(
                digests=history,
                window=self._settings.watermark.window,
                newest_archive=rebuilt.newest_archive,
            )
            visit.watermark = adopted_head(
                visit.watermark,
                presentation,
                window=self._settings.watermark.window,
                history=history,
            )
            self._sink.emit(events.Rebased(reason=events.RebaseReason.REBUILT))
        visit.watermark = visit.watermark.compared(
            total=info.total_messages, live=info.live_messages
        )
        if info.live_messages > 0:
            visit.watermark = visit.watermark.commit_owed(self._clock.utc_iso())
        return history

    def _ensure(self, context: CallContext, target: Target) -> Flow[SessionInfo]:
        types = self._settings.session.memory_types
        if types:
            # An existing session and the first-use race (500) are both answered by the
            # reading below; what the first answer was does not matter then.
            create = CreateSession(
                identity=target.identity, session_id=target.session_id, memory_types=types
            )
            made = yield from self._calls.perform(context, create)
            if not isinstance(made, Success) and not _raced(made):
                raise stopped_by(made)
        result = yield from self._calls.perform(
            context, EnsureSession(identity=target.identity, session_id=target.session_id)
        )
        if isinstance(result, Success) and isinstance(result.value, SessionInfo):
            return result.value
        if isinstance(result, Success):
            raise StoppedError(DeliveryStatus.FAILED)
        raise stopped_by(result)


def _raced(result: Failure | Refusal) -> bool:
    return isinstance(result, Failure) and result.status == 500
