"""No tenant sees another's memory: neither in what a read returns nor in what is stored."""

from collections.abc import Iterator

from resilient_ov_chaos.history import Call
from resilient_ov_chaos.marks import is_seed, owner_of
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "isolation"


def check(run: Run) -> Iterator[Finding]:
    """Look for marks of one persona in front of another."""
    for call in (Call.GET_CONTEXT, Call.SEARCH):
        reads = run.history.calls(call)
        seen = sum(len(read.got) for read in reads)
        foreign = sorted(
            {mark for read in reads for mark in read.got if owner_of(mark) != read.persona}
        )
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.RED if foreign else Status.GREEN if seen else Status.UNKNOWN,
            text=f"another's memory was shown: {', '.join(foreign[:5])}"
            if foreign
            else ("" if seen else "no read showed anything"),
            measured={"marks_seen": seen, "leaked": len(foreign)},
        )
    misplaced = sorted(
        mark
        for shelf in run.ledger.shelves
        for mark in shelf.marks
        if owner_of(mark) != shelf.persona
        or not (is_seed(mark) or shelf.thread is None or mark.startswith(shelf.thread))
    )
    unknown = [shelf for shelf in run.ledger.shelves if shelf.thread is None]
    bad = bool(misplaced or unknown)
    yield Finding(
        checker=NAME,
        call=Call.ADD,
        status=Status.RED if bad else Status.GREEN if run.ledger.shelves else Status.UNKNOWN,
        text=f"stored with another: {', '.join(misplaced[:5])}; {len(unknown)} unknown sessions"
        if bad
        else ("" if run.ledger.shelves else "nothing was stored"),
        measured={"misplaced": len(misplaced), "unknown_sessions": len(unknown)},
    )
