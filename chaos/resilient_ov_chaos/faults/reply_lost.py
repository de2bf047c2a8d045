"""Reply lost: requests are executed, their answers never come."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Timeout
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Swallow the answers only."""
    world.broken(world.link.toxic(Timeout()))


FAULT = Fault(
    name="reply_lost",
    apply=apply,
    expectation=Expectation(
        told="Reads are lost as in silence. A write that was executed unseen is found by reading"
        " back, and stored once.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        connections=3,
    ),
)
