"""How fast a fault stops to cost time, and how fast its end is noticed."""

from collections.abc import Iterator, Sequence

from resilient_ov_chaos.checkers.breakers import OpenPeriod, open_periods
from resilient_ov_chaos.checkers.budgets import SLACK_S, budget_s
from resilient_ov_chaos.expectation import Reads
from resilient_ov_chaos.history import Call, Delivered, History, Operation
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

DEGRADE = "time_to_degrade"
RECOVER = "time_to_recover"
DELIVER = "time_to_deliver"
READS = (Call.GET_CONTEXT, Call.SEARCH)

AT_ONCE_S = 0.05
"""A read that is refused does not wait."""
_MOST_SLOW = 0.02
"""Share of the reads that may be slow once they are answered at once; and one for each probe."""


def degrade(run: Run) -> Iterator[Finding]:
    """Compare what reads gave inside the window, and when, with what was expected."""
    on_s, off_s = run.history.fault_s
    for call in READS:
        inside = [
            each
            for each in _ended(run.history, call)
            if each.began_s >= on_s and _end_s(each) <= off_s
        ]
        if not inside:
            yield Finding(
                checker=DEGRADE, call=call, status=Status.UNKNOWN, text="no read in the window"
            )
            continue
        served = sum(each.status == "ok" for each in inside)
        empty = [each for each in inside if each.status == "failed"]
        problems = [*_wrongly_served(run, inside), *_slow_to_degrade(run, inside, on_s)]
        slow = _slow(run, inside, on_s)
        problems += slow
        yield Finding(
            checker=DEGRADE,
            call=call,
            status=Status.RED if problems else Status.GREEN,
            text="; ".join(problems),
            measured={
                "reads_in_window": len(inside),
                "served_share": round(served / len(inside), 3),
                "degrade_s": round(min((_end_s(e) - on_s for e in empty), default=float("nan")), 3),
            },
        )


def recover(run: Run) -> Iterator[Finding]:
    """Measure from the end of the fault to the first read that is served again.

    It may take until the server itself serves a search, the open period has ended and somebody
    calls, and the limit from then on.
    """
    mended_s = run.history.mended_s
    server_s = run.history.server_back_s
    due_s = max(server_s, _open_until_s(run, server_s))
    for call in READS:
        reads = _ended(run.history, call)
        called_s = min((e.began_s for e in reads if e.began_s >= due_s), default=due_s)
        limit_s = called_s - mended_s + run.expectation.recover_within.seconds(run.knobs)
        back_s = [_end_s(e) for e in reads if e.status == "ok" and _end_s(e) > mended_s]
        took_s = min(back_s, default=float("inf")) - mended_s
        red = took_s - _noise_s(run, mended_s, mended_s + limit_s) > limit_s
        yield Finding(
            checker=RECOVER,
            call=call,
            status=Status.RED if red else Status.GREEN,
            text=f"served again after {took_s:.2f} s, {limit_s:.2f} s are expected" if red else "",
            measured={
                "recover_s": round(took_s, 3),
                "recover_limit_s": round(limit_s, 3),
                "server_back_s": round(server_s - mended_s, 3),
            },
        )


def deliver(run: Run) -> Iterator[Finding]:
    """Measure from the end of the fault to the last write on the server."""
    mended_s = run.history.mended_s
    limit_s = run.expectation.deliver_within.seconds(run.knobs)
    seen_s = min((each.at_s for each in run.history.of(Delivered)), default=float("inf"))
    took_s = max(0.0, seen_s - mended_s)
    red = took_s - _noise_s(run, mended_s, mended_s + limit_s) > limit_s
    yield Finding(
        checker=DELIVER,
        call=Call.ADD,
        status=Status.RED if red else Status.GREEN,
        text=f"all delivered after {took_s:.1f} s, {limit_s:.1f} s are expected" if red else "",
        measured={"deliver_s": round(took_s, 2), "deliver_limit_s": round(limit_s, 2)},
    )


def _wrongly_served(run: Run, inside: Sequence[Operation]) -> Iterator[str]:
    wanted = run.expectation
    served = [each for each in inside if each.status == "ok"]
    on_s, _ = run.history.fault_s
    if wanted.reads is Reads.SERVED and len(served) < len(inside):
        yield f"{len(inside) - len(served)} of {len(inside)} reads gave nothing"
    if wanted.reads is Reads.SOME and not served:
        yield "no read was served"
    if wanted.reads is Reads.LOST and wanted.degrade_within is not None:
        from_s = on_s + wanted.degrade_within.seconds(run.knobs)
        late = [each for each in served if each.began_s > from_s]
        if late:
            yield f"{len(late)} reads were served in the middle of it"


def _slow_to_degrade(run: Run, inside: Sequence[Operation], on_s: float) -> Iterator[str]:
    if run.expectation.degrade_within is None:
        return
    # Nothing degrades before somebody calls, and then it may take that call's budget.
    called = inside[0]
    called_s = called.began_s - on_s + budget_s(run.knobs, called) + SLACK_S
    limit_s = max(run.expectation.degrade_within.seconds(run.knobs), called_s)
    empty = (_end_s(each) for each in inside if each.status == "failed")
    first_s = min(empty, default=float("inf")) - on_s
    if first_s - _noise_s(run, on_s, on_s + limit_s) > limit_s:
        yield f"the first turn without memory after {first_s:.2f} s, {limit_s:.2f} s are expected"


def _slow(run: Run, inside: Sequence[Operation], on_s: float) -> Iterator[str]:
    """Reads that still wait although nothing is sent any more."""
    if run.expectation.quick_within is None:
        return
    quick_s = run.expectation.quick_within.seconds(run.knobs)
    after = [each for each in inside if each.began_s > on_s + quick_s]
    slow = [each for each in after if each.took_s - _machine_s(run, each) > AT_ONCE_S]
    # Each open period ends with a probe, which takes as long as the server lets it.
    excused = len(_periods(run)) + _MOST_SLOW * len(after)
    if not after:
        yield f"no read later than {quick_s:.2f} s after the begin"
    elif len(slow) > excused:
        yield f"{len(slow)} of {len(after)} reads were not answered at once"


def _machine_s(run: Run, read: Operation) -> float:
    when = read.process, read.began_s, _end_s(read)
    return run.history.noise_s(*when) + run.history.hiccup_s(*when)


def _open_until_s(run: Run, back_s: float) -> float:
    """Return until when reads may be refused for what happened before the server was back.

    A probe that was under way then still fails by the fault, and begins another period.
    """
    return max(
        (
            min(each.ended_s, each.until_s)
            for each in _periods(run)
            if each.began_s <= back_s + run.knobs.get_context_s
        ),
        default=back_s,
    )


def _periods(run: Run) -> list[OpenPeriod]:
    """Return the open periods that concern reads."""
    return [
        period
        for process in run.history.processes(GATEWAY)
        for group in ("recall", "host")
        for period in open_periods(run.history, process, group)
    ]


def _ended(history: History, call: Call) -> list[Operation]:
    gateways = history.processes(GATEWAY)
    return [
        each
        for each in history.calls(call)
        if each.process in gateways and each.ended_s is not None
    ]


def _noise_s(run: Run, began_s: float, ended_s: float) -> float:
    return sum(
        run.history.noise_s(process, began_s, ended_s) for process in run.history.processes(GATEWAY)
    )


def _end_s(operation: Operation) -> float:
    return operation.began_s + operation.took_s
