"""The server is killed with SIGKILL and started again at the end."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.targets.target import Ability
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Kill it for the whole window."""
    world.broken(world.server(Ability.KILL))


FAULT = Fault(
    name="server_killed",
    apply=apply,
    needs=frozenset({Ability.KILL}),
    expectation=Expectation(
        told="As when it is down; what was answered before survives, what was under way is"
        " looked up.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=0.5, plus_s=1.0),
        quick_within=Limit(budgets=1.0, plus_s=1.5),
        connections=5,
    ),
)
