"""The status sink: keeps what an operator asks first, ready to be shown as a plain dict.

Rule: in memory only; writing it to a file is somebody else's work. What is shown passes the
allow-list; what becomes a key is made a closed word first, so an event with another one is
refused (ValueError) and counted as an error of this sink.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov.domain.ports import Clock
from resilient_ov.events.sinks import Handler
from resilient_ov_observability import redaction
from resilient_ov_observability.advice import Facts, is_healthy, problems
from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.uptime import Uptime


class StatusBoard:
    """Answers: is memory healthy, since when, what waits, what is closed, why, what next.

    Thread-safe. ``revision`` grows with every change worth writing down; a success is none.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._config: events.ConfigLoaded | None = None
        self._switches: dict[events.Group, events.SwitchMode] = {}
        self._handlers: dict[type, Handler] = {
            events.OperationFinished: self._operation,
            events.CallFinished: self._call,
            events.AttemptFailed: self._attempt,
            events.BreakerChanged: self._breaker,
            events.HoldChanged: self._hold,
            events.SwitchChanged: self._switch,
            events.PendingChanged: self._note_pending,
            events.MessagesDropped: self._drop,
            events.MessagesCounted: self._count,
            events.StateError: self._state_error,
            events.StatePersistence: self._persistence,
            events.Degraded: self._degraded,
            events.ExtractionTask: self._task,
            events.SinkError: self._sink_error,
            events.ConfigLoaded: self._note_config,
        }
        self.renew_after_fork()
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Forget what speaks of the parent; configuration and switches are still true."""
        self._lock = threading.RLock()
        self.revision = 0
        self._uptime = Uptime()
        self._breakers: dict[events.Group, tuple[events.BreakerState, str]] = {}
        self._holds_until_s: dict[tuple[events.Group, events.HoldKind], float] = {}
        self._pending = events.PendingChanged(writes=0, in_doubt=0)
        self._persistent = True
        self._last_success_s: dict[Operation, float] = {}
        self._last_failure: tuple[events.OperationFinished, float] | None = None
        self._calls: Counter[str] = Counter()
        self._degradations: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._state_errors: Counter[events.StateErrorReason] = Counter()
        self._tasks: Counter[str] = Counter()
        self._sink_errors: Counter[str] = Counter()
        self._started_at = self._clock.utc_iso()
        self._healthy: bool | None = None
        self._since_at = self._started_at

    def emit(self, event: events.Event) -> None:
        """Take one event."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def handlers(self) -> Mapping[type, Handler]:
        """Return what to call per event class."""
        return self._handlers

    # -- showing

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON-clean values; the same shape always."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            self._judge(now_s)
            facts = self._facts(now_s)
            found = problems(facts)
            return {
                "healthy": self._healthy,
                "since": self._since_at,
                "up": self._uptime.up,
                "why": [problem.why for problem in found],
                "next": list(dict.fromkeys(problem.next for problem in found)),
                "breakers": {
                    group.value: {"state": state.value, "since": since_at}
                    for group, (state, since_at) in self._breakers.items()
                },
                "holds": [
                    {"group": group.value, "kind": kind.value, "left_s": round(left_s, 1)}
                    for (group, kind), left_s in facts.holds.items()
                ],
                "switches": {group.value: mode.value for group, mode in self._switches.items()},
                "pending": {
                    "writes": self._pending.writes,
                    "in_doubt": self._pending.in_doubt,
                    "commits": self._pending.commits,
                    "oldest_s": self._pending.oldest_s,
                },
                "state": {"persistent": self._persistent, "errors": _words(self._state_errors)},
                "messages": _words(self._messages),
                "dropped": _words(self._dropped),
                "calls": _words(self._calls),
                "degraded": _words(self._degradations),
                "extraction_tasks": _words(self._tasks),
                "sink_errors": _words(self._sink_errors),
                "seconds_since_success": {
                    operation.value: round(now_s - self._last_success_s[operation], 1)
                    for operation in Operation
                    if operation in self._last_success_s
                },
                "last_failure": self._told_failure(now_s),
                "process": {"started": self._started_at, **self._told_config()},
            }

    def _told_failure(self, now_s: float) -> dict[str, object] | None:
        if self._last_failure is None:
            return None
        event, then_s = self._last_failure
        fields = redaction.clean(
            {
                "operation": event.operation,
                "reason": event.reason,
                "status_code": event.status_code,
                "error_type": event.error_type,
                "request_id": event.request_id,
                "session_hash": event.origin.session_hash,
                "trace_id": event.origin.trace_id,
            }
        )
        return {**fields, "seconds_ago": round(now_s - then_s, 1)}

    def _told_config(self) -> dict[str, object]:
        config = self._config
        if config is None:
            return {}
        return redaction.clean(
            {
                "version": config.version,
                "server_profile": config.server_profile,
                "account_alias": config.account_alias,
                "settings": config.summary,
            }
        )

    # -- judging

    def _facts(self, now_s: float) -> Facts:
        return Facts(
            up=self._uptime.up,
            breakers={group: state for group, (state, _since) in self._breakers.items()},
            holds={
                key: until_s - now_s
                for key, until_s in self._holds_until_s.items()
                if until_s > now_s
            },
            switches=self._switches,
            persistent=self._persistent,
            writes=self._pending.writes,
            in_doubt=self._pending.in_doubt,
            dropped=self._dropped.total(),
            state_errors=frozenset(self._state_errors),
        )

    def _judge(self, now_s: float) -> None:
        healthy = is_healthy(self._facts(now_s))
        if healthy is not self._healthy:
            self._healthy = healthy
            self._since_at = self._clock.utc_iso()

    def _changed(self) -> None:
        self.revision += 1
        self._judge(self._clock.monotonic_s())

    # -- events

    def _operation(self, event: events.OperationFinished) -> None:
        if event.status is events.OperationStatus.OK:
            self._last_success_s[event.operation] = self._clock.monotonic_s()
            if self._uptime.succeeded():
                with self._lock:
                    self._changed()
        elif event.status in (events.OperationStatus.ERROR, events.OperationStatus.UNKNOWN):
            with self._lock:
                self._last_failure = event, self._clock.monotonic_s()
                self.revision += 1

    def _call(self, event: events.CallFinished) -> None:
        with self._lock:
            self._calls[event.outcome] += 1

    def _attempt(self, event: events.AttemptFailed) -> None:
        with self._lock:
            if self._uptime.attempted(event.outcome):
                self._changed()

    def _breaker(self, event: events.BreakerChanged) -> None:
        with self._lock:
            group, state = events.Group(event.group), events.BreakerState(event.to_state)
            self._breakers[group] = state, self._clock.utc_iso()
            self._uptime.breaker(group, state)
            self._changed()

    def _hold(self, event: events.HoldChanged) -> None:
        with self._lock:
            key = events.Group(event.group), events.HoldKind(event.kind)
            if event.hold_s > 0.0:
                self._holds_until_s[key] = self._clock.monotonic_s() + event.hold_s
            else:
                self._holds_until_s.pop(key, None)
            if event.kind is events.HoldKind.AUTH:
                self._uptime.auth_hold(key[0], stands=event.hold_s > 0.0)
            self._changed()

    def _switch(self, event: events.SwitchChanged) -> None:
        with self._lock:
            self._switches[events.Group(event.group)] = events.SwitchMode(event.mode)
            self._changed()

    def _note_pending(self, event: events.PendingChanged) -> None:
        with self._lock:
            self._pending = event
            self.revision += 1

    def _drop(self, event: events.MessagesDropped) -> None:
        with self._lock:
            self._dropped[event.reason] += event.count
            self.revision += 1

    def _count(self, event: events.MessagesCounted) -> None:
        with self._lock:
            self._messages[event.result] += event.count

    def _state_error(self, event: events.StateError) -> None:
        with self._lock:
            self._state_errors[events.StateErrorReason(event.reason)] += 1
            self._changed()

    def _persistence(self, event: events.StatePersistence) -> None:
        with self._lock:
            self._persistent = event.persistent
            self._changed()

    def _degraded(self, event: events.Degraded) -> None:
        with self._lock:
            self._degradations[event.reason] += 1
            self.revision += 1

    def _task(self, event: events.ExtractionTask) -> None:
        with self._lock:
            self._tasks[event.status] += 1

    def _sink_error(self, event: events.SinkError) -> None:
        with self._lock:
            self._sink_errors[event.sink] += 1
            self.revision += 1

    def _note_config(self, event: events.ConfigLoaded) -> None:
        with self._lock:
            self._config = event
            self.revision += 1


def _words(counter: Mapping[Any, int]) -> dict[str, int]:
    """Return counts by closed word; what is no such word is not shown."""
    return {
        str(word): number
        for key, number in sorted(counter.items())
        if (word := redaction.permit("reason", key)) is not None
    }
