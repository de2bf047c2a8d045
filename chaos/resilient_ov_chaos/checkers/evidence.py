"""Whether a run could have failed at all: successes, calls and fresh connections in the window.

Rule: never RED; what is missing makes the run UNKNOWN, which is not green.
"""

from collections.abc import Iterator

from resilient_ov_chaos.history import Call, Connected, Operation
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "evidence"
LEAST_CALLS = 3
"""Fewer calls inside the window prove nothing about it."""


def check(run: Run) -> Iterator[Finding]:
    """Ask of each call for a success and for enough calls inside the fault window."""
    on_s, off_s = run.history.fault_s
    for call in (Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT, Call.FLUSH):
        made = run.history.calls(call)
        inside = [each for each in made if each.began_s < off_s and _end_s(each) > on_s]
        least = 1 if call is Call.FLUSH else LEAST_CALLS
        lacks: list[str] = []
        if not any(each.status == "ok" for each in made):
            lacks.append("not one of them succeeded")
        if len(inside) < least:
            lacks.append(f"{len(inside)} in the fault window, {least} are needed")
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.UNKNOWN if lacks else Status.GREEN,
            text=f"{call}: {'; '.join(lacks)}" if lacks else "",
            measured={"calls": len(made), "calls_in_window": len(inside)},
        )
    fresh = sum(on_s <= each.at_s <= off_s for each in run.history.of(Connected))
    wanted = run.expectation.connections
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.UNKNOWN if fresh < wanted else Status.GREEN,
        text=f"{fresh} fresh connections in the fault window, {wanted} are needed"
        if fresh < wanted
        else "",
        measured={"fresh_connections": fresh},
    )


def _end_s(operation: Operation) -> float:
    return float("inf") if operation.ended_s is None else operation.ended_s
