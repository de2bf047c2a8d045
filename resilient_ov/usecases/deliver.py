"""The write path: what of a presented thread is not stored yet, stored exactly once, committed.

Rule: one path for every entry point. Under the session's lock: load, plan, compare with the
server when that was never done, settle what is in doubt, plan again, send batch by batch with
the intent on disk before the first byte, commit. Text that is not stored comes back to the
caller, who keeps it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from resilient_ov import events
from resilient_ov.domain.batches import marked_digest, split, wire_message
from resilient_ov.domain.exchange import (
    AddMessages,
    BatchReceipt,
    CommitReceipt,
    CommitSession,
    CreateSession,
    EnsureSession,
    Evidence,
    Failure,
    SessionInfo,
    Success,
    WireMessage,
)
from resilient_ov.domain.planning import (
    Plan,
    Presentation,
    adopted_head,
    delivered,
    plan,
    trim,
)
from resilient_ov.domain.ports import (
    Clock,
    Dice,
    NewerStateError,
    StateUnwritableError,
    WatermarkStore,
)
from resilient_ov.domain.watermark import InDoubt, Watermark
from resilient_ov.policy.refusals import Refusal
from resilient_ov.settings import Settings
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.edits import Edits
from resilient_ov.usecases.persistence import Persistence
from resilient_ov.usecases.reader import (
    NotAnsweredError,
    SessionReader,
    SliceOverError,
    UnreadableError,
)
from resilient_ov.usecases.rebuild import Rebuilds
from resilient_ov.usecases.settle import Held, Settler
from resilient_ov.usecases.steps import Flow, WorkLateError, compute
from resilient_ov.usecases.visit import Target, Visit

_BISECT_STATUSES = frozenset({400, 413, 422})
_MAX_FURTHER_REQUESTS = 8
# A page that is asked for with less time left would only be cut off.
_PAGE_TIME_S = 0.05
_MAX_POISON_TRIES = 3
_COMMIT_POISON_STATUSES = frozenset({400, 403, 405, 412, 501})
_NOT_POISON_STATUSES = frozenset({401, 403, 429, 503})


class DeliveryStatus(StrEnum):
    """How a delivery ended."""

    DONE = "done"
    """Everything presented is stored (or given up and counted), and committed if it was time."""
    HELD = "held"
    """A batch is in doubt: nothing newer is sent before it is settled."""
    REFUSED = "refused"
    """A breaker, hold, switch or limit said no; ``retry_at_s`` tells when that may change."""
    FAILED = "failed"
    """The server said no, or did not answer."""
    LOCKED = "locked"
    """Another visitor kept the session."""
    NO_STATE = "no_state"
    """The state could not be read or saved, so nothing was sent."""
    NEWER_STATE = "newer_state"
    """The state belongs to a newer version: this session is not ours to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The end of one delivery.

    ``left`` = what is not stored; ``committed`` = no commit is owed by it any more (or it is not
    time yet); ``retry_at_s`` = the earliest useful next try, None = back off; ``in_doubt`` = how
    many messages of a batch nobody knows the fate of.
    """

    status: DeliveryStatus
    left: Presentation
    committed: bool = False
    retry_at_s: float | None = None
    cause: Failure | Refusal | None = None
    task_id: str | None = None
    in_doubt: int = 0

    @property
    def finished(self) -> bool:
        """True when nothing of it must be tried again."""
        return self.status in (DeliveryStatus.DONE, DeliveryStatus.NEWER_STATE) and self.committed


class _StoppedError(Exception):
    """Ends a delivery early; carries how."""

    def __init__(
        self,
        status: DeliveryStatus,
        cause: Failure | Refusal | None = None,
        retry_at_s: float | None = None,
    ) -> None:
        super().__init__(status.value)
        self.status = status
        self.cause = cause
        self.retry_at_s = retry_at_s


NOTHING = Presentation()


class Deliver:
    """Delivers presented threads. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        calls: Calls,
        store: WatermarkStore,
        persistence: Persistence,
        settler: Settler,
        rebuilds: Rebuilds,
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
        self._rebuilds = rebuilds
        self._sink = sink
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._server_id = server_id
        self._edits = Edits()
        self._tries: dict[tuple[str, str], int] = {}
        self._uncommitted: dict[str, Target] = {}
        self._last_commit_s: dict[str, float] = {}

    def deliver(
        self,
        context: CallContext,
        target: Target,
        presentation: Presentation,
        *,
        patience_s: float,
        commit_now: bool = False,
        may_go_on: Callable[[], bool] | None = None,
    ) -> Flow[Delivery]:
        """Store what is new of ``presentation`` and commit when it is time.

        ``patience_s`` bounds the wait for the session's lock, ``commit_now`` ignores the
        thresholds of the configuration, ``may_go_on`` is asked before each request of a look or
        rebuild, which is otherwise bounded by the deadline alone. Nothing is raised but
        cancellation: how it ended is the result.
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
            work = _Work(presentation)
            reader = SessionReader(
                self._calls,
                context,
                target.identity,
                target.session_id,
                may_go_on or (lambda: self._time_for_a_page(context)),
            )
            try:
                yield from self._open(visit, fresh, patience_s)
                yield from self._store_new(context, target, visit, work, reader)
                task_id = yield from self._commit(context, target, visit, force=commit_now)
            except _StoppedError as stopped:
                return (yield from self._ended(visit, work, stopped))
            except (StateUnwritableError, WorkLateError):
                self._persistence.failed()
                return self._delivery(visit, work, _StoppedError(DeliveryStatus.NO_STATE))
            except NewerStateError:
                self._state_error(events.StateErrorReason.NEWER_SCHEMA)
                return self._delivery(visit, work, _StoppedError(DeliveryStatus.NEWER_STATE))
            finally:
                self._persistence.look()
            return Delivery(
                status=DeliveryStatus.DONE, left=NOTHING, committed=True, task_id=task_id
            )

    def uncommitted(self) -> tuple[Target, ...]:
        """Return the sessions whose commit this process has put off, as configured."""
        return tuple(self._uncommitted.values())

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
            raise _StoppedError(DeliveryStatus.LOCKED)
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
        work: "_Work",
        reader: SessionReader,
    ) -> Flow[None]:
        planned = yield from self._plan(visit, work)
        if not planned.unknown and visit.watermark.in_doubt is None:
            return
        if visit.watermark.in_doubt is not None:
            held = yield from self._settler.settle(visit, reader)
            if held is not None:
                raise _StoppedError(_held_status(held), held.cause, _held_until_s(held))
            planned = yield from self._plan(visit, work)
        if planned.prefix_lost or visit.watermark.server_total is None:
            history = yield from self._compare(context, target, visit, work, reader)
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
            yield from self._send(context, target, visit, work, batch)
        visit.watermark = delivered(visit.watermark, work.presentation, planned.digests)
        yield from visit.save()

    def _plan(
        self, visit: Visit, work: "_Work", history: Sequence[str] | None = None
    ) -> Flow[Plan]:
        watermark, presentation = visit.watermark, work.presentation
        window = self._settings.watermark.window
        planned = yield from compute(
            lambda: plan(watermark, presentation, window=window, history=history)
        )
        work.planned(planned, watermark.in_doubt)
        return planned

    def _compare(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        work: "_Work",
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
                    work.presentation,
                    self._settings.watermark.window,
                )
            except NotAnsweredError as stopped:
                raise self._stopped(stopped.result) from None
            except SliceOverError:
                now_s = self._clock.monotonic_s()
                raise _StoppedError(DeliveryStatus.HELD, retry_at_s=now_s) from None
            except UnreadableError:
                raise _StoppedError(DeliveryStatus.FAILED) from None
            history = rebuilt.digests
            visit.watermark = visit.watermark.rebuilt(
                digests=history,
                window=self._settings.watermark.window,
                newest_archive=rebuilt.newest_archive,
            )
            visit.watermark = adopted_head(
                visit.watermark,
                work.presentation,
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
                raise self._stopped(made)
        result = yield from self._calls.perform(
            context, EnsureSession(identity=target.identity, session_id=target.session_id)
        )
        if isinstance(result, Success) and isinstance(result.value, SessionInfo):
            return result.value
        if isinstance(result, Success):
            raise _StoppedError(DeliveryStatus.FAILED)
        raise self._stopped(result)

    def _send(
        self,
        context: CallContext,
        target: Target,
        visit: Visit,
        work: "_Work",
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
        work: "_Work",
        batch: tuple[WireMessage, ...],
    ) -> Flow[Failure | None]:
        """Send one request; None = stored, a failure = certainly not applied."""
        if visit.watermark.in_doubt is not None:
            # The last reply showed more than we can explain: look before the next write.
            raise _StoppedError(DeliveryStatus.HELD, retry_at_s=self._clock.monotonic_s())
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
                    window=self._settings.watermark.window,
                    now_utc=self._clock.utc_iso(),
                )
                work.stored(digests)
                self._tries.pop((target.session_id, "batch"), None)
                self._sink.emit(
                    events.MessagesCounted(result=events.MessageResult.STORED, count=len(batch))
                )
                return None
            case Failure() as failure if self._calls.not_applied(command, failure):
                visit.watermark = visit.watermark.not_applied()
                if failure.evidence is Evidence.NOT_SENT or not _spoken(failure):
                    raise self._stopped(failure)
                return failure
            case Failure() as failure:
                raise _StoppedError(
                    DeliveryStatus.HELD, failure, retry_at_s=self._clock.monotonic_s()
                )
            case Refusal():
                raise self._stopped(result)
            case _:
                raise _StoppedError(DeliveryStatus.HELD)

    def _poisoned(
        self, visit: Visit, work: "_Work", batch: tuple[WireMessage, ...], failure: Failure
    ) -> Flow[None]:
        """Count a refusal that will come again; give the batch up at the third."""
        if failure.status in _NOT_POISON_STATUSES:
            raise self._stopped(failure)
        key = (visit.watermark.session_id, "batch")
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] < _MAX_POISON_TRIES:
            raise _StoppedError(
                DeliveryStatus.FAILED, failure, self._poison_retry_s(self._tries[key])
            )
        self._tries.pop(key)
        yield from self._give_up(visit, work, batch, failure)

    def _give_up(
        self, visit: Visit, work: "_Work", batch: tuple[WireMessage, ...], failure: Failure
    ) -> Flow[None]:
        digests = _digests(batch)
        visit.watermark = visit.watermark.given_up(digests, self._settings.watermark.window)
        yield from visit.save()
        work.stored(digests)
        too_large = failure.status == 413 and len(batch) == 1
        reason = events.DropReason.TOO_LARGE if too_large else events.DropReason.REJECTED
        self._sink.emit(events.MessagesDropped(reason=reason, count=len(batch)))

    # -- committing ------------------------------------------------------------------------

    def _commit(
        self, context: CallContext, target: Target, visit: Visit, *, force: bool
    ) -> Flow[str | None]:
        if not self._commit_due(visit.watermark, force=force):
            if visit.watermark.pending_commit_since is not None:
                self._uncommitted[target.session_id] = target
            return None
        self._uncommitted.pop(target.session_id, None)
        result = yield from self._calls.perform(
            context, CommitSession(identity=target.identity, session_id=target.session_id)
        )
        key = (target.session_id, "commit")
        if isinstance(result, Success) and isinstance(result.value, CommitReceipt):
            receipt = result.value
            self._tries.pop(key, None)
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
        if isinstance(result, Failure) and result.status in _COMMIT_POISON_STATUSES:
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] < _MAX_POISON_TRIES:
                self._committed(events.CommitStatus.FAILED)
                raise _StoppedError(
                    DeliveryStatus.FAILED, result, self._poison_retry_s(self._tries[key])
                )
            self._tries.pop(key)
            visit.watermark = visit.watermark.commit_given_up()
            yield from visit.save()
            self._committed(events.CommitStatus.GAVE_UP)
            return None
        if isinstance(result, Failure):
            unknown = result.evidence is Evidence.UNKNOWN
            self._committed(events.CommitStatus.UNKNOWN if unknown else events.CommitStatus.FAILED)
        if isinstance(result, Success):
            raise _StoppedError(DeliveryStatus.FAILED)
        raise self._stopped(result)

    def _commit_due(self, watermark: Watermark, *, force: bool) -> bool:
        if watermark.pending_commit_since is None:
            return False
        wanted = self._settings.session
        if force or (wanted.commit_min_messages <= 1 and wanted.commit_min_s <= 0):
            return True
        if watermark.server_live is not None and watermark.server_live < wanted.commit_min_messages:
            return False
        last_s = self._last_commit_s.get(watermark.session_id)
        return last_s is None or self._clock.monotonic_s() - last_s >= wanted.commit_min_s

    def _committed(self, status: events.CommitStatus) -> None:
        self._sink.emit(events.CommitFinished(status=status))

    # -- ending ----------------------------------------------------------------------------

    def _ended(self, visit: Visit, work: "_Work", stopped: _StoppedError) -> Flow[Delivery]:
        try:
            yield from visit.save()
        except (StateUnwritableError, WorkLateError):
            # What was not saved is found out again: an intent stays an intent.
            return self._delivery(visit, work, stopped)
        return self._delivery(visit, work, stopped)

    def _delivery(self, visit: Visit, work: "_Work", stopped: _StoppedError) -> Delivery:
        doubt = visit.watermark.in_doubt
        return Delivery(
            status=stopped.status,
            left=work.left(),
            committed=stopped.status is DeliveryStatus.NEWER_STATE,
            retry_at_s=stopped.retry_at_s,
            cause=stopped.cause,
            in_doubt=0 if doubt is None else len(doubt.digests),
        )

    def _stopped(self, result: Failure | Refusal) -> _StoppedError:
        if isinstance(result, Refusal):
            return _StoppedError(DeliveryStatus.REFUSED, result, result.retry_at_s)
        return _StoppedError(DeliveryStatus.FAILED, result)

    def _poison_retry_s(self, tries: int) -> float:
        return self._clock.monotonic_s() + min(600.0, 5.0 * 2.0 ** (tries - 1))

    def _time_for_a_page(self, context: CallContext) -> bool:
        return context.deadline_s - self._clock.monotonic_s() > _PAGE_TIME_S


@dataclass(slots=True)
class _Work:
    """What one delivery has in hand; ``digests`` one per presented message once it was planned."""

    presentation: Presentation
    digests: tuple[str, ...] = ()
    waiting: frozenset[str] = frozenset()

    def planned(self, planned: Plan, doubt: InDoubt | None) -> None:
        # What is in doubt is not stored yet: its text is kept until it is settled.
        unsettled = doubt.digests if doubt is not None else ()
        self.digests = planned.digests
        self.waiting = frozenset((*(p.digest for p in planned.unknown), *unsettled))

    def stored(self, digests: tuple[str, ...]) -> None:
        self.waiting -= frozenset(digests)

    def left(self) -> Presentation:
        if not self.digests:
            return self.presentation
        if not self.waiting.intersection(self.digests):
            return NOTHING
        return trim(self.presentation, self.digests, self.waiting)


def _digests(batch: Sequence[WireMessage]) -> tuple[str, ...]:
    return tuple(d for m in batch if (d := marked_digest(m.source_ids)) is not None)


def _server_of(watermark: Watermark) -> tuple[str, str]:
    """A session of one server under two contracts is two sessions."""
    return watermark.server_id, watermark.server_profile


def _role_id(target: Target, role: str) -> str | None:
    return target.agent_role if role == "assistant" else target.user_role


def _commit_status(receipt: CommitReceipt) -> events.CommitStatus:
    return events.CommitStatus.ACCEPTED if receipt.accepted else events.CommitStatus.SKIPPED


def _spoken(failure: Failure) -> bool:
    return failure.enveloped or failure.status == 413


def _raced(result: Failure | Refusal) -> bool:
    return isinstance(result, Failure) and result.status == 500


def _held_status(held: Held) -> DeliveryStatus:
    return DeliveryStatus.REFUSED if isinstance(held.cause, Refusal) else DeliveryStatus.HELD


def _held_until_s(held: Held) -> float | None:
    if isinstance(held.cause, Refusal):
        return held.cause.retry_at_s
    return None if held.cause is not None else held.until_s
