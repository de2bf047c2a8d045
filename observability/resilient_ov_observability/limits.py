"""Lets one line per key and period through and counts what it holds back.

No I/O and no clock here. Not thread-safe.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Through:
    """A line may be written; so many were held back before it, with so much in them."""

    suppressed: int
    amount: int


class Limiter:
    """One line per (event, reason) and period. Keys must come from closed sets."""

    def __init__(self) -> None:
        self._last_s: dict[tuple[str, str], float] = {}
        self._held: dict[tuple[str, str], tuple[int, int]] = {}

    def admit(
        self, event: str, reason: str, now_s: float, *, period_s: float, amount: int = 0
    ) -> Through | None:
        """Return what a line written now speaks for, or None when it is held back."""
        key = (event, reason)
        lines, held_amount = self._held.get(key, (0, 0))
        last_s = self._last_s.get(key)
        if last_s is not None and now_s - last_s < period_s:
            self._held[key] = (lines + 1, held_amount + amount)
            return None
        self._last_s[key] = now_s
        self._held.pop(key, None)
        return Through(lines, held_amount + amount)
