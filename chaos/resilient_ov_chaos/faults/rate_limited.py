"""429 with Retry-After: the server asks for less."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World

_BODY = b'{"status":"error","result":null,"error":{"code":"RESOURCE_EXHAUSTED","message":"slow"}}'


def apply(world: World) -> None:
    """Answer 429 to everything, with a second to wait."""
    world.broken(world.page(429, _BODY, Retry_After="1", Content_Type="application/json"))


FAULT = Fault(
    name="rate_limited",
    apply=apply,
    expectation=Expectation(
        told="The wish to wait is honoured; no breaker opens for it, because the server works.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        stays_closed=frozenset({"recall", "append", "commit", "session", "host"}),
        leaving=Leaving.LEAVES,
        recover_within=Limit(plus_s=2.2),
    ),
)
