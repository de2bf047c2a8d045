"""Slicer: answers drip in small pieces; each read is in time, the whole never is."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Slicer
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Send twenty bytes at a time, forty times in a read's budget."""
    delay_s = world.knobs.get_context_s / 40
    world.broken(world.link.toxic(Slicer(average_bytes=20, delay_s=delay_s)))


FAULT = Fault(
    name="drip",
    apply=apply,
    expectation=Expectation(
        told="Reads end with their budget, not with their answer; then recall opens and they end"
        " at once. Writes that are too slow are finished in the background.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        stays_closed=frozenset({"host"}),
    ),
)
