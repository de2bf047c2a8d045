"""Everything that watches one manager, built from its settings.

Rule: a sink that cannot be made is left out; memory works without it. Nothing is bound and no
thread started before the first call.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx

from resilient_ov import events
from resilient_ov.domain.ports import Clock
from resilient_ov.settings import MetricsSettings, TracingSettings
from resilient_ov_observability.exporter import MetricsExporter
from resilient_ov_observability.exposure import Asgi, metrics_asgi_app, metrics_page
from resilient_ov_observability.http_spans import transport_wraps
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.status import StatusBoard
from resilient_ov_observability.tracing import TraceSink


class Observer:
    """The sinks of one manager as one, and what else surrounds its calls.

    Thread-safe; goes on in a forked child.

    Args:
        metrics: whether and where metrics are shown.
        tracing: whether there are spans.
        clock: time of the limits and of the status.
        account_alias: harmless name of the account, told in log lines.
        registry: a host's ``CollectorRegistry``; None = the process's own.

    Attributes:
        sink: takes every event.
        log: the log sink, which also keeps the last lines.
        status: the status board.
        wrap: puts spans, or only their suppression, around a transport.
        wrap_async: the same for event loops.
    """

    wrap: Callable[[httpx.BaseTransport], httpx.BaseTransport]
    wrap_async: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport]

    def __init__(
        self,
        *,
        metrics: MetricsSettings,
        tracing: TracingSettings,
        clock: Clock,
        account_alias: str | None = None,
        registry: Any = None,
    ) -> None:
        self._registry = registry
        self.log = LogSink(clock=clock, account_alias=account_alias)
        self.status = StatusBoard(clock=clock)
        self._trace = TraceSink(http_spans=tracing.http_spans) if tracing.enabled else None
        self._metrics: MetricsSink | None = None
        self._exporter: MetricsExporter | None = None
        if metrics.enabled:
            span_trace_id = None if self._trace is None else self._trace.current_trace_id
            self._metrics = MetricsSink(registry, exemplar_trace_id=span_trace_id)
            if metrics.port is not None:
                self._exporter = MetricsExporter(
                    host=metrics.host,
                    port=metrics.port,
                    registry=registry,
                    on_port_in_use=self.log.port_in_use,
                )
        sinks: dict[events.SinkName, events.EventSink | None] = {
            events.SinkName.METRICS: self._metrics,
            events.SinkName.STATUS: self.status,
            events.SinkName.TRACE: self._trace,
            events.SinkName.LOG: self.log,
        }
        self.sink = events.fan_out({name: sink for name, sink in sinks.items() if sink is not None})
        if self._trace is not None:
            self.wrap, self.wrap_async = self._trace.wrap, self._trace.wrap_async
        else:
            self.wrap, self.wrap_async = transport_wraps(spans=False)

    def scope_call(self, call: events.Call, /) -> AbstractContextManager[None]:
        """Return what surrounds one call; the first one starts the exporter."""
        if self._exporter is not None:
            self._exporter.start()
        return events.no_scope(call) if self._trace is None else self._trace.scope_call(call)

    def metrics_app(self) -> Asgi:
        """Return an ASGI app with the metrics page, to be mounted by the host."""
        return metrics_asgi_app(self._registry)

    def metrics_page(self) -> bytes:
        """Return the metrics page as text."""
        return metrics_page(self._registry)

    def close(self) -> None:
        """Stop the exporter and take this manager's part out of shared gauges; idempotent."""
        if self._exporter is not None:
            self._exporter.close()
        if self._metrics is not None:
            self._metrics.close()
