"""Flapping: down a little longer than an open period, up longer than the next one, and again."""

import time

from resilient_ov_chaos.expectation import Expectation, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Be down until the first probe has failed, up until the second must have come, and again."""
    down_s, up_s = 1.25 * world.knobs.open_s, 2.5 * world.knobs.open_s
    with world.trouble():
        end_s = time.monotonic() + max(world.knobs.fault_s, 2 * (down_s + up_s))
        while time.monotonic() < end_s:
            with world.link.down():
                world.wait(down_s)
            world.wait(up_s)


FAULT = Fault(
    name="flapping",
    apply=apply,
    expectation=Expectation(
        told="Some turns have memory and some do not, none waits; retries stay within their"
        " budget and each session keeps its order.",
        reads=Reads.SOME,
        degrade_within=Limit(writes=1.0, plus_s=1.0),
        connections=5,
    ),
)
