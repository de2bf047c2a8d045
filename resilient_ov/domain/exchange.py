"""What is asked of the memory server and what comes back, in the domain's own words.

Rule: plain values only; how a command travels is the adapter's business.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from resilient_ov.domain.recall import ServerHit


class Operation(StrEnum):
    """The closed list of operations; names are public (metrics, events, errors)."""

    HEALTH = "health"
    SESSION_ENSURE = "session.ensure"
    SESSION_GET = "session.get"
    MESSAGES_ADD = "messages.add"
    SESSION_COMMIT = "session.commit"
    SEARCH = "search"
    TASK_STATUS = "task.status"
    CONTENT_READ = "content.read"
    FS_LIST = "fs.list"


class Evidence(StrEnum):
    """What the transport knows about one attempt."""

    NOT_SENT = "not_sent"
    """No byte of the request left this process: it cannot have had an effect."""
    UNKNOWN = "unknown"
    """Bytes left and no whole answer came: the server may have applied it, now or later."""
    ANSWERED = "answered"
    """A whole answer with a status came."""


class FailureKind(StrEnum):
    """Why an attempt did not succeed; the values of the metric label ``outcome`` minus ``ok``."""

    CLIENT_ERROR = "client_error"
    RATE_LIMITED = "rate_limited"
    AUTH = "auth"
    SERVER_ERROR = "server_error"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    SATURATED = "saturated"
    """Our own pool or executor had no place in time; nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a request speaks for.

    ``user`` is the hashed server user (None only for an anonymous health check); ``agent`` is
    sent on the namespace profile only.
    """

    user: str | None
    agent: str | None = None


# -- commands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMessage:
    """One message as it is stored: ``content`` is already cleaned and cut.

    ``source_ids`` are the client's marks that come back on read-back; the last one is our digest.
    """

    role: str
    content: str
    source_ids: tuple[str, ...]
    created_at: str | None = None
    role_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Liveness; with an identity also whether the key is accepted. Answer: ServerHealth."""

    operation: ClassVar[Operation] = Operation.HEALTH
    identity: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureSession:
    """Create the session unless it exists; idempotent. Answer: SessionInfo."""

    operation: ClassVar[Operation] = Operation.SESSION_ENSURE
    identity: Identity
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSession:
    """Create the session with its memory types; an existing one answers 409. Answer: None."""

    operation: ClassVar[Operation] = Operation.SESSION_ENSURE
    identity: Identity
    session_id: str
    memory_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSession:
    """Read the session's counters; 404 when there is none. Answer: SessionInfo."""

    operation: ClassVar[Operation] = Operation.SESSION_GET
    identity: Identity
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMessages:
    """Append a batch of 1..100 messages; not idempotent. Answer: BatchReceipt."""

    operation: ClassVar[Operation] = Operation.MESSAGES_ADD
    identity: Identity
    session_id: str
    messages: tuple[WireMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSession:
    """Archive the live messages and start the extraction; replayable. Answer: CommitReceipt."""

    operation: ClassVar[Operation] = Operation.SESSION_COMMIT
    identity: Identity
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Find memories under ``targets``; at most ``limit`` (1..100), strictly above the threshold.

    Answer: tuple of ServerHit.
    """

    operation: ClassVar[Operation] = Operation.SEARCH
    identity: Identity
    query: str
    targets: tuple[str, ...]
    limit: int
    score_threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTask:
    """Read one background task; 404 when unknown or expired. Answer: TaskInfo."""

    operation: ClassVar[Operation] = Operation.TASK_STATUS
    identity: Identity
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTasks:
    """List the extraction tasks of a session, newest first. Answer: tuple of TaskInfo."""

    operation: ClassVar[Operation] = Operation.TASK_STATUS
    identity: Identity
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessages:
    """Read stored messages in order, ``limit`` lines from line ``offset``. Answer: StoredPage.

    ``archive`` None = the live messages; else that archive's number. 404 when there is no such
    file.
    """

    operation: ClassVar[Operation] = Operation.CONTENT_READ
    identity: Identity
    session_id: str
    archive: int | None
    offset: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListArchives:
    """List the numbers of the session's archives, ascending. Answer: tuple of int."""

    operation: ClassVar[Operation] = Operation.FS_LIST
    identity: Identity
    session_id: str


Command = (
    Health
    | EnsureSession
    | CreateSession
    | GetSession
    | AddMessages
    | CommitSession
    | Search
    | GetTask
    | ListTasks
    | ReadMessages
    | ListArchives
)


# -- answers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """What the health check said; ``user`` is the one the server bound the key to, if told."""

    version: str | None
    user: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Counters of a session: messages ever added, messages not yet archived, archives made."""

    total_messages: int
    live_messages: int
    commit_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt:
    """The batch was stored; ``live_messages`` is the session's live count after it."""

    live_messages: int
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReceipt:
    """``accepted`` False = skipped: there was nothing to archive, which is success."""

    accepted: bool
    task_id: str | None
    archive: int | None
    archive_uri: str | None


class TaskStatus(StrEnum):
    """State of an extraction task."""

    PENDING = "pending"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One extraction task."""

    task_id: str
    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """Source ids of the stored lines, one tuple a line (empty = a line without marks).

    ``unreadable_lines`` counts lines that are no message at all.
    """

    lines: tuple[tuple[str, ...], ...]
    unreadable_lines: int = 0


Value = (
    ServerHealth
    | SessionInfo
    | BatchReceipt
    | CommitReceipt
    | tuple[ServerHit, ...]
    | TaskInfo
    | tuple[TaskInfo, ...]
    | StoredPage
    | tuple[int, ...]
    | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A clean success: the status was 2xx and the whole answer had the expected shape."""

    value: Value
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that did not succeed, as plain facts for the classifier.

    Attributes:
        kind: why.
        evidence: whether the server may have applied it.
        status: HTTP status when a whole answer came.
        code: the envelope's error code, ``[A-Z_]{1,64}``, or None.
        enveloped: the answer had OpenViking's error envelope (so the server itself spoke).
        provider_fault: the envelope blames the server's model provider.
        retry_after_s: the answer's hint in seconds, >= 0, already compared with its own date.
        invalid_indices: positions in the batch that the server named as invalid.
        too_large: the reply exceeded the body cap.
        wire_s: seconds between the first byte sent and the end of the attempt; 0 if none left.
        reach_s: seconds the attempt had to reach the host, without the wait for a place in our own
            pool; None = all its time.
        byte_received: at least one byte of a reply came, so the host itself is reachable.
        request_id: our own random id of the attempt, for the server's logs; set by the use cases.
    """

    kind: FailureKind
    evidence: Evidence
    status: int | None = None
    code: str | None = None
    enveloped: bool = False
    provider_fault: bool = False
    retry_after_s: float | None = None
    invalid_indices: tuple[int, ...] = ()
    too_large: bool = False
    wire_s: float = 0.0
    reach_s: float | None = None
    byte_received: bool = False
    request_id: str | None = None


Answer = Success | Failure
