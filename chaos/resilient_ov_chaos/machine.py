"""Whether the machine was too busy for a scenario to be judged by its times.

Rule: pure, and nothing the product does can make it true: it rests on an idle event loop and on
the server's pulse. What was stored, shown or told is never excused by it.
"""

from typing import Final

from resilient_ov_chaos.checkers import (
    breakers,
    budgets,
    degrading,
    evidence,
    leaving,
    resources,
    stalls,
)
from resilient_ov_chaos.history import Event, History, Loop, ProcessEvent, Pulse, Stall
from resilient_ov_chaos.knobs import Knobs

TIMED: Final = frozenset(
    {
        evidence.NAME,
        budgets.NAME,
        stalls.NAME,
        degrading.DEGRADE,
        degrading.RECOVER,
        degrading.DELIVER,
        leaving.NAME,
        breakers.STATES,
        breakers.PROBES,
        breakers.QUIET,
        resources.NAME,
    }
)
"""Checkers that judge by times; ``close`` has a second."""
SHARE: Final = 0.15
"""So much of a read's budget may next to nothing take; more is a busy machine."""


def slowest_s(history: History, *, in_window: bool) -> float:
    """Return how long next to nothing took at worst.

    ``in_window`` False: what happened in the fault window does not count, because the server or
    the process was stopped in it.
    """
    on_s, _ = history.fault_s
    off_s = history.mended_s
    waits = [(each.at_s, each.took_s) for each in history.of(Pulse)] + [
        (each.at_s, each.length_s) for each in history.of(Stall) if each.loop is Loop.CONTROL
    ]
    return max(
        (took_s for at_s, took_s in waits if in_window or at_s < on_s or at_s - took_s > off_s),
        default=0.0,
    )


def too_busy(history: History, knobs: Knobs, *, in_window: bool) -> bool:
    """Tell whether the machine was too busy for times to mean anything."""
    stopped = any(each.event is Event.STOPPED for each in history.of(ProcessEvent))
    worst_s = slowest_s(history, in_window=in_window and not stopped)
    return worst_s > SHARE * knobs.get_context_s
