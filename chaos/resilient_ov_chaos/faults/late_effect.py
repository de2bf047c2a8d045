"""Late effect: some connections hold requests so long that their senders have given up."""

from resilient_ov_chaos.expectation import Expectation, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.toxiproxy.toxics import Latency, Stream
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Hold requests on half of the connections until the sender has left and looked once."""
    held_s = world.knobs.add_s + 0.4 * world.knobs.settle_s
    toxic = Latency(latency_s=held_s, stream=Stream.UPSTREAM, toxicity=0.5)
    world.broken(world.link.toxic(toxic))


FAULT = Fault(
    name="late_effect",
    apply=apply,
    expectation=Expectation(
        told="Reads are served or end with their budget. A write that arrives after its sender"
        " has left, and after the first look, is seen by the second look and not sent again.",
        reads=Reads.SOME,
        connections=3,
    ),
)
