"""The words of the policy: groups, replay classes, and what the table says of one operation.

No I/O here. The table itself is `resilient_ov/operations.py`.
"""

from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.domain.exchange import FailureKind, Operation


class Group(StrEnum):
    """What shares a breaker; the values of the metric label ``group``."""

    RECALL = "recall"
    APPEND = "append"
    COMMIT = "commit"
    SESSION = "session"
    HOST = "host"
    """Connect, DNS and TLS failures of all the others; no operation belongs to it."""


OPERATION_GROUPS: tuple[Group, ...] = (
    Group.RECALL,
    Group.APPEND,
    Group.COMMIT,
    Group.SESSION,
)
"""The groups that have operations."""


class ReplayClass(StrEnum):
    """What a second sending of the same request does."""

    SAFE = "safe"
    """A read: nothing."""
    REPLAYABLE = "replayable"
    """A write whose second sending changes nothing more."""
    NEVER = "never"
    """A write that would be stored twice: sent again only when no byte of it had left."""


class Degradation(StrEnum):
    """What the caller gets when the operation cannot be done."""

    EMPTY = "empty"
    """Nothing is recalled; the agent answers without memory."""
    DEFERRED = "deferred"
    """The writer or the sweeper does it later."""
    REPORTED = "reported"
    """The caller asked for the truth and is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRule:
    """One row of the table.

    Attributes:
        operation: public name.
        routes: method and path template of each HTTP call, for spans and documents.
        group: whose breaker, holds and limits apply; None = passes every gate, never counts.
        replay: what a second sending does.
        retry_kinds: failures without a whole answer after which another attempt may help.
        retry_statuses: statuses after which another attempt may help.
        retry_once_codes: error codes after which exactly one more attempt may help.
        accepted_codes: error codes that say that what was asked for is already so.
        path_access: a 403 speaks of the path that was asked for, not of our key or identity.
        slow_first: the first one for a new identity takes the server seconds (about 2 s on 0.5).
        max_attempts: cap of this operation, below or at the configured one.
        degradation: what the caller gets in the end.
    """

    operation: Operation
    routes: tuple[str, ...]
    group: Group | None
    replay: ReplayClass
    retry_kinds: frozenset[FailureKind]
    retry_statuses: frozenset[int]
    retry_once_codes: frozenset[str]
    accepted_codes: frozenset[str]
    path_access: bool
    slow_first: bool
    max_attempts: int
    degradation: Degradation
