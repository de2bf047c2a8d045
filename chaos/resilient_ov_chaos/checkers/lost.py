"""Nothing is lost: what a living process accepted, or the host presented again, is on the server.

What only the memory of a process held that was killed must lie inside what its successors count,
plus the last second; what a shutdown left inside what it counted itself, plus what was in doubt
then: sent, and never answered.
"""

from collections.abc import Iterator, Mapping

from resilient_ov_chaos.checkers.owed import WRITES, accepted, owed
from resilient_ov_chaos.checkers.pages import last_pages, total
from resilient_ov_chaos.history import Event, History, ProcessEvent, Sending, WireAttempt
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "nothing_lost"
_STATUS_AGE_S = 1.5
"""A status file is at most a second old; half a second for a busy machine."""


def check(run: Run) -> Iterator[Finding]:
    """Compare what was accepted with what is there."""
    history = run.history
    due = owed(history)
    there = set(run.ledger.counted())
    for call in WRITES:
        wanted = [mark for mark, how in due.standing.items() if how is call]
        missing = sorted(mark for mark in wanted if mark not in there)
        yield Finding(
            checker=NAME,
            call=call,
            status=Status.RED if missing else Status.GREEN if wanted else Status.UNKNOWN,
            text=f"not on the server: {_some(missing)}"
            if missing
            else ("" if wanted else "nothing was owed"),
            measured={"owed": len(wanted), "lost": len(missing)},
        )
    yield from _abandoned(history, due.abandoned, there)


def _abandoned(
    history: History, abandoned: Mapping[int, frozenset[str]], there: set[str]
) -> Iterator[Finding]:
    missing = {process: marks - there for process, marks in abandoned.items()}
    count = sum(map(len, missing.values()))
    excused = _counted(history) + sum(
        len(marks & (_fresh(history, process) | _in_doubt(history, process)))
        for process, marks in missing.items()
    )
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if count > excused else Status.GREEN,
        text=f"{count} messages ended with their process, {excused:.0f} are accounted for"
        if count > excused
        else "",
        measured={"abandoned": count},
    )


def _counted(history: History) -> float:
    pages = last_pages(history)
    return sum(
        total(page, "openviking_messages_dropped_total", reason=reason)
        for page in pages.values()
        for reason in ("process_ended", "shutdown")
    )


def _fresh(history: History, process: int) -> set[str]:
    """Return what was accepted in the last moment of a process."""
    end_s = max(
        (
            each.at_s
            for each in history.of(ProcessEvent)
            if each.process == process and each.event in (Event.KILLED, Event.EXITED)
        ),
        default=float("inf"),
    )
    return {
        mark
        for write in accepted(history)
        if write.process == process and write.ended_s is not None
        if write.ended_s > end_s - _STATUS_AGE_S
        for mark in write.presented
    }


def _in_doubt(history: History, process: int) -> set[str]:
    """Return what a process has sent without ever hearing that it arrived."""
    begun = [each.carried for each in history.of(Sending) if each.process == process]
    ended = [each for each in history.of(WireAttempt) if each.process == process]
    sent = {mark for carried in (*begun, *(each.carried for each in ended)) for mark in carried}
    return sent - {mark for each in ended if each.ok for mark in each.carried}


def _some(marks: list[str], most: int = 5) -> str:
    shown = ", ".join(marks[:most])
    return shown if len(marks) <= most else f"{shown} and {len(marks) - most} more"
