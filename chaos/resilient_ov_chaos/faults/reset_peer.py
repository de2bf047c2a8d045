"""Reset: every connection is reset on its first data."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import ResetPeer
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Reset at once."""
    world.broken(world.link.toxic(ResetPeer()))


FAULT = Fault(
    name="reset_peer",
    apply=apply,
    expectation=Expectation(
        told="A read is tried once more on a fresh connection, then given up; recall opens. What"
        " a reset write did is looked up before anything is sent again.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        quick_within=Limit(budgets=1.5, plus_s=1.2),
        opens=frozenset({"recall"}),
        connections=3,
    ),
)
