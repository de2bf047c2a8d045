"""Asks for the commit that a session owes, when it is time.

Rule: a commit is owed until the server accepted it, has no such session, or refused it thrice.
"""

from resilient_ov import events
from resilient_ov.domain.exchange import CommitReceipt, CommitSession, Evidence, Failure, Success
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.waiting import Target
from resilient_ov.domain.watermark import Watermark
from resilient_ov.settings import SessionSettings
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.delivery import DeliveryStatus, StoppedError, stopped_by
from resilient_ov.usecases.poison import Poison
from resilient_ov.usecases.steps import Flow
from resilient_ov.usecases.visit import Visit

_POISON_STATUSES = frozenset({400, 403, 405, 412, 501})


class Committing:
    """Commits sessions of open visits. One per process."""

    def __init__(
        self, *, calls: Calls, sink: events.EventSink, clock: Clock, wanted: SessionSettings
    ) -> None:
        self._calls = calls
        self._sink = sink
        self._clock = clock
        self._wanted = wanted
        self._poison = Poison(clock)
        self._put_off: dict[str, Target] = {}
        self._last_commit_s: dict[str, float] = {}

    def put_off(self) -> tuple[Target, ...]:
        """Return the sessions whose commit this process has put off, as configured."""
        return tuple(self._put_off.values())

    def commit(
        self, context: CallContext, target: Target, visit: Visit, *, force: bool
    ) -> Flow[str | None]:
        """Commit if one is owed and due; ``force`` ignores the configured thresholds.

        Returns the extraction task's id, None = nothing was begun. Raises ``StoppedError`` when
        the commit is still owed, and what saving raises.
        """
        if not self._commit_due(visit.watermark, force=force):
            if visit.watermark.pending_commit_since is not None:
                self._put_off[target.session_id] = target
            return None
        self._put_off.pop(target.session_id, None)
        result = yield from self._calls.perform(
            context, CommitSession(identity=target.identity, session_id=target.session_id)
        )
        if isinstance(result, Success) and isinstance(result.value, CommitReceipt):
            receipt = result.value
            self._poison.cured(target.session_id)
            self._last_commit_s[target.session_id] = self._clock.monotonic_s()
            visit.watermark = visit.watermark.committed_all(
                task_id=receipt.task_id,
                archive=receipt.archive,
                archive_uri=receipt.archive_uri,
            )
            yield from visit.save()
            self._committed(_commit_status(receipt))
            return receipt.task_id
        if isinstance(result, Failure) and result.enveloped and result.status == 404:
            visit.watermark = visit.watermark.commit_given_up()
            yield from visit.save()
            self._sink.emit(events.Rebased(reason=events.RebaseReason.SESSION_GONE))
            return None
        if isinstance(result, Failure) and result.status in _POISON_STATUSES:
            retry_at_s = self._poison.again(target.session_id)
            if retry_at_s is not None:
                self._committed(events.CommitStatus.FAILED)
                raise StoppedError(DeliveryStatus.FAILED, result, retry_at_s)
            visit.watermark = visit.watermark.commit_given_up()
            yield from visit.save()
            self._committed(events.CommitStatus.GAVE_UP)
            return None
        if isinstance(result, Failure):
            unknown = result.evidence is Evidence.UNKNOWN
            if unknown:
                visit.watermark = visit.watermark.commit_unheard()
            self._committed(events.CommitStatus.UNKNOWN if unknown else events.CommitStatus.FAILED)
        if isinstance(result, Success):
            raise StoppedError(DeliveryStatus.FAILED)
        raise stopped_by(result)

    def _commit_due(self, watermark: Watermark, *, force: bool) -> bool:
        if watermark.pending_commit_since is None:
            return False
        wanted = self._wanted
        if force or (wanted.commit_min_messages <= 1 and wanted.commit_min_s <= 0):
            return True
        if watermark.server_live is not None and watermark.server_live < wanted.commit_min_messages:
            return False
        last_s = self._last_commit_s.get(watermark.session_id)
        return last_s is None or self._clock.monotonic_s() - last_s >= wanted.commit_min_s

    def _committed(self, status: events.CommitStatus) -> None:
        self._sink.emit(events.CommitFinished(status=status))


def _commit_status(receipt: CommitReceipt) -> events.CommitStatus:
    return events.CommitStatus.ACCEPTED if receipt.accepted else events.CommitStatus.SKIPPED
