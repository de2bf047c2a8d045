"""The product is killed with SIGKILL between sending and hearing, and started again."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Timeout
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Lose the answers, kill the product while it waits for them, start it again."""
    with world.trouble(world.link.toxic(Timeout())):
        world.wait(0.5 * world.knobs.get_context_s)
        world.kill_gateway()
        world.wait(0.75 * world.knobs.fault_s)


FAULT = Fault(
    name="client_killed",
    apply=apply,
    expectation=Expectation(
        told="The new process finds the intents of the old one and looks before it sends; what"
        " only the old one's memory held is counted.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=2.0, plus_s=5.0),
        connections=3,
    ),
)
