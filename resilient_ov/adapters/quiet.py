"""Keeps the HTTP library from logging our hosts, headers and requests.

Rule: only records made while one of our attempts is in progress are dropped; a host's own use of
the library logs as before, and no level, handler or flag of the host is touched.
"""

import logging

from resilient_ov.adapters.wire_attempt import current_attempt

_LOGGERS = ("httpcore.connection", "httpcore.http11")


class _NotOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - the context decides
        return current_attempt() is None


_FILTER = _NotOurs()


def mute_own_requests() -> None:
    """Install the filter where it is missing; cheap and idempotent."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
