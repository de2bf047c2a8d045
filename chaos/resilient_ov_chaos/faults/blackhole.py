"""Black hole: connection attempts vanish, nobody answers and nobody refuses."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Swallow connection attempts."""
    world.broken(world.blackhole())


FAULT = Fault(
    name="blackhole",
    apply=apply,
    expectation=Expectation(
        told="The first reads take their budget, connecting; then the host's breaker opens and"
        " all end at once.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"host"}),
        leaving=Leaving.LEAVES,
        connections=3,
    ),
)
