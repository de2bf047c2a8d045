"""One frozen class per fact worth watching.

Rule: plain values and closed words, durations instead of clock readings, no message text, URL,
header, key or exception. Ids of people and threads appear hashed only.
"""

from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class OperationFinished:
    """An operation call ended, its retries included; exactly one per operation call.

    ``status`` OK implies exactly one successful attempt, which has no event of its own.
    ``attempts`` counts those that reached the wire (0 when refused at once). ``group`` is None
    for ``health``. ``reason`` is set unless OK or CANCELLED.
    """

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

    def __init__(
        self,
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
    ) -> None:
        # Written out because this is the one event on the path of every success: storing through
        # the slots costs 2 us less than the generated __init__ of a frozen class.
        _set_operation(self, operation)
        _set_group(self, group)
        _set_status(self, status)
        _set_duration_s(self, duration_s)
        _set_attempts(self, attempts)
        _set_origin(self, origin)
        _set_request_id(self, request_id)
        _set_reason(self, reason)
        _set_error_type(self, error_type)
        _set_status_code(self, status_code)
        _set_task_id(self, task_id)
        _set_result_count(self, result_count)

    @property
    def retry_count(self) -> int:
        """Return how many attempts followed the first one."""
        return max(self.attempts - 1, 0)


_slots = OperationFinished.__dict__
_set_operation = _slots["operation"].__set__
_set_group = _slots["group"].__set__
_set_status = _slots["status"].__set__
_set_duration_s = _slots["duration_s"].__set__
_set_attempts = _slots["attempts"].__set__
_set_origin = _slots["origin"].__set__
_set_request_id = _slots["request_id"].__set__
_set_reason = _slots["reason"].__set__
_set_error_type = _slots["error_type"].__set__
_set_status_code = _slots["status_code"].__set__
_set_task_id = _slots["task_id"].__set__
_set_result_count = _slots["result_count"].__set__


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
