"""The embedding model is gone: searches fail with 503, then 500, while sessions work."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.targets.target import Ability
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Break it for the whole window."""
    world.broken(world.server(Ability.EMBEDDER))


FAULT = Fault(
    name="embedder_outage",
    apply=apply,
    needs=frozenset({Ability.EMBEDDER}),
    expectation=Expectation(
        told="Recall opens and turns go on without memory; writes and commits go on as if"
        " nothing had happened.",
        told_slow="OpenViking 0.5.2 opens a breaker of its own at the fifth failed search and"
        " answers 500 for 60 s, also when the model is back: recovery counts from the first search"
        " that it serves when asked beside the product.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, plus_s=1.4),
        opens=frozenset({"recall"}),
        stays_closed=frozenset({"append", "commit", "session", "host"}),
        leaving=Leaving.DRAINS,
    ),
)
