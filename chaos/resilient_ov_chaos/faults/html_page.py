"""A page of HTML with status 200, as of a proxy that wants somebody to log in."""

from resilient_ov_chaos.expectation import Expectation, Leaving, Limit, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.world import World


def apply(world: World) -> None:
    """Answer every request with a page."""
    page = b"<!doctype html><title>Sign in</title><p>Please sign in.</p>"
    world.broken(world.page(200, page, Content_Type="text/html"))


FAULT = Fault(
    name="html_page",
    apply=apply,
    expectation=Expectation(
        told="It is no answer of the server: turns go on without memory, and nothing counts as"
        " stored because of a 200.",
        reads=Reads.LOST,
        degrade_within=Limit(budgets=1.0, plus_s=1.0),
        leaving=Leaving.LEAVES,
    ),
)
