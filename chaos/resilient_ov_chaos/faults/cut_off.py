"""Timeout that closes: nothing passes, and the connection ends a moment later."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Stream, Timeout
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Swallow requests and close after a tenth of a read's budget."""
    after_s = 0.1 * world.knobs.get_context_s
    world.broken(world.link.toxic(Timeout(after_s=after_s, stream=Stream.UPSTREAM)))


FAULT = Fault(
    name="cut_off",
    apply=apply,
    expectation=Expectation(
        told="A read is tried once more on a fresh connection, then given up; recall opens.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        connections=3,
    ),
)
