"""The simulated world: one clock, one seeded scheduler, tasks that are the product's own flows.

Rule: nothing here knows memory; a flow is stepped exactly as a driver would step it, and between
any two steps the world may do something else, cancel the task, or kill its process.
"""

import heapq
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from resilient_ov.domain.exchange import Evidence, Failure, FailureKind, Success
from resilient_ov.domain.ports import Attempt
from resilient_ov.usecases.steps import Compute, Flow, Send, Wait, Work, WorkLateError

Then = Callable[[], None]


class World:
    """Time, order and chance of one run; the same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_s = 1000.0
        self.wall_shift_s = 0.0
        self._queue: list[tuple[float, int, Then]] = []
        self._count = 0
        self.steps = 0

    def at(self, time_s: float, then: Then) -> None:
        """Do something at a moment; at equal moments in the order of asking."""
        self._count += 1
        heapq.heappush(self._queue, (max(time_s, self.now_s), self._count, then))

    def after(self, delay_s: float, then: Then) -> None:
        """Do something later."""
        self.at(self.now_s + delay_s, then)

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Let time pass until the condition holds; False = it did not within ``limit_s``."""
        end_s = self.now_s + limit_s
        while not until():
            if not self._queue or self._queue[0][0] > end_s:
                self.now_s = end_s
                return until()
            self.now_s, _, then = heapq.heappop(self._queue)
            self.steps += 1
            then()
        return True

    # The Clock port.

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_iso(self) -> str:
        return f"2026-01-01T00:00:00+00:00/{self.now_s + self.wall_shift_s:.3f}"

    # The Dice port.

    def fraction(self) -> float:
        return self.rng.random()

    def token(self) -> str:
        return f"{self.rng.getrandbits(128):032x}"


class Task:
    """One flow on its way. ``cancel`` throws like a cancelled asyncio task; ``abandon`` is a kill:
    nothing of the flow runs any more, not even its ``finally``.
    """

    def __init__(
        self,
        world: World,
        flow: Flow[Any],
        perform: Callable[["Task", Send], None],
        done: Callable[[Any, BaseException | None], None],
        disk: Callable[[Work], Any] | None = None,
        asleep_until_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._world = world
        self._flow = flow
        self._perform = perform
        self._done = done
        self._disk = disk or (lambda work: work.run())
        self._asleep_until_s = asleep_until_s
        self._turn = 0
        self.over = False
        self.abandoned = False
        self.on_gone: Then | None = None
        """Done when the caller goes away in the middle of a request: its connection closes."""
        self._attempt: Attempt | None = None
        world.after(0.0, lambda: self._advance(0, None, None))

    def answer(self, turn: int, result: Any, error: BaseException | None = None) -> None:
        """Go on with the result of the step that was begun in ``turn``."""
        self._advance(turn, result, error)

    @property
    def turn(self) -> int:
        return self._turn

    def cancel(self) -> None:
        """Cancel the task at the step where it waits, in a stopped process when it goes on."""
        if self._asleep_until_s() > self._world.now_s:
            self._world.at(self._asleep_until_s(), self.cancel)
        elif not self.over and not self.abandoned:
            self._gone()
            self._advance(self._turn, None, Cancelled())

    def abandon(self) -> None:
        """Kill: the flow never runs again."""
        self._gone()
        self.abandoned = True
        _GRAVEYARD.append(self._flow)

    def _advance(self, turn: int, result: Any, error: BaseException | None) -> None:
        if self.over or self.abandoned or turn != self._turn:
            return
        if self._asleep_until_s() > self._world.now_s:
            # The process is stopped: it hears of everything when it goes on.
            self._world.at(
                self._asleep_until_s(), lambda: self._advance(turn, *self._heard(result, error))
            )
            return
        self._turn += 1
        self.on_gone = None
        try:
            step = self._flow.send(result) if error is None else self._flow.throw(error)
        except StopIteration as end:
            self.over = True
            self._done(end.value, None)
            return
        except BaseException as raised:  # noqa: BLE001 - the ledger judges it
            self.over = True
            self._done(None, raised)
            return
        self._begin(step)

    def _gone(self) -> None:
        if self.on_gone is not None:
            self.on_gone()
            self.on_gone = None

    def _heard(self, result: Any, error: BaseException | None) -> tuple[Any, BaseException | None]:
        """What a stopped process finds when it wakes up: its own deadline first."""
        attempt = self._attempt
        if (
            attempt is not None
            and isinstance(result, Success)
            and (attempt.deadline_s < self._world.now_s)
        ):
            return Failure(kind=FailureKind.TIMEOUT, evidence=Evidence.UNKNOWN), None
        return result, error

    def _begin(self, step: Any) -> None:
        self._attempt = step.attempt if isinstance(step, Send) else None
        turn = self._turn
        match step:
            case Send():
                self._perform(self, step)
            case Wait(delay_s):
                self._world.after(delay_s, lambda: self._advance(turn, None, None))
            case Work(_, deadline_s):
                took_s = self._world.rng.uniform(0.0001, 0.002)
                self._world.after(took_s, lambda: self._work(turn, step))
                if self._world.now_s + took_s > deadline_s:
                    self._world.at(deadline_s, lambda: self._advance(turn, None, WorkLateError()))
            case Compute(run):
                self._world.after(0.0, lambda: self._advance(turn, run(), None))

    def _work(self, turn: int, work: Work) -> None:
        if self.over or self.abandoned or turn != self._turn:
            # The work of a caller who went away still runs, and nobody hears how it ended; the
            # visit releases by itself what it gets.
            if not self.abandoned:
                with suppress(Exception):
                    self._disk(work)
            return
        try:
            result = self._disk(work)
        except Exception as error:  # noqa: BLE001 - thrown into the flow, as a driver does
            self._advance(turn, None, error)
        else:
            self._advance(turn, result, None)


class Cancelled(BaseException):
    """Stands for asyncio.CancelledError."""


# Flows of killed processes are kept so that no garbage collector runs their ``finally``.
_GRAVEYARD: list[Any] = []
