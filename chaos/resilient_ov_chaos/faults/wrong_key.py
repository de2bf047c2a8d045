"""401: the key was changed on one side only, until the right one is put in place."""

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Give the product a wrong key, later the right one again."""
    world.broken(world.wrong_key())


FAULT = Fault(
    name="wrong_key",
    apply=apply,
    expectation=Expectation(
        told="After three 401 nothing is sent any more (a hold, no breaker); the right key is"
        " found without a restart, and ends the hold.",
        reads=Reads.LOST,
        # The key file is looked at every five seconds.
        degrade_within=Limit(budgets=1.0, plus_s=6.0),
        stays_closed=frozenset({"recall", "append", "commit", "session", "host"}),
        recover_within=Limit(plus_s=7.0),
        deliver_within=Limit(writes=2.0, settles=3.0, periods=2.0, plus_s=12.0),
    ),
)
