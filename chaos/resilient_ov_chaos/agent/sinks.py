"""Where everything goes that the product says, so that the suite can look at all of it.

Rule: nothing waits for the reader of the error output; a full pipe there must not look like a
stall of the product.
"""

import logging
import queue
import sys
from collections.abc import Sequence
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final

SPANS: Final = "span"
PAGES: Final = "metrics"


def show_logs() -> QueueListener:
    """Write every record of every logger, DEBUG included; stop the listener to write the last."""
    waiting: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    to_error_output = logging.StreamHandler(sys.stderr)
    to_error_output.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.setLevel(logging.DEBUG)
    root.addHandler(QueueHandler(waiting))
    listener = QueueListener(waiting, to_error_output)
    listener.start()
    return listener


def show_spans() -> None:
    """Write every span as a log record, if there is an OpenTelemetry SDK."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import (
            SimpleSpanProcessor,
            SpanExporter,
            SpanExportResult,
        )
    except ImportError:
        return

    logger = logging.getLogger(SPANS)

    class ToLog(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            for span in spans:
                logger.debug("%s", span.to_json(indent=None))
            return SpanExportResult.SUCCESS

    provider: Any = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToLog()))
    trace.set_tracer_provider(provider)
