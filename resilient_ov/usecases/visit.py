"""One exclusive visit of one session: its state as found, as changed, and as saved.

Rule: the state in hand is what we believe; the state on disk may be older only by facts that the
next visit finds out again (an intent whose answer was not saved is settled by read-back).
"""

from collections.abc import Callable
from typing import TypeVar

from resilient_ov.domain.ports import Clock, Dice, Loaded, SessionUnit, StateUnwritableError
from resilient_ov.domain.watermark import Watermark
from resilient_ov.usecases.steps import Flow, NoTimeError, WorkLateError, wait, work

_FIRST_POLL_S = 0.002
_LONGEST_POLL_S = 0.05
_FAIR_S = 0.25
"""Work that had this long and is not done speaks of the disk."""

R = TypeVar("R")


class Visit:
    """State of one session between taking and leaving its lock; ``owner`` is who visits."""

    def __init__(
        self,
        unit: SessionUnit,
        fresh: Watermark,
        *,
        owner: Callable[[], str],
        clock: Clock,
        dice: Dice,
        deadline_s: float,
    ) -> None:
        self._unit = unit
        self._find_owner = owner
        self._clock = clock
        self._dice = dice
        self.deadline_s = deadline_s
        self._saved: Watermark | None = None
        self._when_saved: list[Callable[[], None]] = []
        self.watermark = fresh
        self.owner = ""

    def open(self, *, patience_s: float) -> Flow[Loaded | None]:
        """Take the lock and load; None = another visitor kept it for ``patience_s``.

        Polling, so that no worker is blocked by a waiting caller.

        Raises:
            StateUnwritableError, NewerStateError, WorkLateError: nothing is held then;
                NoTimeError when hardly any time was left for it.
        """
        give_up_s = min(self.deadline_s, self._clock.monotonic_s() + patience_s)
        poll_s = _FIRST_POLL_S
        while True:
            loaded, self.owner = yield from self._on_disk(self._open)
            if loaded is not None:
                self.watermark = self._saved = loaded.watermark or self.watermark
                return loaded
            left_s = give_up_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            yield from wait(min(left_s, poll_s * (0.5 + self._dice.fraction())))
            poll_s = min(_LONGEST_POLL_S, poll_s * 2)

    def _on_disk(self, run: Callable[[], R]) -> Flow[R]:
        in_time = self._clock.monotonic_s() <= self.deadline_s - _FAIR_S
        try:
            return (yield from work(run, self.deadline_s))
        except WorkLateError as late:
            raise late if in_time else NoTimeError from late

    def _open(self) -> tuple[Loaded | None, str]:
        return self._unit.open(), self._find_owner()

    def save(self) -> Flow[None]:
        """Make the state in hand durable, unless it is.

        Raises:
            StateUnwritableError: the old state stands.
            WorkLateError: the disk did not answer in time; either state may stand. NoTimeError
                when hardly any time was left for it.
        """
        if self._saved is None:
            return  # never opened
        watermark = self.watermark
        told, self._when_saved = self._when_saved, []

        def save() -> None:
            # What it records is told by the work itself, which may end after its caller.
            if watermark != self._saved:
                self._unit.save(watermark)
            for tell in told:
                tell()

        if watermark == self._saved:
            save()
            return
        try:
            yield from self._on_disk(save)
        except StateUnwritableError:
            self._when_saved = told
            raise
        self._saved = watermark

    def when_saved(self, tell: Callable[[], None]) -> None:
        """Tell something about the state in hand as soon as that is durable.

        On the thread that saves, perhaps after the call. It is never told if saving fails: the
        next visit finds the same fact out, and tells it.
        """
        self._when_saved.append(tell)
