"""The closed words an event may carry; the same words are metric label values and log fields.

Rule: enums only. A value is public: dashboards, alerts and runbooks name it. What the policy
already has a word for is taken from there.
"""

from enum import StrEnum

from resilient_ov.policy.breaker import BreakerState
from resilient_ov.policy.classify import AttemptOutcome, DegradeReason, RetryReason
from resilient_ov.policy.holds import HoldKind
from resilient_ov.policy.refusals import RefusalReason
from resilient_ov.policy.rules import Group
from resilient_ov.policy.switches import Mode as SwitchMode


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
    "HoldKind",
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
