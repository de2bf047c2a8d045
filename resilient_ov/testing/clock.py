"""Time and chance that a test moves by hand.

Rule: nothing here reads the real clock or the real generator.
"""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta


class ManualClock:
    """A ``Clock`` that stands still until it is told to move. Safe from any thread."""

    def __init__(
        self, *, now_s: float = 1000.0, utc: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    ) -> None:
        self._lock = threading.Lock()
        self._now_s = now_s
        self._utc = utc

    def monotonic_s(self) -> float:
        """Return the seconds set so far."""
        with self._lock:
            return self._now_s

    def utc_iso(self) -> str:
        """Return the wall clock in the form of ``SystemClock``."""
        with self._lock:
            return self._utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` >= 0 pass on both clocks."""
        if seconds < 0:
            raise ValueError("a monotonic clock does not go back; use step_wall for the wall clock")
        with self._lock:
            self._now_s += seconds
            self._utc += timedelta(seconds=seconds)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP may; no time passes."""
        with self._lock:
            self._utc += timedelta(seconds=seconds)


class ScriptedDice:
    """``Dice`` that fall as scripted, then always ``otherwise``; tokens count up from 1."""

    def __init__(self, fractions: Iterable[float] = (), *, otherwise: float = 0.5) -> None:
        self._lock = threading.Lock()
        self._fractions = iter(tuple(fractions))
        self._otherwise = otherwise
        self._tokens = 0

    def fraction(self) -> float:
        """Return the next scripted number in [0, 1)."""
        with self._lock:
            return next(self._fractions, self._otherwise)

    def token(self) -> str:
        """Return 32 hexadecimal characters, different at each call."""
        with self._lock:
            self._tokens += 1
            return f"{self._tokens:032x}"
