"""The log sink: what happened, in one line of JSON each, without filling the log.

Rule: a success is DEBUG; a failure is one line per (event, reason) and minute with a count of
what was held back; an outage is one "degraded" and one "recovered" per group; auth and scope
failures are ERROR. What a line says is in `wording.py`.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from logging import DEBUG
from typing import Any, Final

from resilient_ov import events
from resilient_ov.domain.ports import Clock
from resilient_ov.events.sinks import Handler
from resilient_ov_observability import redaction, wording
from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.limits import Limiter
from resilient_ov_observability.line import LineWriter, to_json
from resilient_ov_observability.outages import News, Outages
from resilient_ov_observability.wording import Line

LOGGER_NAME: Final = "resilient_ov"
RECENT_LINES: Final = 200

_NO_OUTAGE: Final = frozenset({events.DegradeReason.SCOPE, events.DegradeReason.SYNC_ON_LOOP})


class LogSink:
    """Writes events as lines of JSON to the logger ``resilient_ov``.

    Args:
        clock: monotonic time for the limits, wall time for display.
        account_alias: harmless name of the account, told in every line.
        logger_name: another logger, for a host that wants one.
        host_trace: the host's binding of its trace id; entered while a line of a call is
            written, so that lines from our own threads carry it in the host's format too.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        account_alias: str | None = None,
        logger_name: str = LOGGER_NAME,
        host_trace: Callable[[str], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._clock = clock
        self._account_alias = account_alias
        self._host_trace = host_trace
        self._writer = LineWriter(logger_name, clock.monotonic_s)
        self.renew_after_fork()
        self._handlers: dict[type, Handler] = {
            kind: self._said(words) for kind, words in wording.WORDING.items()
        } | {
            events.OperationFinished: self._operation,
            events.BreakerChanged: self._breaker,
            events.HoldChanged: self._hold,
            events.MessagesDropped: self._drop,
            events.PendingChanged: self._note_pending,
            events.StatePersistence: self._persistence,
            events.Degraded: self._degraded,
        }
        renew_in_children(self)

    def emit(self, event: events.Event) -> None:
        """Write the event if it is worth a line."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def handlers(self) -> Mapping[type, Handler]:
        """Return what to call per event class."""
        return self._handlers

    def port_in_use(self) -> None:
        """Tell that the metrics port is taken, so that this process shows no page for now."""
        self._say(wording.port_in_use())

    def recent(self) -> list[str]:
        """Return the last lines above DEBUG, oldest first, at most 200; whatever the log level."""
        return [
            to_json({"event": event, **redaction.clean(fields)})
            for event, fields in list(self._recent)
        ]

    def renew_after_fork(self) -> None:
        """Begin with no outage and nothing held back."""
        self._recent: deque[tuple[str, wording.Fields]] = deque(maxlen=RECENT_LINES)
        self._lock = threading.Lock()
        self._limiter = Limiter()
        self._outages = Outages()
        self._open: set[events.Group] = set()
        self._persistent = True
        self._dropped = 0
        self._pending = 0

    # -- writing

    def _said(self, words: Callable[[Any], Line | None]) -> Handler:
        def handle(event: Any) -> None:
            line = words(event)
            if line is not None:
                self._say(line)

        return handle

    def _say(self, line: Line) -> None:
        fields = line.fields
        if line.level != DEBUG and line.every_s > wording.ALWAYS_S:
            limited = self._limited(line)
            if limited is None:
                return
            fields = limited
        origin = line.origin
        told = {
            **fields,
            "account_alias": self._account_alias,
            "user_hash": origin.user_hash,
            "session_hash": origin.session_hash,
            "trace_id": origin.trace_id,
        }
        if line.level > DEBUG:
            self._recent.append((line.event, told))
        if self._host_trace is None or origin.trace_id is None:
            self._writer.write(line.level, line.event, told)
        elif self._writer.wants(line.level):
            with self._host_trace(origin.trace_id):
                self._writer.write(line.level, line.event, told)

    def _limited(self, line: Line) -> wording.Fields | None:
        """Return the fields with what was held back before, or None to hold this line back."""
        # The reason becomes a key that is kept, so it must be one of the closed words.
        reason = str(redaction.permit("reason", line.fields.get("reason")))
        dropped = line.fields.get("dropped")
        with self._lock:
            through = self._limiter.admit(
                line.event,
                reason,
                self._clock.monotonic_s(),
                period_s=line.every_s,
                amount=dropped if isinstance(dropped, int) else 0,
            )
        if through is None:
            return None
        fields: wording.Fields = {**line.fields, "suppressed": through.suppressed or None}
        if dropped is not None:
            fields["dropped"] = through.amount
        return fields

    # -- what needs a memory

    def _operation(self, event: events.OperationFinished) -> None:
        if event.status is events.OperationStatus.OK and self._outages.current:
            self._succeeded(event.group)
        if self._writer.wants(DEBUG) or event.status not in wording.QUIET_STATUSES:
            self._say(wording.operation(event))

    def _breaker(self, event: events.BreakerChanged) -> None:
        opened = event.to_state is events.BreakerState.OPEN
        with self._lock:
            (self._open.add if opened else self._open.discard)(event.group)
        self._say(wording.breaker(event))
        if opened:
            self._failed(event.group, events.DegradeReason.UNAVAILABLE)
        elif event.group is events.Group.HOST and event.to_state is events.BreakerState.CLOSED:
            self._succeeded(event.group)

    def _hold(self, event: events.HoldChanged) -> None:
        if event.kind is events.HoldKind.AUTH and event.hold_s > 0.0:
            self._failed(event.group, events.DegradeReason.AUTH)

    def _drop(self, event: events.MessagesDropped) -> None:
        with self._lock:
            self._dropped += event.count
        self._say(wording.drop(event))

    def _note_pending(self, event: events.PendingChanged) -> None:
        self._pending = event.writes

    def _persistence(self, event: events.StatePersistence) -> None:
        again = event.persistent and not self._persistent
        self._persistent = event.persistent
        if again:
            self._say(wording.persistent_again())

    def _degraded(self, event: events.Degraded) -> None:
        if event.group is None or event.reason in _NO_OUTAGE:
            self._say(wording.degraded_call(event))
        else:
            self._failed(event.group, event.reason, event.error_type, event.origin)

    def _failed(
        self,
        group: events.Group,
        reason: events.DegradeReason,
        error_type: str | None = None,
        origin: events.Origin = events.NOBODY,
    ) -> None:
        now_s = self._clock.monotonic_s()
        with self._lock:
            news = self._outages.failed(
                group, reason, now_s, at_utc=self._clock.utc_iso, dropped=self._dropped
            )
        if news is not None:
            kind, outage = news
            self._say(
                wording.degraded(outage, error_type, origin)
                if kind is News.DEGRADED
                else wording.lasting(outage, now_s, self._pending, self._dropped)
            )

    def _succeeded(self, group: events.Group | None) -> None:
        now_s = self._clock.monotonic_s()
        with self._lock:
            # A server that answers is reached, so the host is back too; an answer that was under
            # way when a breaker opened proves nothing.
            ended = [
                self._outages.succeeded(one)
                for one in (group, events.Group.HOST)
                if one is not None and one not in self._open
            ]
        for outage in ended:
            if outage is not None:
                self._say(wording.recovered(outage, now_s, self._pending, self._dropped))
