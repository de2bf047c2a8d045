"""Latency: every answer comes later, well inside all budgets."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Leaving, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Latency
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Add a seventh of a read's budget, give or take a third of that; half, to a slow server."""
    latency_s = (0.075 if world.target.slow else 0.15) * world.knobs.get_context_s
    world.broken(world.link.toxic(Latency(latency_s=latency_s, jitter_s=latency_s / 3)))


FAULT = Fault(
    name="latency",
    apply=apply,
    expectation=Expectation(
        told="Memory is slower and works; nothing opens, nothing is tried again.",
        reads=Reads.SERVED,
        stays_closed=ALL_GROUPS,
        leaving=Leaving.DRAINS,
    ),
)
