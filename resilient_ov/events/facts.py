"""One frozen class per fact worth watching.

Rule: plain values and closed words, durations instead of clock readings, no message text, URL,
header, key or exception. Ids of people and threads appear hashed only.
"""

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, Self, cast

from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov.events.labels import (
    AttemptOutcome,
    BreakerState,
    Call,
    CallOutcome,
    CanaryOutcome,
    CanaryStep,
    CommitStatus,
    DegradeReason,
    DropReason,
    ExtractionStatus,
    Group,
    HoldKind,
    MessageResult,
    OperationStatus,
    RebaseReason,
    ReconciliationResult,
    RefusalReason,
    RetryReason,
    SinkName,
    StateErrorReason,
    SwitchMode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """On whose behalf something happened; built once per call and shared by its events.

    ``trace_id`` is the host's (printable ASCII, <= 512); the hashes are the server's user id and
    session id.
    """

    trace_id: str | None = None
    user_hash: str | None = None
    session_hash: str | None = None


NOBODY: Final = Origin()


# -- calls, operations, attempts --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    """A call of the manager ended; exactly one per call, also when it was cancelled.

    ``overshoot_s`` is how far past its deadline it returned, 0.0 when inside. ``error_type`` is
    the class name of our error behind a degraded outcome.
    """

    call: Call
    outcome: CallOutcome
    duration_s: float
    overshoot_s: float = 0.0
    error_type: str | None = None
    origin: Origin = NOBODY


class _Draft:
    """An operation's end while it is being filled in."""

    __slots__ = (
        "attempts",
        "duration_s",
        "error_type",
        "group",
        "operation",
        "origin",
        "reason",
        "request_id",
        "result_count",
        "status",
        "status_code",
        "task_id",
    )


@dataclass(frozen=True, init=False, kw_only=True)
class OperationFinished(_Draft):
    """An operation call ended, its retries included; exactly one per operation call.

    ``status`` OK implies exactly one successful attempt, which has no event of its own.
    ``attempts`` counts those that reached the wire (0 when refused at once). ``group`` is None
    for ``health``. ``reason`` is set unless OK or CANCELLED.
    """

    __slots__ = ()

    operation: Operation
    group: Group | None
    status: OperationStatus
    duration_s: float
    attempts: int
    origin: Origin
    request_id: str | None
    reason: FailureKind | RefusalReason | None
    error_type: str | None
    status_code: int | None
    task_id: str | None
    result_count: int | None

    # This is the one event on the path of every success. A frozen class sets each field through
    # `object.__setattr__`, which costs 4 us here; a draft that freezes when it is full costs 1.
    def __new__(
        cls,
        *,
        operation: Operation,
        group: Group | None,
        status: OperationStatus,
        duration_s: float,
        attempts: int = 1,
        origin: Origin = NOBODY,
        request_id: str | None = None,
        reason: FailureKind | RefusalReason | None = None,
        error_type: str | None = None,
        status_code: int | None = None,
        task_id: str | None = None,
        result_count: int | None = None,
    ) -> Self:
        """Make the event; it cannot be changed afterwards."""
        draft: Any = _Draft()
        draft.operation = operation
        draft.group = group
        draft.status = status
        draft.duration_s = duration_s
        draft.attempts = attempts
        draft.origin = origin
        draft.request_id = request_id
        draft.reason = reason
        draft.error_type = error_type
        draft.status_code = status_code
        draft.task_id = task_id
        draft.result_count = result_count
        draft.__class__ = cls
        return cast("Self", draft)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **values), ()

    @property
    def retry_count(self) -> int:
        """Return how many attempts followed the first one."""
        return max(self.attempts - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """One attempt on the wire did not succeed, or was cancelled; one per such attempt.

    Not emitted for an attempt that the classifier takes for a success (409 on ensure) and not
    for what never reached the wire (that is ``Refused``).
    """

    operation: Operation
    group: Group | None
    outcome: AttemptOutcome
    attempt: int
    duration_s: float
    request_id: str | None = None
    status_code: int | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled:
    """Attempt number ``attempt`` (>= 2) will follow after ``delay_s``."""

    operation: Operation
    reason: RetryReason
    attempt: int
    delay_s: float
    request_id: str | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudgetExhausted:
    """A retry was due but the shared budget had no token for it."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A request entered (+1) or left (-1) the bulkhead of a group; use ``ENTERED`` and ``LEFT``."""

    group: Group
    change: int


_BULKHEADS = (Group.RECALL, Group.APPEND, Group.COMMIT, Group.SESSION)
ENTERED: Final = {group: InFlight(group=group, change=1) for group in _BULKHEADS}
LEFT: Final = {group: InFlight(group=group, change=-1) for group in _BULKHEADS}


# -- policy -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerChanged:
    """A breaker moved; ``open_s`` is the length of the open period that begins, if one does."""

    group: Group
    from_state: BreakerState
    to_state: BreakerState
    open_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldChanged:
    """A hold began or was prolonged (``hold_s`` > 0) or ended (0.0).

    An auth hold of the whole host has group HOST; a hold of one identity alone is not told.
    """

    group: Group
    kind: HoldKind
    hold_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request was not sent; one per refusal."""

    group: Group
    reason: RefusalReason
    operation: Operation | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldRefuse:
    """A request was sent although the policy would have refused it (switch ``shadow``)."""

    group: Group
    reason: RefusalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchChanged:
    """The effective mode of a group changed; ``for_s`` None = until it is changed again."""

    group: Group
    mode: SwitchMode
    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStanding:
    """The hourly reminder that a switch without an end is still set."""

    group: Group
    mode: SwitchMode
    since_s: float


# -- writing ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFinished:
    """A commit ended."""

    status: CommitStatus
    task_id: str | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesCounted:
    """Messages were stored, found stored, or found stored twice."""

    result: MessageResult
    count: int
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesDropped:
    """Messages were given up; they are not told as ``MessagesCounted``."""

    reason: DropReason
    count: int
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """A look at the server judged a batch in doubt."""

    result: ReconciliationResult
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """What is known to be stored in a session was corrected."""

    reason: RebaseReason
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionTask:
    """An extraction task was seen at its end."""

    status: ExtractionStatus
    task_id: str | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChanged:
    """What waits. Absolute figures; told on change, and again while the oldest one ages.

    ``writes``: messages of this process not yet delivered. ``in_doubt``: batches of this process
    whose outcome is unknown. ``commits`` and ``oldest_s`` (age of the oldest thing that waits)
    speak for the whole storage place and are None unless this process holds the sweeper lock.
    """

    writes: int
    in_doubt: int
    commits: int | None = None
    oldest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateError:
    """Something is wrong with the state on disk; UNREADABLE = it was kept aside and begun anew."""

    reason: StateErrorReason
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePersistence:
    """Whether the last try to write state succeeded; told on change."""

    persistent: bool


# -- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFinished:
    """A search was answered: hits kept, hits rejected by our checks, characters to inject.

    ``injection_chars`` is None for a call that injects nothing.
    """

    results: int
    rejected: int = 0
    injection_chars: int | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRead:
    """A read was answered from an earlier good answer."""

    origin: Origin = NOBODY


# -- health -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded:
    """A call went on without memory; one per such call.

    ``group`` is what was missing, None when no server was involved (scope, sync on a loop).
    """

    reason: DegradeReason
    group: Group | None = None
    call: Call | None = None
    error_type: str | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealed:
    """A poisoned connection pool was replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkError:
    """A sink raised, or held its caller for too long."""

    sink: SinkName


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLoaded:
    """A manager was made. ``summary``: (setting, value) pairs; a secret is "set" or "unset"."""

    version: str
    server_profile: str
    account_alias: str
    summary: tuple[tuple[str, str | int | float | bool | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFinished:
    """A step of the looping check ended."""

    step: CanaryStep
    outcome: CanaryOutcome


Event = (
    CallFinished
    | OperationFinished
    | AttemptFailed
    | RetryScheduled
    | RetryBudgetExhausted
    | InFlight
    | BreakerChanged
    | HoldChanged
    | Refused
    | WouldRefuse
    | SwitchChanged
    | SwitchStanding
    | CommitFinished
    | MessagesCounted
    | MessagesDropped
    | Reconciled
    | Rebased
    | ExtractionTask
    | PendingChanged
    | StateError
    | StatePersistence
    | SearchFinished
    | StaleRead
    | Degraded
    | PoolHealed
    | SinkError
    | ConfigLoaded
    | CanaryFinished
)
