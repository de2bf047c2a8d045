"""Where the backend's events go: the sinks of the observability package, and the key's source.

Rule: nothing here is a reason for memory not to work; a sink whose library is missing or broken
does nothing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from resilient_ov import events
from resilient_ov.adapters.clock import SystemClock
from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.composition import Surroundings
from resilient_ov.operations import OPERATIONS
from resilient_ov.settings import Settings
from resilient_ov_observability.exporter import MetricsExporter
from resilient_ov_observability.exposure import metrics_asgi_app
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.status import StatusBoard
from resilient_ov_observability.tracing import TraceSink
from resilient_ov_observability.version import VERSION

TraceContext = Callable[[str], AbstractContextManager[Any]]


class Sinks:
    """Builds what surrounds a backend. One per manager; the sinks renew themselves after a fork.

    Args:
        settings: which sinks are wanted.
        trace_context_manager: the host's; binds its trace id while a line is written.
        metrics_registry: a host's registry; None = the process's own.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        trace_context_manager: TraceContext | None,
        metrics_registry: Any,
    ) -> None:
        self._settings = settings
        self._registry = metrics_registry
        self._key = ApiKeySource(settings.auth)
        self._key.refresh()
        self._clock = SystemClock()
        self._log = LogSink(
            clock=self._clock,
            account_alias=settings.auth.alias,
            host_trace=trace_context_manager,
        )
        self._board = StatusBoard(clock=self._clock)
        self._trace: TraceSink | None = None
        if settings.tracing.enabled:
            routes = [route for rule in OPERATIONS.values() for route in rule.routes]
            self._trace = TraceSink(http_spans=settings.tracing.http_spans, routes=routes)
        # Registering metrics reads the process's figures, which an event loop must not do, so it
        # is done here and not at the first call.
        self._metrics = self._made_metrics() if settings.metrics.enabled else None
        self._exporter: MetricsExporter | None = None

    def surroundings(self) -> Surroundings:
        """Return the sink, the key and the transports of one process, and begin to show metrics."""
        sinks: dict[events.SinkName, events.EventSink] = {
            events.SinkName.LOG: self._log,
            events.SinkName.STATUS: self._board,
        }
        if self._metrics is not None:
            sinks[events.SinkName.METRICS] = self._metrics
            self._start_exporter()
        if self._trace is not None:
            sinks[events.SinkName.TRACE] = self._trace
        sink = events.fan_out(sinks)
        summary = self._settings.redacted_summary(api_key_set=self._key.current() is not None)
        sink.emit(
            events.ConfigLoaded(
                version=VERSION,
                server_profile=self._settings.server_profile.value,
                account_alias=self._settings.auth.alias,
                summary=tuple(summary.items()),
            )
        )
        around = Surroundings(
            sink=sink,
            key=self._current_key,
            refresh_key=self._refresh_key,
            board=_BoardWithLines(self._board, self._log),
        )
        if self._trace is None:
            return around
        return replace(
            around,
            scope_call=self._trace.scope_call,
            wrap=self._trace.wrap,
            wrap_async=self._trace.wrap_async,
        )

    @property
    def board(self) -> StatusBoard:
        """What is known of the health of this process."""
        return self._board

    def metrics_app(self) -> Any:
        """Return an ASGI app that serves the metrics page, to be mounted by a host."""
        return metrics_asgi_app(self._registry)

    def close(self) -> None:
        """Stop the exporter and take our part out of shared gauges; idempotent."""
        if self._exporter is not None:
            self._exporter.close()
        if self._metrics is not None:
            self._metrics.close()

    def _made_metrics(self) -> MetricsSink:
        trace = self._trace
        return MetricsSink(
            self._registry, exemplar_trace_id=None if trace is None else trace.current_trace_id
        )

    def _start_exporter(self) -> None:
        port = self._settings.metrics.port
        if port is not None and self._exporter is None:
            self._exporter = MetricsExporter(
                host=self._settings.metrics.host,
                port=port,
                registry=self._registry,
                on_port_in_use=self._log.port_in_use,
            )
        if self._exporter is not None:
            self._exporter.start()

    def _current_key(self) -> str | None:
        key = self._key.current()
        return None if key is None else key.reveal()

    def _refresh_key(self) -> bool:
        return self._key.refresh(force=True)


class _BoardWithLines:
    """The status with the newest log lines, as it is written to the status file."""

    def __init__(self, board: StatusBoard, log: LogSink) -> None:
        self._board = board
        self._log = log

    @property
    def revision(self) -> int:
        """Grow with every change worth writing down."""
        return self._board.revision

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON-clean values."""
        return {**self._board.snapshot(), "recent": self._log.recent()}
