"""What a fault file holds.

No I/O here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from resilient_ov_chaos.expectation import Expectation
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.targets.target import Ability
from resilient_ov_chaos.world import World


def _same(knobs: Knobs) -> Knobs:
    return knobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One trouble and what is expected of it.

    Attributes:
        name: unique, as in file names and on the command line.
        apply: makes the trouble and ends it; marks its begin and end on the world.
        expectation: the hypothesis.
        needs: what must be possible with the server.
        from_start: the trouble is there before the product starts.
        knobs: changes settings of the product that this trouble needs otherwise.

    """

    name: str
    apply: Callable[[World], None]
    expectation: Expectation
    needs: frozenset[Ability] = frozenset()
    from_start: bool = False
    knobs: Callable[[Knobs], Knobs] = _same
