"""The server is frozen with SIGSTOP: the kernel accepts for it, nobody answers."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.targets.target import Ability
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Freeze it for the whole window."""
    world.broken(world.server(Ability.FREEZE))


FAULT = Fault(
    name="server_stopped",
    apply=apply,
    needs=frozenset({Ability.FREEZE}),
    expectation=Expectation(
        told="As in silence. When it goes on it executes what it was sent; that is found by"
        " reading back, and no late answer reaches another turn.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, writes=1.0, plus_s=1.0),
        quick_within=Limit(budgets=2.0, writes=1.0, plus_s=1.2),
        opens=frozenset({"recall"}),
        late_landings=True,
    ),
)
