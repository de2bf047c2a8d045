"""Secrets put into every field of every event reach no sink; without the allow-list they do.

Each canary has at least one character that no id of ours has: what keeps the shape of an id
cannot be told from one.
"""

import contextlib
import dataclasses
import json
import logging
import typing
from enum import StrEnum

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from resilient_ov import events
from resilient_ov_observability import redaction
from resilient_ov_observability.logs import LogSink
from resilient_ov_observability.metrics import MetricsSink
from resilient_ov_observability.status import StatusBoard
from resilient_ov_observability.tracing import TraceSink
from tests.unit.observability.builders import ManualClock

CANARIES = [
    "sk-c4n4ry key",
    "c4n4ry@example com",
    "http://c4n4ry:c4n4ry@host/ c4n4ry?c4n4ry=1",
    "Remember: my PIN is c4n4ry",
    "line\nc4n4ry",
    "c4n4ry\u2028c4n4ry",
    "Traceback (most recent call last): c4n4ry",
]


class Sinks:
    """All sinks as one, and what they show."""

    def __init__(self, spans):
        clock = ManualClock()
        self.registry, self.lines, self.spans = CollectorRegistry(), Log(), spans
        self.trace = TraceSink()
        self.log = LogSink(clock=clock, account_alias="c4n4ry@example.com")
        self.status = StatusBoard(clock=clock)
        metrics = MetricsSink(self.registry, exemplar_trace_id=self.trace.current_trace_id)
        self.all = events.fan_out(
            {
                events.SinkName.LOG: self.log,
                events.SinkName.METRICS: metrics,
                events.SinkName.TRACE: self.trace,
                events.SinkName.STATUS: self.status,
            }
        )

    def texts(self):
        return {
            "log": "\n".join(self.lines.seen),
            "recent": "\n".join(self.log.recent()),
            "metrics": generate_latest(self.registry).decode(),
            "trace": self.spans.text,
            "status": json.dumps(self.status.snapshot(), default=str),
        }


class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


@pytest.fixture
def sinks(spans):
    made = Sinks(spans)
    logger = logging.getLogger("resilient_ov")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(made.lines)
    yield made
    logger.removeHandler(made.lines)
    logger.level, logger.propagate = level, propagate


def poisoned(kind, canary, *, words):
    """An event with the canary wherever a text fits; closed words too unless ``words`` are kept."""
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        options = typing.get_args(hints[field.name]) or (hints[field.name],)
        enums = [
            option for option in options if isinstance(option, type) and issubclass(option, StrEnum)
        ]
        if events.Origin in options:
            values[field.name] = events.Origin(
                trace_id=canary, user_hash=canary, session_hash=canary
            )
        elif enums:
            values[field.name] = next(iter(enums[0])) if words else canary
        elif field.name == "summary":
            values[field.name] = (("auth.api_key", canary), (canary, canary))
        elif str in options:
            values[field.name] = canary
        else:
            values[field.name] = options[0](1)
    return kind(**values)


def run(sinks, *, words):
    for scope in (*map(sinks.trace.scope_call, events.Call), contextlib.nullcontext()):
        with scope:
            for canary in CANARIES:
                for kind in typing.get_args(events.Event):
                    sinks.all.emit(poisoned(kind, canary, words=words))
                failed = dataclasses.replace(
                    poisoned(events.OperationFinished, canary, words=True),
                    status=events.OperationStatus.ERROR,
                )
                sinks.all.emit(failed)


def shown(sinks):
    return {name for name, text in sinks.texts().items() if "c4n4ry" in text}


@pytest.mark.parametrize("words", [True, False])
def test_no_canary_reaches_a_sink(sinks, words):
    run(sinks, words=words)
    assert shown(sinks) == set()
    assert all(sinks.texts().values())


def test_without_the_allow_list_every_sink_shows_one(sinks, monkeypatch):
    monkeypatch.setattr(redaction, "clean", dict)
    monkeypatch.setattr(redaction, "permit", lambda _field, value: value)
    run(sinks, words=True)
    assert shown(sinks) == {"log", "recent", "metrics", "trace", "status"}
