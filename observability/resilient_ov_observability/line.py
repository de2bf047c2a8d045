"""Writes one event as one line of JSON: the message of one ordinary log record.

Rule: only what the allow-list permits is written, and nothing but printable ASCII, so that no
value can forge a line. structlog renders with processors of our own, whatever the host has
configured; without structlog the line is the same.
"""

import json
import logging
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from resilient_ov_observability import redaction
from resilient_ov_observability.optional import optional

# Imported with this module, not with the first line: it takes longer than a call may.
_structlog: Final = optional("structlog.stdlib") and optional("structlog")


def to_json(fields: Any, **_settings: Any) -> str:
    """Return one line of ASCII; control characters and line separators are escaped."""
    return json.dumps(fields, ensure_ascii=True, separators=(", ", ": "), default=lambda _: None)


def _permitted(
    _logger: object, _method: str, fields: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    return {"event": fields.pop("event"), **redaction.clean(fields)}


class LineWriter:
    """Writes lines to one logger. Thread-safe; never raises."""

    def __init__(self, logger_name: str) -> None:
        self._logger = logging.getLogger(logger_name)
        self._bound = _bound(self._logger)

    def wants(self, level: int) -> bool:
        """Tell whether a line of this level would be seen at all."""
        return self._logger.isEnabledFor(level)

    def write(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        """Write one line; ``event`` is one of our own names."""
        if not self.wants(level):
            return
        if self._bound is not None:
            try:
                self._bound.log(level, event, **fields)
            except Exception:  # noqa: BLE001 - a broken renderer must not cost the line
                self._bound = None
            else:
                return
        self._logger.log(level, to_json(_permitted(None, "", {"event": event, **fields})))


def _bound(logger: logging.Logger) -> Any:
    """Return structlog's logger around ``logger``, or None when structlog does not work."""
    if _structlog is None:
        return None
    try:
        return _structlog.wrap_logger(
            logger,
            processors=[_permitted, _structlog.processors.JSONRenderer(serializer=to_json)],
            wrapper_class=_structlog.stdlib.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=False,
        ).bind()
    except Exception:  # noqa: BLE001 - the same line is written without it
        return None
