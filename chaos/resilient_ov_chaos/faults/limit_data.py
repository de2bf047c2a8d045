"""Limited data: a connection ends after 600 bytes, in the middle of a body."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import LimitData
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Let 600 bytes of answers through for each connection."""
    world.broken(world.link.toxic(LimitData(limit_bytes=600)))


FAULT = Fault(
    name="limit_data",
    apply=apply,
    expectation=Expectation(
        told="Half an answer is no answer: reads are given up and recall opens. A write whose"
        " receipt was cut is looked up, never sent blindly again.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        quick_within=Limit(budgets=1.5, plus_s=1.2),
        opens=frozenset({"recall"}),
        connections=3,
    ),
)
