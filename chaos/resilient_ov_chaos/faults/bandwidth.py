"""Bandwidth: one kilobyte a second; bytes flow all the time, and never enough of them."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Bandwidth
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Let one kilobyte a second of the answers through."""
    world.broken(world.link.toxic(Bandwidth(kb_per_s=1)))


FAULT = Fault(
    name="bandwidth",
    apply=apply,
    expectation=Expectation(
        told="Reads end with their budget although bytes flow; then recall opens and they end"
        " at once. Short answers, those to writes, still come through.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        stays_closed=frozenset({"host"}),
    ),
)
