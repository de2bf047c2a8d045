"""Timeout: connections are accepted and nothing passes in either direction."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Stream, Timeout
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Swallow requests and answers, without ever closing."""
    world.broken(
        world.link.toxic(Timeout(), Timeout(stream=Stream.UPSTREAM)),
    )


FAULT = Fault(
    name="silence",
    apply=apply,
    expectation=Expectation(
        told="The first reads take their budget; then recall opens and they end at once. Writes"
        " return and are delivered in the background.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        connections=3,
    ),
)
