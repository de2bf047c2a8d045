"""What the backend logs during the demo, kept apart from what the demo itself shows."""

import json
import logging
from types import TracebackType
from typing import Any, Self

_LOGGER = "resilient_ov"
_SHOWN = ("group", "reason", "duration_ms", "dropped", "pending")


class LogLines(logging.Handler):
    """Takes the backend's lines above DEBUG while the context lasts; the terminal gets none."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[str] = []
        self._logger = logging.getLogger(_LOGGER)
        self._before = (self._logger.level, self._logger.propagate)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line, in short."""
        self._lines.append(f"{record.levelname:<8} {_short(record.getMessage())}")

    def taken(self) -> list[str]:
        """Return the lines since the last time, and forget them."""
        lines, self._lines = self._lines, []
        return lines

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        self._logger.propagate = False
        # As in DeerFlow's gateway.
        self._logger.setLevel(logging.INFO)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._logger.removeHandler(self)
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)


def _short(message: str) -> str:
    """Return a line of JSON as words; any other line as it is."""
    if not message.startswith("{"):
        return message
    fields: dict[str, Any] = json.loads(message)
    told = [f"{name}={_value(fields[name])}" for name in _SHOWN if fields.get(name) is not None]
    return " ".join([fields["event"], *told])


def _value(value: object) -> object:
    return round(value) if isinstance(value, float) else value
