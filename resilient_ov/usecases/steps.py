"""The steps a flow yields; a driver performs each and sends the result back.

Rule: a use case is a generator of these steps, so one definition serves sync, async and
simulated callers. A flow reads the clock and draws numbers directly (both never block) and
leaves everything that may block to a step.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from resilient_ov.domain.ports import Attempt

R = TypeVar("R")


@dataclass(slots=True)
class Send:
    """Perform one attempt on the memory server; the result is its ``Answer``."""

    # Not frozen, for the same reason as `Attempt`.
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait ``delay_s`` seconds, or less when the driver is told to hurry; the result is None."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """Run what may block (disk, locks) on a worker, at most until ``deadline_s``.

    The result is what ``run`` returned; its exception is thrown into the flow. ``WorkLateError``
    is thrown when no worker was free or it did not finish in time: it may still finish later.
    """

    run: Callable[[], object]
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Run pure CPU work off an event loop; in a thread of its own it just runs."""

    run: Callable[[], object]


Step = Send | Wait | Work | Compute
Flow = Generator[Step, Any, R]


class WorkLateError(Exception):
    """Blocking work found no worker or did not end inside the deadline."""


class NoTimeError(WorkLateError):
    """The call was over before its work had a fair chance: that says nothing about the disk."""


class JobSource(Protocol):
    """Something with work to do now and then: the writer, the sweeper, timers."""

    def jobs(self, now_s: float) -> Sequence[Flow[None]]:
        """Return the flows to start now; each must be run."""
        ...

    def next_s(self, now_s: float) -> float | None:
        """Return when to ask again (monotonic); None = after the next wake-up."""
        ...


def wait(delay_s: float) -> Flow[None]:
    """Yield a ``Wait``."""
    yield Wait(delay_s)


def work(run: Callable[[], R], deadline_s: float) -> Flow[R]:
    """Yield a ``Work``."""
    result = yield Work(run, deadline_s)
    return cast("R", result)


def compute(run: Callable[[], R]) -> Flow[R]:
    """Yield a ``Compute``."""
    result = yield Compute(run)
    return cast("R", result)
