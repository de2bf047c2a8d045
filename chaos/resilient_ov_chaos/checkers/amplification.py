"""Retries add at most a tenth to the load, and a small reserve. Counted on the wire."""

from collections.abc import Iterator

from resilient_ov_chaos.history import WireAttempt
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

NAME = "amplification"
SHARE = 1.10
RESERVE = 10


def check(run: Run) -> Iterator[Finding]:
    """Compare all attempts with the first ones."""
    gateways = run.history.processes(GATEWAY)
    attempts = [each for each in run.history.of(WireAttempt) if each.process in gateways]
    first = sum(each.attempt == 1 for each in attempts)
    allowed = SHARE * first + RESERVE
    red = len(attempts) > allowed
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if red else Status.GREEN if first else Status.UNKNOWN,
        text=f"{len(attempts)} attempts for {first} requests, {allowed:.0f} are allowed"
        if red
        else ("" if first else "nothing was sent"),
        measured={
            "requests": first,
            "attempts": len(attempts),
            "amplification": round(len(attempts) / first, 3) if first else float("nan"),
        },
    )
