"""The product's own process is frozen for longer than its budgets, in the middle of its calls."""

from dataclasses import replace

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.toxiproxy.toxics import Latency
from resilient_ov_chaos.world import World

_FREEZES = 2


def apply(world: World) -> None:
    """Freeze it twice, with a slow network so that calls are under way."""
    knobs = world.knobs
    slow = world.link.toxic(Latency(latency_s=0.2 * knobs.get_context_s))
    with world.trouble(slow):
        awake_s = max(1.5, knobs.fault_s / _FREEZES - 1.2 * knobs.add_s)
        for _ in range(_FREEZES):
            world.wait(awake_s)
            with world.stopped_gateway():
                world.wait(1.2 * knobs.add_s)


def _longer(knobs: Knobs) -> Knobs:
    """It is awake for half of the window only; a window must see enough calls all the same."""
    return replace(knobs, fault_s=1.5 * knobs.fault_s)


FAULT = Fault(
    name="client_stopped",
    apply=apply,
    knobs=_longer,
    expectation=Expectation(
        told="Calls whose budget ended in the freeze end at the wake-up and send no further byte;"
        " the next ones are served.",
        reads=Reads.SOME,
        recover_within=Limit(plus_s=1.0),
    ),
)
