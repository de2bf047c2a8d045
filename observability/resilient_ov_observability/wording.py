"""How each event reads in the log: level, name, fields, how often.

Rule: pure; one function per event, collected in one table. The names are public.
"""

from collections.abc import Callable, Mapping
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Final, NamedTuple

from resilient_ov import events
from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov_observability.outages import Outage

MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0
ONCE_S: Final = float("inf")
ALWAYS_S: Final = 0.0

Fields = dict[str, object]


class Line(NamedTuple):
    """One line; ``every_s`` is the shortest time between two lines of the same name and reason."""

    level: int
    event: str
    fields: Fields
    origin: events.Origin = events.NOBODY
    every_s: float = MINUTE_S


QUIET_STATUSES: Final = frozenset(
    {
        events.OperationStatus.OK,
        events.OperationStatus.REFUSED,
        events.OperationStatus.CANCELLED,
    }
)
"""A refusal is no news: the breaker, hold or switch behind it has been told."""


_OPERATION_EVENTS: Final = {operation: f"openviking.{operation}" for operation in Operation}


def operation_event(operation: Operation) -> str:
    """Return the name of an operation's event; a closed word even if the operation is none."""
    return _OPERATION_EVENTS.get(operation, "openviking.operation")


def operation(event: events.OperationFinished) -> Line:
    """``openviking.<operation>``: one operation call."""
    if event.status in QUIET_STATUSES:
        level = DEBUG
    else:
        level = ERROR if event.reason is FailureKind.AUTH else WARNING
    fields: Fields = {
        "operation": event.operation,
        "group": event.group,
        "duration_ms": event.duration_s * 1_000.0,
        "success": event.status is events.OperationStatus.OK,
        "reason": event.reason,
        "status_code": event.status_code,
        "error_type": event.error_type,
        "retry_count": event.retry_count,
        "result_count": event.result_count,
        "request_id": event.request_id,
        "task_id": event.task_id,
    }
    return Line(
        level=level, event=operation_event(event.operation), fields=fields, origin=event.origin
    )


def retry(event: events.RetryScheduled) -> Line:
    """``openviking.retry.scheduled``: ``duration_ms`` is the wait before the attempt."""
    fields: Fields = {
        "operation": event.operation,
        "reason": event.reason,
        "retry_count": event.attempt - 1,
        "duration_ms": event.delay_s * 1_000.0,
        "request_id": event.request_id,
    }
    return Line(level=INFO, event="openviking.retry.scheduled", fields=fields, origin=event.origin)


def search(event: events.SearchFinished) -> Line | None:
    """``openviking.search``: an answer that is a reason to look at something.

    ``hits_rejected``: what a user must not see came back; ``budget_too_small``: no hit fitted
    into the room for injected text.
    """
    if event.rejected:
        reason = "hits_rejected"
    elif event.results and event.injection_chars == 0:
        reason = "budget_too_small"
    else:
        return None
    fields: Fields = {
        "operation": "search",
        "reason": reason,
        "result_count": event.results,
        "dropped": event.rejected or None,
    }
    return Line(level=WARNING, event="openviking.search", fields=fields, origin=event.origin)


def commit(event: events.CommitFinished) -> Line | None:
    """``openviking.session.commit`` with reason ``gave_up``; the rest is told by the operation."""
    if event.status is not events.CommitStatus.GAVE_UP:
        return None
    fields: Fields = {
        "operation": "session.commit",
        "success": False,
        "reason": event.status,
        "task_id": event.task_id,
    }
    return Line(level=ERROR, event="openviking.session.commit", fields=fields, origin=event.origin)


_TASK_LEVELS: Final = {
    events.ExtractionStatus.COMPLETED: DEBUG,
    events.ExtractionStatus.FAILED: WARNING,
}


def task(event: events.ExtractionTask) -> Line:
    """``openviking.task.status``: how an extraction ended."""
    fields: Fields = {
        "success": event.status is events.ExtractionStatus.COMPLETED,
        "reason": event.status,
        "task_id": event.task_id,
    }
    level = _TASK_LEVELS.get(event.status, INFO)
    return Line(level=level, event="openviking.task.status", fields=fields, origin=event.origin)


def breaker(event: events.BreakerChanged) -> Line:
    """``openviking.breaker.changed``: ``reason`` is the new state, ``duration_ms`` its length."""
    opened = event.to_state is events.BreakerState.OPEN
    if opened and event.from_state is events.BreakerState.CLOSED:
        level = WARNING
    else:
        level = INFO if event.to_state is events.BreakerState.CLOSED else DEBUG
    fields: Fields = {
        "group": event.group,
        "reason": event.to_state,
        "duration_ms": None if event.open_s is None else event.open_s * 1_000.0,
    }
    return Line(level=level, event="openviking.breaker.changed", fields=fields)


def switch(event: events.SwitchChanged) -> Line:
    """``openviking.switch.changed``: ``reason`` is the mode, ``duration_ms`` for how long."""
    fields: Fields = {
        "group": event.group,
        "reason": event.mode,
        "duration_ms": None if event.for_s is None else event.for_s * 1_000.0,
    }
    level = INFO if event.mode is events.SwitchMode.NORMAL else WARNING
    return Line(level=level, event="openviking.switch.changed", fields=fields, every_s=ALWAYS_S)


def standing(event: events.SwitchStanding) -> Line:
    """``openviking.switch.standing``: ``duration_ms`` is how long it has been set."""
    fields: Fields = {
        "group": event.group,
        "reason": event.mode,
        "duration_ms": event.since_s * 1_000.0,
    }
    return Line(level=WARNING, event="openviking.switch.standing", fields=fields, every_s=ALWAYS_S)


_DROPS: Final[Mapping[events.DropReason, tuple[int, float]]] = {
    events.DropReason.SCOPE: (ERROR, HOUR_S),
    events.DropReason.DISABLED: (WARNING, MINUTE_S),
    events.DropReason.PURGED: (INFO, MINUTE_S),
}


def drop(event: events.MessagesDropped) -> Line:
    """``openviking.write.dropped``: ``dropped`` messages were given up."""
    level, every_s = _DROPS.get(event.reason, (ERROR, MINUTE_S))
    fields: Fields = {"reason": event.reason, "dropped": event.count}
    return Line(
        level=level,
        event="openviking.write.dropped",
        fields=fields,
        origin=event.origin,
        every_s=every_s,
    )


_RECONCILED_LEVELS: Final = {
    events.ReconciliationResult.UNKNOWABLE: ERROR,
    events.ReconciliationResult.DEFERRED: DEBUG,
}


def reconciled(event: events.Reconciled) -> Line:
    """``openviking.reconciled``: what a look at the server said."""
    return Line(
        level=_RECONCILED_LEVELS.get(event.result, INFO),
        event="openviking.reconciled",
        fields={"reason": event.result},
        origin=event.origin,
    )


def rebased(event: events.Rebased) -> Line:
    """``openviking.state.repaired``: what is known to be stored was corrected."""
    return Line(
        level=DEBUG if event.reason is events.RebaseReason.EDITED else INFO,
        event="openviking.state.repaired",
        fields={"reason": event.reason},
        origin=event.origin,
    )


_STATE_ERRORS: Final[Mapping[events.StateErrorReason, tuple[str, int, float]]] = {
    events.StateErrorReason.UNREADABLE: ("openviking.state.repaired", WARNING, MINUTE_S),
    events.StateErrorReason.SERVER_CHANGED: ("openviking.state.repaired", WARNING, HOUR_S),
    events.StateErrorReason.FOREIGN_WRITER: ("openviking.state.failed", WARNING, MINUTE_S),
    events.StateErrorReason.UNWRITABLE: ("openviking.state.failed", ERROR, HOUR_S),
    events.StateErrorReason.NEWER_SCHEMA: ("openviking.state.failed", ERROR, MINUTE_S),
    events.StateErrorReason.LOCK_MISSING: ("openviking.state.failed", WARNING, ONCE_S),
}


def state_error(event: events.StateError) -> Line:
    """``openviking.state.failed``, or ``.state.repaired`` where it was put right at once."""
    name, level, every_s = _STATE_ERRORS[event.reason]
    return Line(
        level=level,
        event=name,
        fields={"reason": event.reason},
        origin=event.origin,
        every_s=every_s,
    )


_CALL_LEVELS: Final[Mapping[events.DegradeReason, tuple[int, float]]] = {
    events.DegradeReason.SCOPE: (ERROR, HOUR_S),
    events.DegradeReason.SYNC_ON_LOOP: (WARNING, ONCE_S),
}


def degraded_call(event: events.Degraded) -> Line:
    """``openviking.degraded`` of a call that no outage explains."""
    level, every_s = _CALL_LEVELS.get(event.reason, (WARNING, MINUTE_S))
    return Line(
        level=level,
        event="openviking.degraded",
        fields={"reason": event.reason, "group": event.group, "error_type": event.error_type},
        origin=event.origin,
        every_s=every_s,
    )


def sink_error(event: events.SinkError) -> Line:
    """``openviking.sink.failed``: ``reason`` is the sink."""
    return Line(level=WARNING, event="openviking.sink.failed", fields={"reason": event.sink})


def config(event: events.ConfigLoaded) -> Line:
    """``openviking.config.loaded``: a manager was made."""
    fields: Fields = {
        "version": event.version,
        "server_profile": event.server_profile,
        "settings": event.summary,
    }
    return Line(level=INFO, event="openviking.config.loaded", fields=fields, every_s=ALWAYS_S)


WORDING: Final[Mapping[type, Callable[[Any], Line | None]]] = {
    events.OperationFinished: operation,
    events.RetryScheduled: retry,
    events.SearchFinished: search,
    events.CommitFinished: commit,
    events.ExtractionTask: task,
    events.BreakerChanged: breaker,
    events.SwitchChanged: switch,
    events.SwitchStanding: standing,
    events.MessagesDropped: drop,
    events.Reconciled: reconciled,
    events.Rebased: rebased,
    events.StateError: state_error,
    events.SinkError: sink_error,
    events.ConfigLoaded: config,
}
"""Events that are worth a line by themselves."""


# -- what only several events together say ------------------------------------------------------


def degraded(outage: Outage, error_type: str | None, origin: events.Origin) -> Line:
    """``openviking.degraded``: an outage of a group began."""
    fields: Fields = {
        "group": outage.group,
        "reason": outage.reason,
        "error_type": error_type,
        "suppressed": outage.suppressed or None,
    }
    level = ERROR if outage.reason is events.DegradeReason.AUTH else WARNING
    return Line(
        level=level, event="openviking.degraded", fields=fields, origin=origin, every_s=ALWAYS_S
    )


def lasting(outage: Outage, now_s: float, pending: int, dropped: int) -> Line:
    """``openviking.health``: an outage goes on; told after five minutes, then hourly."""
    fields = _of_outage(outage, now_s, pending, dropped)
    return Line(
        level=ERROR,
        event="openviking.health",
        fields={"success": False, **fields, "first_failure_at": outage.first_failure_at},
        every_s=ALWAYS_S,
    )


def recovered(outage: Outage, now_s: float, pending: int, dropped: int) -> Line:
    """``openviking.recovered``: an outage ended."""
    fields = _of_outage(outage, now_s, pending, dropped)
    return Line(
        level=INFO,
        event="openviking.recovered",
        fields={"success": True, **fields},
        every_s=ALWAYS_S,
    )


def _of_outage(outage: Outage, now_s: float, pending: int, dropped: int) -> Fields:
    return {
        "group": outage.group,
        "reason": outage.reason,
        "duration_ms": (now_s - outage.since_s) * 1_000.0,
        "failures": outage.failures,
        "pending": pending,
        "dropped": dropped - outage.dropped_before,
    }


def persistent_again() -> Line:
    """``openviking.state.repaired``: state can be written again."""
    return Line(
        level=INFO,
        event="openviking.state.repaired",
        fields={"success": True, "reason": events.StateErrorReason.UNWRITABLE},
        every_s=ALWAYS_S,
    )


def port_in_use() -> Line:
    """``openviking.metrics.port_in_use``: this process shows no metrics page for now."""
    return Line(level=INFO, event="openviking.metrics.port_in_use", fields={}, every_s=ALWAYS_S)
