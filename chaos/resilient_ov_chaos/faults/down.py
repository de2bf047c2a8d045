"""Down: connections are refused, those there were are cut."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Refuse."""
    world.broken(world.link.down())


FAULT = Fault(
    name="down",
    apply=apply,
    expectation=Expectation(
        told="A turn goes on without memory within a few retries' time, soon at once; writes"
        " return and are delivered in order when the server is back.",
        reads=Reads.LOST,
        degrade_within=Limit(plus_s=1.2),
        quick_within=Limit(plus_s=2.0),
        opens=frozenset({"host"}),
        leaving=Leaving.LEAVES,
        connections=5,
    ),
)
