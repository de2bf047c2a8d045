"""Turns many failures into one "degraded" and one "recovered" per group.

No I/O and no clock here. Not thread-safe.

An outage that begins within a minute after another one of its group was announced is announced
only if it lasts until that minute is over, and its end only if its beginning was. One that goes
on is told as lasting after five minutes and then once an hour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from resilient_ov.events import DegradeReason, Group

PACE_S = 60.0
LASTING_AFTER_S = 300.0
LASTING_EVERY_S = 3_600.0


class News(Enum):
    """What of a failure is worth a line."""

    DEGRADED = auto()
    LASTING = auto()


@dataclass(slots=True, kw_only=True)
class Outage:
    """One outage of one group.

    ``suppressed`` counts failures of earlier outages of the group that nobody was told of.
    """

    group: Group
    reason: DegradeReason
    since_s: float
    first_failure_at: str
    dropped_before: int
    suppressed: int
    failures: int = 0
    announced: bool = False
    lasting_told_s: float | None = None


class Outages:
    """The outages of one process, by group."""

    def __init__(self) -> None:
        self.current: dict[Group, Outage] = {}
        self._announced_s: dict[Group, float] = {}
        self._untold: dict[Group, int] = {}

    def failed(
        self,
        group: Group,
        reason: DegradeReason,
        now_s: float,
        *,
        at_utc: Callable[[], str],
        dropped: int,
    ) -> tuple[News, Outage] | None:
        """Take a failure of a group; return what is to be told.

        ``at_utc`` (wall time, for display) and ``dropped`` (messages dropped so far) are kept if
        an outage begins here.
        """
        outage = self.current.get(group)
        if outage is None:
            outage = self.current[group] = Outage(
                group=group,
                reason=reason,
                since_s=now_s,
                first_failure_at=at_utc(),
                dropped_before=dropped,
                suppressed=self._untold.pop(group, 0),
            )
        outage.failures += 1
        if not outage.announced:
            last_s = self._announced_s.get(group)
            if last_s is not None and now_s - last_s < PACE_S:
                return None
            outage.announced = True
            self._announced_s[group] = now_s
            return News.DEGRADED, outage
        told_s = outage.lasting_told_s
        if now_s - outage.since_s < LASTING_AFTER_S or (
            told_s is not None and now_s - told_s < LASTING_EVERY_S
        ):
            return None
        outage.lasting_told_s = now_s
        return News.LASTING, outage

    def succeeded(self, group: Group) -> Outage | None:
        """Take a success of a group; return the outage whose end is to be told."""
        outage = self.current.pop(group, None)
        if outage is None:
            return None
        if not outage.announced:
            self._untold[group] = outage.suppressed + outage.failures
            return None
        return outage
