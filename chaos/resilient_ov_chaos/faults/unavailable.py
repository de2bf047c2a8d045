"""503 with Retry-After, as of a gateway whose server is being replaced."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Answer 503 to everything, with a second to wait."""
    world.broken(
        world.page(503, b"no healthy upstream", Retry_After="1", Content_Type="text/plain")
    )


FAULT = Fault(
    name="unavailable",
    apply=apply,
    expectation=Expectation(
        told="The wish to wait is honoured where it fits the budget, else the group is held that"
        " long; a turn goes on without memory. Recall opens.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        quick_within=Limit(budgets=3.0, plus_s=1.0),
        leaving=Leaving.LEAVES,
        recover_within=Limit(plus_s=2.2),
    ),
)
