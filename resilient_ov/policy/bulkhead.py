"""Bounds how many attempts are under way at once, so that one sick server cannot take every thread.

No I/O and no clock here; not thread-safe by itself. Waiting is the caller's: it asks again after
the advised time. Who comes new does not pass those who wait; among these the next to ask enters.
"""

from dataclasses import dataclass

from resilient_ov.policy.rules import OPERATION_GROUPS, Group
from resilient_ov.settings import LimitSettings

_SWEEPS = 1
"""The sweeper works in the background: one request of it at a time."""

SOONEST_POLL_S = 0.002
_POLLS_PER_S = 2_000
"""All who wait for one line together ask about this often, however many they are."""

_GONE_AFTER_S = 0.1
"""Who is so late for its next question went away without a word."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Ask again in ``poll_s`` and show ``place``, which tells that the caller was here before."""

    place: int
    poll_s: float


class _Line:
    """One capacity and those who wait for it."""

    __slots__ = ("_places", "capacity", "taken", "waiting")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0
        self.waiting: dict[int, float] = {}
        """Place -> when its owner counts as gone; who asked last is last."""
        self._places = 0

    def refusal(self, place: int | None, now_s: float) -> NoPlace | None:
        """Return None when the caller may enter now."""
        if self.taken < self.capacity and (not self.waiting or self._first(place, now_s)):
            return None
        if place is None or self.waiting.pop(place, None) is None:
            self._places += 1
            place = self._places
        poll_s = max(SOONEST_POLL_S, len(self.waiting) / _POLLS_PER_S)
        self.waiting[place] = now_s + poll_s + _GONE_AFTER_S
        return NoPlace(place, poll_s)

    def _first(self, place: int | None, now_s: float) -> bool:
        """Tell whether nobody who waits would be passed."""
        while self.waiting and place not in self.waiting:
            longest_ago = next(iter(self.waiting))
            if self.waiting[longest_ago] >= now_s:
                return False
            del self.waiting[longest_ago]
        return True


class Bulkhead:
    """The places of recall, of all other operations, and of the sweeper among the latter."""

    __slots__ = ("_lines", "_sweeps", "in_flight")

    def __init__(self, limits: LimitSettings) -> None:
        self._lines = dict.fromkeys(OPERATION_GROUPS, _Line(limits.write_in_flight))
        self._lines[Group.RECALL] = _Line(limits.read_in_flight)
        self._sweeps = 0
        self.in_flight = dict.fromkeys(OPERATION_GROUPS, 0)
        """Attempts under way by group."""

    def refusal(
        self, group: Group, place: int | None, now_s: float, *, sweeper: bool
    ) -> NoPlace | None:
        """Return None when an attempt of the group may start now; `enter` is to follow at once."""
        if sweeper and self._sweeps >= _SWEEPS:
            return NoPlace(0, SOONEST_POLL_S)
        return self._lines[group].refusal(place, now_s)

    def enter(self, group: Group, place: int | None, *, sweeper: bool) -> None:
        """Take a place."""
        line = self._lines[group]
        line.taken += 1
        if place is not None:
            line.waiting.pop(place, None)
        self.in_flight[group] += 1
        if sweeper:
            self._sweeps += 1

    def leave(self, group: Group, *, sweeper: bool) -> None:
        """Give the place back."""
        self._lines[group].taken -= 1
        self.in_flight[group] -= 1
        if sweeper:
            self._sweeps -= 1
