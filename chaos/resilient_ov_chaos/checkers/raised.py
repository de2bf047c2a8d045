"""The agent never fails because memory failed: no call raises unless fail-fast was chosen."""

from collections.abc import Iterator

from resilient_ov_chaos.history import Call, Result
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "nothing_raised"


def check(run: Run) -> Iterator[Finding]:
    """Look for calls that raised; ``warm`` may, the host swallows that by contract."""
    for call in (Call.GET_CONTEXT, Call.SEARCH, Call.ADD, Call.ADD_NOWAIT, Call.FLUSH):
        made = [each for each in run.history.calls(call) if each.ended_s is not None]
        raised = [each for each in made if each.result is Result.RAISED]
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.RED if raised else Status.GREEN if made else Status.UNKNOWN,
            text=f"{len(raised)} calls raised, the first {raised[0].error}"
            if raised
            else ("" if made else "no call ended"),
            measured={"raised": len(raised)},
        )
