"""How a run as a whole ended: its scenarios, where and how it was made.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.history import Call
from resilient_ov_chaos.suite import Aborted, Played, Skipped
from resilient_ov_chaos.verdict import Finding, Status, worst


class Ending(StrEnum):
    """Chaos Toolkit's words."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run.

    Attributes:
        facts: where and how: target, pace, seed, versions.
        scenarios: in the order they were played.
        ending: whether all of them were.
        began_at, ended_at: ISO-8601, for people.

    """

    facts: Mapping[str, str]
    scenarios: tuple[Played | Skipped | Aborted, ...]
    ending: Ending
    began_at: str
    ended_at: str
    took_s: float

    @property
    def played(self) -> tuple[Played, ...]:
        """Those that were played to their end."""
        return tuple(each for each in self.scenarios if isinstance(each, Played))

    @property
    def green(self) -> bool:
        """True when something was played, all of it was, and all of that is green."""
        whole = self.ending is Ending.COMPLETED
        stopped = any(isinstance(each, Aborted) for each in self.scenarios)
        statuses = [each.status for each in self.played]
        return whole and not stopped and worst(statuses) is Status.GREEN


OPERATIONS: Mapping[str, Call | None] = {
    "recall": Call.GET_CONTEXT,
    "search": Call.SEARCH,
    "add": Call.ADD,
    "add_nowait": Call.ADD_NOWAIT,
    "shutdown": Call.FLUSH,
    "process": None,
}
"""The columns of the matrix; ``process`` is what concerns no single call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault x operation."""

    fault: Fault
    operation: str
    status: Status
    problems: tuple[str, ...]
    measured: Mapping[str, float] = field(default_factory=dict[str, float])
    took_s: float = 0.0


def cases(played: Played) -> tuple[Case, ...]:
    """Return the cases of a scenario, one for each operation."""
    return tuple(
        _case(played, operation, [each for each in played.findings if each.call is call])
        for operation, call in OPERATIONS.items()
    )


def _case(played: Played, operation: str, findings: list[Finding]) -> Case:
    measured: dict[str, float] = {}
    for each in findings:
        measured |= each.measured
    return Case(
        fault=played.fault,
        operation=operation,
        status=worst(each.status for each in findings),
        problems=tuple(
            f"{each.checker}: {each.text}" for each in findings if each.status is not Status.GREEN
        ),
        measured=measured,
        took_s=played.took_s / len(OPERATIONS),
    )
