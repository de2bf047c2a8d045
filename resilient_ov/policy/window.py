"""Counts samples over a sliding window in constant memory.

No I/O and no clock here; not thread-safe by itself.
"""

from collections.abc import Iterable

_SLICES = 10


class SampleWindow:
    """Totals over the last `window_s`, kept in ten slices.

    A sample leaves when its whole slice is too old: it counts for between 0.9 and 1.0 windows.
    A time that runs back a little (threads read the clock before they get here) counts as now.
    """

    __slots__ = (
        "_calls",
        "_failures",
        "_newest",
        "_slice_ends_s",
        "_slice_s",
        "_slow",
        "calls",
        "failures",
        "slow",
    )

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self._newest = 0
        self._slice_ends_s = self._slice_s
        self._calls = [0] * _SLICES
        self._failures = [0] * _SLICES
        self._slow = [0] * _SLICES
        self.calls = 0
        self.failures = 0
        self.slow = 0

    def add(self, now_s: float, *, failed: bool, slow: bool) -> None:
        """Count one sample; then the totals are those of the window that ends now."""
        if now_s >= self._slice_ends_s:
            self._advance(now_s)
        place = self._newest % _SLICES
        self._calls[place] += 1
        self.calls += 1
        if failed:
            self._failures[place] += 1
            self.failures += 1
        if slow:
            self._slow[place] += 1
            self.slow += 1

    def clear(self) -> None:
        """Forget every sample."""
        self._forget(range(_SLICES))

    def _advance(self, now_s: float) -> None:
        number = int(now_s // self._slice_s)
        steps = min(number - self._newest, _SLICES)
        self._newest = number
        self._slice_ends_s = (number + 1) * self._slice_s
        self._forget((number - step) % _SLICES for step in range(steps))

    def _forget(self, places: Iterable[int]) -> None:
        for place in places:
            self.calls -= self._calls[place]
            self.failures -= self._failures[place]
            self.slow -= self._slow[place]
            self._calls[place] = self._failures[place] = self._slow[place] = 0
