"""A shutdown keeps its time, whatever the server does, and says the truth about what is left."""

from collections.abc import Iterator

from resilient_ov_chaos.checkers.owed import accepted
from resilient_ov_chaos.expectation import Leaving
from resilient_ov_chaos.history import Call, Operation, Result
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

NAME = "shutdown"
SLACK_S = 0.1


def check(run: Run) -> Iterator[Finding]:
    """Look at every flush: its time, its word, and the word of the one inside the window."""
    gateways = run.history.processes(GATEWAY)
    on_s, off_s = run.history.fault_s
    flushes = [each for each in run.history.calls(Call.FLUSH) if each.ended_s is not None]
    there = set(run.ledger.counted())
    problems: list[str] = []
    worst_s = float("nan")
    for flush in flushes:
        end_s = flush.began_s + flush.took_s
        allowed_s = run.knobs.flush_s if flush.began_s <= off_s else run.knobs.last_flush_s
        when = flush.process, flush.began_s, end_s
        machine_s = run.history.noise_s(*when) + run.history.hiccup_s(*when)
        late_s = flush.took_s - machine_s - allowed_s
        worst_s = late_s if worst_s != worst_s else max(worst_s, late_s)
        if late_s > SLACK_S:
            problems.append(f"a flush was {late_s:.2f} s late")
        if flush.result is Result.DRAINED and (missing := _undelivered(run, flush, there)):
            problems.append(f"a flush said nothing is left, but {missing} messages were")
        if flush.process not in gateways and on_s <= flush.began_s <= off_s:
            problems += _unlike(run.expectation.leaving, flush)
    at_the_end = [f for f in flushes if f.process in gateways and f.began_s > off_s]
    if any(each.result is not Result.DRAINED for each in at_the_end):
        problems.append("the flush after the recovery left something")
    yield Finding(
        checker=NAME,
        call=Call.FLUSH,
        status=Status.RED if problems else Status.GREEN if flushes else Status.UNKNOWN,
        text="; ".join(problems) if flushes else "no shutdown ended",
        measured={"flushes": len(flushes), "worst_flush_late_s": round(worst_s, 3)},
    )


def _undelivered(run: Run, flush: Operation, there: set[str]) -> int:
    return sum(
        mark not in there
        for write in accepted(run.history)
        if write.process == flush.process
        for mark in write.presented
    )


def _unlike(wanted: Leaving, flush: Operation) -> list[str]:
    if wanted is Leaving.DRAINS and flush.result is not Result.DRAINED:
        return ["a shutdown inside the window left something"]
    if wanted is Leaving.LEAVES and flush.result is Result.DRAINED:
        return ["a shutdown inside the window says it left nothing"]
    return []
