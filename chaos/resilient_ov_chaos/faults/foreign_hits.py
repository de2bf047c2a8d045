"""The server answers with another user's memories."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.targets.target import Ability
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Let it lie for the whole window."""
    world.broken(world.server(Ability.FOREIGN_HITS))


FAULT = Fault(
    name="foreign_hits",
    apply=apply,
    needs=frozenset({Ability.FOREIGN_HITS}),
    expectation=Expectation(
        told="No foreign hit reaches the agent: every hit is checked and thrown away.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        stays_closed=ALL_GROUPS,
    ),
)
