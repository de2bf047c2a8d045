"""Jitter: answers come at any time up to half a read's budget."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Latency
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Add between nothing and 0.4 of a read's budget; half of that, to a slow server."""
    half_s = (0.1 if world.target.slow else 0.2) * world.knobs.get_context_s
    world.broken(world.link.toxic(Latency(latency_s=half_s, jitter_s=half_s)))


FAULT = Fault(
    name="jitter",
    apply=apply,
    expectation=Expectation(
        told="Memory is unevenly slower and works; nothing opens.",
        reads=Reads.SERVED,
        stays_closed=ALL_GROUPS,
    ),
)
