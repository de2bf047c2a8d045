"""The server is away when the product starts, and comes later."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Refuse from before the start."""
    world.broken(world.link.down())


FAULT = Fault(
    name="absent_at_start",
    apply=apply,
    from_start=True,
    expectation=Expectation(
        told="The product starts all the same, without memory, and joins without a restart.",
        reads=Reads.LOST,
        degrade_within=Limit(plus_s=5.0),
        opens=frozenset({"host"}),
        leaving=Leaving.LEAVES,
        connections=5,
    ),
)
