"""Nothing is stored twice; what lands after its absence was proved is at least counted."""

from collections.abc import Iterator

from resilient_ov_chaos.checkers.owed import WRITES, accepted
from resilient_ov_chaos.checkers.pages import last_pages, total
from resilient_ov_chaos.history import Call
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "nothing_duplicated"


def check(run: Run) -> Iterator[Finding]:
    """Look for marks that the server holds more than once."""
    by_nowait = {
        mark
        for write in accepted(run.history)
        if write.call is Call.ADD_NOWAIT
        for mark in write.presented
    }
    counted = run.ledger.counted()
    told = sum(
        total(page, "openviking_messages_total", result="duplicated")
        for page in last_pages(run.history).values()
    )
    for call in WRITES:
        mine = {m: n for m, n in counted.items() if (m in by_nowait) == (call is Call.ADD_NOWAIT)}
        twice = sorted(mark for mark, times in mine.items() if times > 1)
        excused = run.expectation.late_landings and told >= len(twice)
        red = bool(twice) and not excused
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.RED if red else Status.GREEN if mine else Status.UNKNOWN,
            text=f"stored more than once: {', '.join(twice[:5])} ({len(twice)} in all)"
            if red
            else ("" if mine else "nothing was stored"),
            measured={"stored": len(mine), "duplicated": len(twice), "told_duplicated": told},
        )
