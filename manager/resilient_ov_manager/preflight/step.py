"""One line of the check."""

from dataclasses import dataclass
from enum import StrEnum

from resilient_ov_manager.terminal import ExitCode


class State(StrEnum):
    """How a step ended."""

    OK = "ok"
    FAILED = "FAILED"
    NOTE = "note"
    """Works, but the operator will want to know."""
    SKIPPED = "skipped"
    """Not tried, because an earlier step failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was found, and what to do about it unless it is fine.

    ``code`` is how the command ends if this is the first step that failed.
    """

    name: str
    state: State
    found: str
    advice: tuple[str, ...] = ()
    code: ExitCode = ExitCode.OK


def failed(name: str, found: str, *advice: str, code: ExitCode = ExitCode.NOT_USABLE) -> Step:
    """Return a step that failed."""
    return Step(name=name, state=State.FAILED, found=found, advice=advice, code=code)
