"""Slow close: connections take a second to end."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Leaving, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import SlowClose
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Delay each close by a second."""
    world.broken(world.link.toxic(SlowClose(delay_s=1.0)))


FAULT = Fault(
    name="slow_close",
    apply=apply,
    expectation=Expectation(
        told="Nobody notices.",
        reads=Reads.SERVED,
        stays_closed=ALL_GROUPS,
        leaving=Leaving.DRAINS,
    ),
)
