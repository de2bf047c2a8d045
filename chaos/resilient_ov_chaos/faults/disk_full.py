"""The disk under the product's state is full: no intent can be written down."""

from resilient_ov_chaos.expectation import ALL_GROUPS, Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Let no file grow."""
    world.broken(world.full_disk())


FAULT = Fault(
    name="disk_full",
    apply=apply,
    expectation=Expectation(
        told="Reads are served. No write is sent, because one that is not written down could be"
        " repeated after a kill; the texts wait and are delivered when there is room.",
        reads=Reads.SERVED,
        stays_closed=ALL_GROUPS,
        # The writer has doubled its pauses all the time.
        deliver_within=Limit(writes=2.0, settles=3.0, windows=2.0),
        leaving=Leaving.LEAVES,
    ),
)
