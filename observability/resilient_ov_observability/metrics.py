"""The metrics sink: counts events into the catalogue's series.

Rule: no series beyond the catalogue; an event with a word that the catalogue does not know counts
as an error of this sink and as nothing else.
"""

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov.events.sinks import Handler
from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.metric_set import PLAN, MetricSet, shared_metric_set
from resilient_ov_observability.uptime import Uptime
from resilient_ov_observability.version import VERSION

_BREAKER_VALUES: Final = {
    events.BreakerState.CLOSED: 0.0,
    events.BreakerState.HALF_OPEN: 1.0,
    events.BreakerState.OPEN: 2.0,
}
_SUCCESS_EVERY_S: Final = 1.0
"""How exact the last-success timestamps are; setting them each time would cost as much again."""
_holders = count()

_slot = PLAN.slot


class _OperationSlots:
    """The series an operation call touches."""

    __slots__ = ("counters", "duration", "last_success", "succeeded_s")

    def __init__(self, operation: Operation) -> None:
        self.counters: dict[str, tuple[int, ...]] = {
            status: (_slot("openviking_requests_total", operation, status),)
            for status in events.OperationStatus
        }
        # A successful call has exactly one successful attempt, which has no event of its own.
        self.counters[events.OperationStatus.OK] += (
            _slot("openviking_attempts_total", operation, events.AttemptOutcome.OK),
        )
        self.duration = _slot("openviking_request_duration_seconds", operation)
        self.last_success = _slot("openviking_last_success_timestamp_seconds", operation)
        self.succeeded_s = 0.0


class _CallSlots:
    """The series a call of the manager touches."""

    __slots__ = ("counters", "duration", "overshoot")

    def __init__(self, call: events.Call) -> None:
        self.counters: dict[str, tuple[int, ...]] = {
            outcome: (_slot("openviking_calls_total", call, outcome),)
            for outcome in events.CallOutcome
        }
        self.duration = _slot("openviking_call_duration_seconds", call)
        self.overshoot = _slot("openviking_deadline_overshoot_seconds", call)


class MetricsSink:
    """Counts events. Several sinks on one registry add to the same series.

    A sink that does nothing when ``prometheus_client`` is missing or broken, or when the registry
    holds somebody else's metrics of these names; ``working`` tells.

    Args:
        registry: a ``CollectorRegistry``; None = the process's own.
        wall_s: Unix time.
        exemplar_trace_id: gives the trace id of the current span, or None; else the trace id of
            the event's origin becomes the exemplar.

    """

    def __init__(
        self,
        registry: Any = None,
        *,
        wall_s: Callable[[], float] = time.time,
        exemplar_trace_id: Callable[[], str | None] | None = None,
    ) -> None:
        found = shared_metric_set(registry, wall_s)
        self.working = found is not None
        self._set = found or MetricSet(_Nowhere())
        self._store = self._set.store
        self._wall_s = wall_s
        self._span_trace_id = exemplar_trace_id
        self._holder = next(_holders)
        self._uptime = Uptime()
        self._operations = {operation: _OperationSlots(operation) for operation in Operation}
        self._calls = {call: _CallSlots(call) for call in events.Call}
        self._in_flight = {group: _slot("openviking_in_flight", group) for group in events.ENTERED}
        self._misfit = _slot("openviking_sink_errors_total", events.SinkName.METRICS)
        self._handlers = {kind: self._guarded(handle) for kind, handle in self._table().items()}
        # The two on the path of every success guard themselves: a wrapper would cost as much as
        # the counting.
        self._handlers |= {events.OperationFinished: self._operation, events.InFlight: self._flight}
        for group in events.ENTERED:
            self._switch(events.SwitchChanged(group=group, mode=events.SwitchMode.NORMAL))
        renew_in_children(self)

    def emit(self, event: events.Event) -> None:
        """Count one event."""
        handle = self._handlers.get(type(event))
        if handle is not None and self.working:
            handle(event)

    def handlers(self) -> Mapping[type, Handler]:
        """Return what to call per event class."""
        return self._handlers if self.working else {}

    def close(self) -> None:
        """Take this sink's part out of the gauges it shares with other sinks."""
        self._set.gauges.withdraw(self._holder)

    def renew_after_fork(self) -> None:
        """Begin with closed breakers and no holds, as the rest of a forked child does."""
        up = self._uptime.up
        self._uptime = Uptime()
        self._uptime.up = up

    def _table(self) -> dict[type, Handler]:
        return {
            events.CallFinished: self._call,
            events.AttemptFailed: self._attempt,
            events.RetryScheduled: lambda e: self._add(
                "openviking_retries_total", e.operation, e.reason
            ),
            events.RetryBudgetExhausted: lambda _e: self._add(
                "openviking_retry_budget_exhausted_total"
            ),
            events.BreakerChanged: self._breaker,
            events.HoldChanged: self._hold,
            events.Refused: lambda e: self._add("openviking_refused_total", e.group, e.reason),
            events.WouldRefuse: lambda e: self._add(
                "openviking_would_refuse_total", e.group, e.reason
            ),
            events.SwitchChanged: self._switch,
            events.CommitFinished: lambda e: self._add("openviking_commit_total", e.status),
            events.MessagesCounted: lambda e: self._add(
                "openviking_messages_total", e.result, amount=e.count
            ),
            events.MessagesDropped: self._dropped,
            events.Reconciled: lambda e: self._add("openviking_reconciliations_total", e.result),
            events.Rebased: lambda e: self._add("openviking_watermark_rebases_total", e.reason),
            events.ExtractionTask: lambda e: self._add(
                "openviking_extraction_tasks_total", e.status
            ),
            events.PendingChanged: self._pending,
            events.StateError: lambda e: self._add("openviking_state_errors_total", e.reason),
            events.StatePersistence: lambda e: self._show(
                "openviking_state_persistent", value=float(e.persistent)
            ),
            events.SearchFinished: self._search,
            events.StaleRead: lambda _e: self._add("openviking_stale_reads_total"),
            events.Degraded: lambda e: self._add("openviking_degraded_total", e.reason),
            events.PoolHealed: lambda _e: self._add("openviking_pool_healed_total"),
            events.SinkError: lambda e: self._add("openviking_sink_errors_total", e.sink),
            events.ConfigLoaded: lambda e: self._show(
                "openviking_client_info", VERSION, e.server_profile, value=1.0
            ),
            events.CanaryFinished: self._canary,
        }

    def _guarded(self, handle: Handler) -> Handler:
        def guarded(event: Any) -> None:
            try:
                handle(event)
            except Exception:  # noqa: BLE001 - counted, and memory goes on
                self._store.add(self._misfit, 1.0)

        return guarded

    # -- the path of every success

    def _operation(self, event: events.OperationFinished) -> None:
        try:
            slots = self._operations[event.operation]
            self._store.record(
                slots.counters[event.status],
                slots.duration,
                event.duration_s,
                event.origin.trace_id if self._span_trace_id is None else self._exemplar(event),
            )
        except Exception:  # noqa: BLE001 - counted, and memory goes on
            self._store.add(self._misfit, 1.0)
            return
        if event.status is not events.OperationStatus.OK:
            return
        if self._uptime.succeeded():
            self._show_up()
        now_s = self._wall_s()
        if now_s - slots.succeeded_s >= _SUCCESS_EVERY_S:
            slots.succeeded_s = now_s
            self._set.gauges.set(slots.last_success, self._holder, now_s)

    def _flight(self, event: events.InFlight) -> None:
        try:
            self._store.add(self._in_flight[event.group], event.change)
        except Exception:  # noqa: BLE001 - counted, and memory goes on
            self._store.add(self._misfit, 1.0)

    def _call(self, event: events.CallFinished) -> None:
        slots = self._calls[event.call]
        self._store.record(
            slots.counters[event.outcome], slots.duration, event.duration_s, self._exemplar(event)
        )
        self._store.record((), slots.overshoot, event.overshoot_s)

    def _exemplar(self, event: events.OperationFinished | events.CallFinished) -> str | None:
        if self._span_trace_id is not None and (trace_id := self._span_trace_id()) is not None:
            return trace_id
        return event.origin.trace_id

    # -- the rest

    def _add(self, name: str, *values: str, amount: float = 1.0) -> None:
        slot = _slot(name, *values)
        if amount > 0.0:
            self._store.add(slot, amount)

    def _show(self, name: str, *values: str, value: float) -> None:
        self._set.gauges.set(_slot(name, *values), self._holder, value)

    def _show_up(self) -> None:
        if self._uptime.up is not None:
            self._show("openviking_up", value=float(self._uptime.up))

    def _attempt(self, event: events.AttemptFailed) -> None:
        self._add("openviking_attempts_total", event.operation, event.outcome)
        if self._uptime.attempted(event.outcome):
            self._show_up()

    def _breaker(self, event: events.BreakerChanged) -> None:
        self._add(
            "openviking_breaker_transitions_total", event.group, event.from_state, event.to_state
        )
        self._show("openviking_breaker_state", event.group, value=_BREAKER_VALUES[event.to_state])
        if self._uptime.breaker(event.group, event.to_state):
            self._show_up()

    def _hold(self, event: events.HoldChanged) -> None:
        if event.kind is events.HoldKind.AUTH and self._uptime.auth_hold(
            event.group, stands=event.hold_s > 0.0
        ):
            self._show_up()

    def _switch(self, event: events.SwitchChanged) -> None:
        for mode in events.SwitchMode:
            self._show(
                "openviking_switch_state", event.group, mode, value=float(mode is event.mode)
            )

    def _dropped(self, event: events.MessagesDropped) -> None:
        self._add("openviking_messages_dropped_total", event.reason, amount=event.count)
        self._add("openviking_messages_total", "dropped", amount=event.count)

    def _pending(self, event: events.PendingChanged) -> None:
        self._show("openviking_pending_writes", value=event.writes)
        self._show("openviking_in_doubt_batches", value=event.in_doubt)
        self._show("openviking_pending_commits", value=event.commits or 0)
        self._show("openviking_oldest_pending_seconds", value=event.oldest_s or 0.0)

    def _search(self, event: events.SearchFinished) -> None:
        self._store.record((), _slot("openviking_search_results", Operation.SEARCH), event.results)
        self._add("openviking_hits_rejected_total", amount=event.rejected)
        if event.injection_chars is not None:
            self._store.record((), _slot("openviking_injection_chars"), event.injection_chars)

    def _canary(self, event: events.CanaryFinished) -> None:
        self._add("openviking_canary_runs_total", event.step, event.outcome)
        if (event.step, event.outcome) == (events.CanaryStep.RECALL, events.CanaryOutcome.OK):
            self._show("openviking_canary_last_success_timestamp_seconds", value=self._wall_s())


class _Nowhere:
    """The store of a process without a metrics library."""

    def add(self, slot: int, amount: float) -> None:
        """Do nothing."""

    def set(self, slot: int, value: float) -> None:
        """Do nothing."""

    def record(
        self, counters: tuple[int, ...], histogram: int, value: float, trace_id: str | None = None
    ) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Do nothing."""
