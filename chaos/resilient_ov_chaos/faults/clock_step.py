"""The wall clock jumps a day ahead, then two days back."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Leaving, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World

_DAY_S = 86400.0


def apply(world: World) -> None:
    """Step the clock of the product's process twice."""
    with world.trouble():
        for by_s in (_DAY_S, -2 * _DAY_S):
            world.step_wall_clock(by_s)
            world.wait(world.knobs.fault_s / 2)


FAULT = Fault(
    name="clock_step",
    apply=apply,
    expectation=Expectation(
        told="Nobody notices: no decision rests on wall time.",
        reads=Reads.SERVED,
        stays_closed=ALL_GROUPS,
        leaving=Leaving.DRAINS,
    ),
)
