"""Writes one event as one line of JSON: the message of one ordinary log record.

Rule: only what the allow-list permits is written, and nothing but printable ASCII, so that no
value can forge a line. structlog renders with processors of our own, whatever the host has
configured; without structlog the line is the same. A host whose handlers hang is held by them
twice, not for ever.
"""

import json
import logging
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from resilient_ov_observability import redaction
from resilient_ov_observability.optional import optional

_HERE: Final = "resilient_ov_observability/line.py"

# Imported with this module, not with the first line: it takes longer than a call may.
_structlog: Final[Any] = optional("structlog")


def _nothing(_value: object) -> None:
    """Stand for a value that is no JSON."""


_encode: Final = json.JSONEncoder(ensure_ascii=True, default=_nothing).encode

SLOW_WRITE_S: Final = 0.25
"""A handler of the host that takes longer than this has held its caller."""
SLOW_WRITES: Final = 2
"""So many in a row and lines are left out for a while; one may be a process that was stopped."""
REST_S: Final = 30.0


class LogHeldError(Exception):
    """The host's log handlers hold their callers; lines are left out for a while."""


def to_json(fields: Any, **_settings: Any) -> str:
    """Return one line of ASCII; control characters and line separators are escaped."""
    return _encode(fields)


def _permitted(
    _logger: object, _method: str, fields: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    return {"event": fields.pop("event"), **redaction.clean(fields)}


class LineWriter:
    """Writes lines to one logger. Thread-safe."""

    def __init__(self, logger_name: str, monotonic_s: Callable[[], float]) -> None:
        self._logger = logging.getLogger(logger_name)
        self._monotonic_s = monotonic_s
        self._render = _renderer(self._logger)
        self._slow_writes = 0
        self._rests_until_s = float("-inf")
        self.wants = self._logger.isEnabledFor
        """Tells whether a line of a level would be seen at all."""

    def write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        """Write one line; ``event`` is one of our own names.

        Raises:
            LogHeldError: after the line was written, when writing has held its callers for too
                long; the next lines are left out for 30 s.
        """
        if not self.wants(level):
            return
        began_s = self._monotonic_s()
        if began_s < self._rests_until_s:
            return
        self._handle(level, self._line(event, fields))
        now_s = self._monotonic_s()
        if now_s - began_s <= SLOW_WRITE_S:
            self._slow_writes = 0
            return
        self._slow_writes += 1
        if self._slow_writes >= SLOW_WRITES:
            self._slow_writes = 0
            self._rests_until_s = now_s + REST_S
            raise LogHeldError

    def _handle(self, level: int, line: str) -> None:
        # What Logger.log does, without the walk over the stack: its answer would always be this
        # file, and the walk costs as much as the rest.
        logger = self._logger
        logger.handle(logger.makeRecord(logger.name, level, _HERE, 0, line, (), None))

    def _line(self, event: str, fields: dict[str, Any]) -> str:
        if self._render is not None:
            try:
                return self._render(event, fields)
            except Exception:  # noqa: BLE001 - a broken renderer must not cost the line
                self._render = None
        return to_json(_permitted(None, "", {"event": event, **fields}))


def _renderer(logger: logging.Logger) -> Callable[[str, dict[str, Any]], str] | None:
    """Return structlog's way from an event to a line, or None when structlog does not work."""
    if _structlog is None:
        return None
    try:

        class Renderer(_structlog.BoundLoggerBase):  # type: ignore[misc]
            """Runs the processors; writing is ours, with the level of the line."""

            def render(self, event: str, fields: dict[str, Any]) -> str:
                arguments, _keywords = self._process_event("log", event, fields)
                line: str = arguments[0]
                return line

        wrapped = _structlog.wrap_logger(
            logger,
            processors=[_permitted, _structlog.processors.JSONRenderer(serializer=to_json)],
            wrapper_class=Renderer,
            context_class=dict,
            cache_logger_on_first_use=False,
        )
        render: Callable[[str, dict[str, Any]], str] = wrapped.bind().render
    except Exception:  # noqa: BLE001 - the same line is written without it
        return None
    return render
