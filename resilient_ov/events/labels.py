"""The closed words an event may carry; the same words are metric label values and log fields.

Rule: enums only. A value is public: dashboards, alerts and runbooks name it. What the policy
already has a word for is taken from there.
"""

from enum import StrEnum

from resilient_ov.policy.classify import AttemptOutcome, DegradeReason, RetryReason
from resilient_ov.policy.rules import Group


class Call(StrEnum):
    """What the agent, or one of our own threads, asked for."""

    GET_CONTEXT = "get_context"
    SEARCH = "search"
    ADD = "add"
    ADD_NOWAIT = "add_nowait"
    WARM = "warm"
    FLUSH = "flush"
    SWEEP = "sweep"


class CallOutcome(StrEnum):
    """How a call ended, as the agent saw it."""

    OK = "ok"
    EMPTY = "empty"
    STALE = "stale"
    WITHHELD = "withheld"
    PENDING = "pending"
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    DEGRADED_UNAVAILABLE = "degraded_unavailable"
    DEGRADED_DEADLINE = "degraded_deadline"
    DEGRADED_REFUSED = "degraded_refused"
    DEGRADED_AUTH = "degraded_auth"
    DEGRADED_SCOPE = "degraded_scope"
    DEGRADED_PROTOCOL = "degraded_protocol"


class OperationStatus(StrEnum):
    """How one operation call ended, its retries included."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


class BreakerState(StrEnum):
    """State of a group's breaker."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class RefusalReason(StrEnum):
    """Why a request was never sent."""

    OPEN = "open"
    PROBE_IN_FLIGHT = "probe_in_flight"
    HOST_OPEN = "host_open"
    AUTH_HOLD = "auth_hold"
    RETRY_AFTER = "retry_after"
    BULKHEAD = "bulkhead"
    EXECUTOR = "executor"
    SWITCH = "switch"
    DEADLINE = "deadline"
    CLOSED = "closed"
    """The manager was closed."""


class HoldReason(StrEnum):
    """Why requests of a group are held back for a while, whatever its breaker says."""

    AUTH_HOLD = "auth_hold"
    RETRY_AFTER = "retry_after"


class SwitchMode(StrEnum):
    """What an operator ordered for a group."""

    NORMAL = "normal"
    SHADOW = "shadow"
    FORCED_OPEN = "forced_open"
    FORCED_CLOSED = "forced_closed"
    RETRIES_OFF = "retries_off"
    DISABLED = "disabled"


class CommitStatus(StrEnum):
    """How a commit ended."""

    ACCEPTED = "accepted"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"
    GAVE_UP = "gave_up"


class MessageResult(StrEnum):
    """What became of messages, other than being dropped."""

    STORED = "stored"
    RECONCILED = "reconciled"
    DUPLICATED = "duplicated"


class DropReason(StrEnum):
    """Why messages were given up."""

    QUEUE_FULL = "queue_full"
    SHUTDOWN = "shutdown"
    TOO_LARGE = "too_large"
    REJECTED = "rejected"
    SCOPE = "scope"
    WRITE_FAILED = "write_failed"
    DISABLED = "disabled"
    PROCESS_ENDED = "process_ended"
    UNKNOWABLE = "unknowable"
    STATE_UNAVAILABLE = "state_unavailable"
    PURGED = "purged"


class ReconciliationResult(StrEnum):
    """What a look at the server said about a batch in doubt."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWABLE = "unknowable"
    DEFERRED = "deferred"


class RebaseReason(StrEnum):
    """Why what is known to be stored was corrected."""

    EDITED = "edited"
    SESSION_GONE = "session_gone"
    SERVER_BEHIND = "server_behind"
    REBUILT = "rebuilt"


class ExtractionStatus(StrEnum):
    """How an extraction task ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class StateErrorReason(StrEnum):
    """What is wrong with the state on disk."""

    FOREIGN_WRITER = "foreign_writer"
    UNWRITABLE = "unwritable"
    UNREADABLE = "unreadable"
    NEWER_SCHEMA = "newer_schema"
    SERVER_CHANGED = "server_changed"
    LOCK_MISSING = "lock_missing"


class SinkName(StrEnum):
    """Where events go."""

    LOG = "log"
    METRICS = "metrics"
    TRACE = "trace"
    STATUS = "status"
    LISTENER = "listener"


class CanaryStep(StrEnum):
    """A step of the looping check."""

    WRITE = "write"
    COMMIT = "commit"
    EXTRACT = "extract"
    RECALL = "recall"


class CanaryOutcome(StrEnum):
    """How a step of the looping check ended."""

    OK = "ok"
    FAILED = "failed"
    LATE = "late"


__all__ = [
    "AttemptOutcome",
    "BreakerState",
    "Call",
    "CallOutcome",
    "CanaryOutcome",
    "CanaryStep",
    "CommitStatus",
    "DegradeReason",
    "DropReason",
    "ExtractionStatus",
    "Group",
    "HoldReason",
    "MessageResult",
    "OperationStatus",
    "RebaseReason",
    "ReconciliationResult",
    "RefusalReason",
    "RetryReason",
    "SinkName",
    "StateErrorReason",
    "SwitchMode",
]
