"""The metrics page says what the history says.

Rule: the history and the ledger are right; a page that differs is wrong.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from resilient_ov_chaos.checkers.owed import gone, owed
from resilient_ov_chaos.checkers.pages import last_pages, total
from resilient_ov_chaos.history import (
    BreakerMoved,
    Call,
    Colour,
    History,
    MetricsPage,
    Operation,
    Result,
    Sending,
    WireAttempt,
)
from resilient_ov_chaos.marks import is_seed
from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "metrics_agree"
_ABSENT = ("unavailable", "deadline", "refused", "auth", "scope", "protocol")


def check(run: Run) -> Iterator[Finding]:
    """Compare the last page of each process with what was seen of it, and all with the ledger."""
    pages = run.history.of(MetricsPage)
    if not pages:
        yield Finding(
            checker=NAME, call=None, status=Status.UNKNOWN, text="no process showed its metrics"
        )
        return
    last = {page.process: page for page in pages}
    problems = [
        problem for page in last.values() for problem in _of_process(run.history, page)
    ] + _of_all(run)
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if problems else Status.GREEN,
        text="; ".join(problems),
        measured={"pages": len(last), "disagreements": len(problems)},
    )


def _of_process(history: History, page: MetricsPage) -> list[str]:
    mine = [e for e in history.operations if e.process == page.process and _ended_before(e, page)]
    samples = page.samples
    made = Counter(_called(each) for each in mine)
    seen: list[tuple[str, float, float]] = [
        (f"calls of {call}", total(samples, _CALLS, call=call.value), made[call]) for call in Call
    ]
    for call in (Call.GET_CONTEXT, Call.SEARCH):
        empty = sum(e.call is call and e.result is Result.EMPTY for e in mine)
        told = sum(total(samples, _CALLS, call=call.value, outcome=each) for each in _NOTHING)
        seen.append((f"{call} without memory", told, empty))
    attempts = [
        each.ended_s
        for each in history.of(WireAttempt)
        if each.process == page.process and each.outcome != "no_slot"
    ]
    told = total(samples, "openviking_attempts_total")
    # What ended about when the page was made may be on it or not.
    least = sum(ended_s < page.at_s - _ABOUT_S for ended_s in attempts)
    seen.append(("attempts", told, min(max(told, least), len(attempts))))
    moves = sum(each.process == page.process for each in history.of(BreakerMoved))
    seen.append(("breaker moves", total(samples, "openviking_breaker_transitions_total"), moves))
    return [
        f"process {page.process}: {what}: the page says {told:.0f}, seen were {true:.0f}"
        for what, told, true in seen
        if told != true
    ]


def _of_all(run: Run) -> list[str]:
    """Compare the pages of all processes with the server's ledger.

    What a process had sent without hearing of it when it ended, or ever sent when it was killed
    with its page, need not be told; everything else is, and nothing else.
    """
    pages = last_pages(run.history)
    counted = run.ledger.counted()
    there = {mark for mark in counted if not is_seed(mark)}
    twice = sum(times - 1 for times in counted.values())
    told = _sum(pages, "stored") + _sum(pages, "reconciled")
    told_twice = _sum(pages, "duplicated")
    ended = gone(run.history)
    made_s = {page.process: page.at_s for page in run.history.of(MetricsPage)}
    least = len(there - _untold(run.history, ended, made_s))
    problems: list[str] = []
    if not least <= told <= len(there):
        problems.append(
            f"stored: the pages say {told:.0f}, {len(there)} are there,"
            f" {len(there) - least} of them may be untold"
        )
    # A process that left something in doubt cannot know what became of it.
    silent = not ended and twice and not told_twice
    invented = not ended and told_twice > twice
    if silent or invented:
        problems.append(f"stored twice: the pages say {told_twice:.0f}, {twice} are there")
    given_up = _given_up(pages)
    missing = sum(mark not in there for mark in owed(run.history).standing)
    if given_up != missing:
        problems.append(f"given up: the pages say {given_up:.0f}, {missing} are missing")
    return problems


def _untold(history: History, ended: Collection[int], made_s: Mapping[int, float]) -> set[str]:
    """Return the marks that a process which is gone could not count on its page."""
    attempts = [each for each in history.of(WireAttempt) if each.process in ended]
    begun = [each.carried for each in history.of(Sending) if each.process in ended]
    answered = {
        mark
        for each in attempts
        if each.ok and each.ended_s < made_s.get(each.process, 0.0) - _ABOUT_S
        for mark in each.carried
    }
    sent = (*begun, *(each.carried for each in attempts))
    return {mark for carried in sent for mark in carried} - answered


def _given_up(pages: Mapping[int, Mapping[str, float]]) -> float:
    """Return what was dropped while its process lived."""
    return sum(
        total(page, _DROPPED) - sum(total(page, _DROPPED, reason=each) for each in _ENDED)
        for page in pages.values()
    )


def _sum(pages: Mapping[int, Mapping[str, float]], result: str) -> float:
    return sum(total(page, "openviking_messages_total", result=result) for page in pages.values())


def _ended_before(operation: Operation, page: MetricsPage) -> bool:
    return operation.ended_s is not None and operation.ended_s <= page.at_s


def _called(operation: Operation) -> Call:
    """Without an event loop ``add_nowait`` works like ``add``, and is counted as one."""
    if operation.call is Call.ADD_NOWAIT and operation.colour is Colour.SYNC:
        return Call.ADD
    return operation.call


_ABOUT_S = 0.5
_CALLS = "openviking_calls_total"
_DROPPED = "openviking_messages_dropped_total"
_ENDED = ("process_ended", "shutdown")
_NOTHING = ("empty", *(f"degraded_{each}" for each in _ABSENT))
