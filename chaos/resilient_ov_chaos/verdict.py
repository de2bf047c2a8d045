"""What a checker says, and the run it says it about.

Rule: pure. UNKNOWN is not green: a run that could not have failed proves nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from resilient_ov_chaos.expectation import Expectation
from resilient_ov_chaos.history import Call, History
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.ledger import Ledger, Leftovers

GATEWAY: Final = "gateway"
"""Role of the process whose traffic goes on through the whole run; killed, it is started again."""


class Status(StrEnum):
    """How a check ended, the worst last."""

    GREEN = "green"
    UNKNOWN = "unknown"
    RED = "red"


_ORDER: Final = list(Status)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of them; of none, UNKNOWN."""
    return max(statuses, key=_ORDER.index, default=Status.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one checker says about one call, or about the whole run (``call`` None)."""

    checker: str
    call: Call | None
    status: Status
    text: str = ""
    measured: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a checker may look at."""

    history: History
    ledger: Ledger
    leftovers: Leftovers
    knobs: Knobs
    expectation: Expectation


Check = Callable[[Run], Iterable[Finding]]
