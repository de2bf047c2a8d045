"""The one table: for each operation its group, its replay class and what may be tried again.

Rule: no other module decides by the name of an operation.

400, 401, 403, 404, 412 and 413 are in no row: they are never tried again. 500 is an answer to
reads only: after a write it does not tell whether the write was applied. TLS failures are in no
row: a handshake that failed fails again.
"""

from collections.abc import Mapping
from types import MappingProxyType

from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov.policy.rules import Degradation, Group, OperationRule, ReplayClass

_NO_ANSWER = frozenset({FailureKind.CONNECT, FailureKind.TIMEOUT, FailureKind.RESET})
_BUSY_STATUSES = frozenset({429, 502, 503, 504})
_READ_STATUSES = _BUSY_STATUSES | {500}
_CONFLICT_CODES = frozenset({"WRITE_CONFLICT", "ABORTED", "CONFLICT"})
_NO_CODES: frozenset[str] = frozenset()

_UNLIMITED = 5
"""The top of the range of `retry.max_attempts`: the setting alone decides."""


def _read(
    operation: Operation,
    *routes: str,
    group: Group | None = Group.SESSION,
    path_access: bool = False,
    max_attempts: int = _UNLIMITED,
    degradation: Degradation = Degradation.DEFERRED,
) -> OperationRule:
    return OperationRule(
        operation=operation,
        routes=routes,
        group=group,
        replay=ReplayClass.SAFE,
        retry_kinds=_NO_ANSWER,
        retry_statuses=_READ_STATUSES,
        retry_once_codes=_CONFLICT_CODES,
        accepted_codes=_NO_CODES,
        path_access=path_access,
        slow_first=False,
        max_attempts=max_attempts,
        degradation=degradation,
    )


def _write(
    operation: Operation,
    *routes: str,
    group: Group,
    accepted_codes: frozenset[str] = _NO_CODES,
    slow_first: bool = False,
) -> OperationRule:
    return OperationRule(
        operation=operation,
        routes=routes,
        group=group,
        replay=ReplayClass.REPLAYABLE,
        retry_kinds=_NO_ANSWER,
        retry_statuses=_BUSY_STATUSES,
        retry_once_codes=_CONFLICT_CODES,
        accepted_codes=accepted_codes,
        path_access=False,
        slow_first=slow_first,
        max_attempts=_UNLIMITED,
        degradation=Degradation.DEFERRED,
    )


_ROWS = (
    # A health check has a short budget of its own, and an extraction task is looked up again
    # later anyway: more than one repetition of either earns nothing.
    _read(
        Operation.HEALTH,
        "GET /health",
        group=None,
        max_attempts=2,
        degradation=Degradation.REPORTED,
    ),
    _read(Operation.TASK_STATUS, "GET /api/v1/tasks/{task}", "GET /api/v1/tasks", max_attempts=2),
    _read(
        Operation.SEARCH,
        "POST /api/v1/search/find",
        group=Group.RECALL,
        degradation=Degradation.EMPTY,
    ),
    _read(Operation.SESSION_GET, "GET /api/v1/sessions/{session}"),
    _read(Operation.CONTENT_READ, "GET /api/v1/content/read", path_access=True),
    _read(Operation.FS_LIST, "GET /api/v1/fs/ls", path_access=True),
    _write(
        Operation.SESSION_ENSURE,
        "GET /api/v1/sessions/{session}",
        "POST /api/v1/sessions",
        group=Group.SESSION,
        accepted_codes=frozenset({"ALREADY_EXISTS"}),
        slow_first=True,
    ),
    _write(Operation.SESSION_COMMIT, "POST /api/v1/sessions/{session}/commit", group=Group.COMMIT),
    OperationRule(
        operation=Operation.MESSAGES_ADD,
        routes=("POST /api/v1/sessions/{session}/messages/batch",),
        group=Group.APPEND,
        replay=ReplayClass.NEVER,
        retry_kinds=_NO_ANSWER,
        retry_statuses=frozenset(),
        retry_once_codes=_NO_CODES,
        accepted_codes=_NO_CODES,
        path_access=False,
        slow_first=False,
        max_attempts=_UNLIMITED,
        degradation=Degradation.DEFERRED,
    ),
)

OPERATIONS: Mapping[Operation, OperationRule] = MappingProxyType(
    {row.operation: row for row in _ROWS}
)
"""Every operation's row."""
