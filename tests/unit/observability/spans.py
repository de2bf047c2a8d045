"""A tracer provider of one test, in the place of the process's own."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def all(self):
        return self.exporter.get_finished_spans()

    @property
    def only(self):
        (span,) = self.all
        return span

    def named(self, name):
        return [span for span in self.all if span.name == name]

    @property
    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.all)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    found = Spans()

    def get_tracer(name, version=None, tracer_provider=None, schema_url=None, attributes=None, **_):
        del tracer_provider
        return found.provider.get_tracer(name, version, schema_url, attributes)

    monkeypatch.setattr(trace, "get_tracer", get_tracer)
    yield found
    found.provider.shutdown()
