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
from resilient_ov.settings import MetricsSettings, TracingSettings
from resilient_ov_observability import redaction
from resilient_ov_observability.observer import Observer
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


@dataclasses.dataclass
class Sinks:
    observer: Observer
    registry: CollectorRegistry
    log: "Log"
    spans: typing.Any

    def texts(self):
        return {
            "log": "\n".join(self.log.lines),
            "recent": "\n".join(self.observer.log.recent()),
            "metrics": generate_latest(self.registry).decode(),
            "trace": self.spans.text,
            "status": json.dumps(self.observer.status.snapshot(), default=str),
        }


class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture
def sinks(spans):
    registry, log = CollectorRegistry(), Log()
    logger = logging.getLogger("resilient_ov")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(log)
    observer = Observer(
        metrics=MetricsSettings(),
        tracing=TracingSettings(),
        clock=ManualClock(),
        account_alias="c4n4ry@example.com",
        registry=registry,
    )
    yield Sinks(observer, registry, log, spans)
    logger.removeHandler(log)
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
    for scope in (*map(sinks.observer.scope_call, events.Call), contextlib.nullcontext()):
        with scope:
            for canary in CANARIES:
                for kind in typing.get_args(events.Event):
                    sinks.observer.sink.emit(poisoned(kind, canary, words=words))
                failed = dataclasses.replace(
                    poisoned(events.OperationFinished, canary, words=True),
                    status=events.OperationStatus.ERROR,
                )
                sinks.observer.sink.emit(failed)


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
