"""Steps the wall clock of this process, and of nothing else.

Rule: the monotonic clock is not touched; a decision that rests on wall time shows itself.
"""

import time
from datetime import UTC, datetime, tzinfo

from resilient_ov.adapters import clock

_time = time.time
_time_ns = time.time_ns
_offset_s = 0.0


def step(by_s: float) -> None:
    """Set the wall clock forward (or back) by so many seconds, for good."""
    global _offset_s  # noqa: PLW0603 - a process has one wall clock
    _offset_s += by_s
    time.time = lambda: _time() + _offset_s
    time.time_ns = lambda: _time_ns() + int(_offset_s * 1e9)
    clock.datetime = _SteppedDatetime  # type: ignore[attr-defined]


class _SteppedDatetime(datetime):
    """``datetime`` as the product's clock uses it."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "_SteppedDatetime":
        return cls.fromtimestamp(_time() + _offset_s, tz or UTC)
