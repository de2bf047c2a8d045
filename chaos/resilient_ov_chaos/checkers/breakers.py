"""Breakers open where they must and only there, probe one at a time, and send nothing while open.

Rule: what was sent is what the wire saw. An attempt may be seen a moment after it was let through,
a longer one on a busy machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resilient_ov_chaos.expectation import ALL_GROUPS
from resilient_ov_chaos.history import BreakerMoved, History, WireAttempt
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

STATES = "breaker"
PROBES = "single_probe"
QUIET = "quiet"
_SEEN_LATE_S = 0.03
_BEFORE_S = 0.2


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """From opening to what came next; ``until_s`` is when a probe was due."""

    began_s: float
    ended_s: float
    until_s: float


def states(run: Run) -> Iterator[Finding]:
    """Look which breakers opened in the fault window or right after it."""
    history = run.history
    on_s, off_s = history.fault_s
    moves = [
        move
        for each in history.processes(GATEWAY)
        for move in _moves(history, each)
        if move.to_state == "open" and move.at_s >= on_s
    ]
    opened = {move.group for move in moves}
    # Mending cuts connections.
    inside = {move.group for move in moves if move.at_s <= off_s}
    wanted = run.expectation
    problems = [f"{group} did not open" for group in sorted(wanted.opens - opened)]
    problems += [f"{group} opened" for group in sorted(wanted.stays_closed & inside)]
    yield Finding(
        checker=STATES,
        call=None,
        status=Status.RED if problems else Status.GREEN,
        text="; ".join(problems),
        measured={"groups_opened": len(opened)},
    )


def probes(run: Run) -> Iterator[Finding]:
    """Look for a second attempt beside a probe."""
    half_open = doubled = 0
    for process, group in _each_breaker(run.history):
        attempts = _attempts(run.history, process, group)
        for move in _moves(run.history, process, group):
            if move.to_state == "half_open":
                half_open += 1
                probe = _first_after(attempts, move.at_s)
                doubled += 0 if probe is None else _beside(probe, attempts)
    yield Finding(
        checker=PROBES,
        call=None,
        status=Status.RED if doubled else Status.GREEN,
        text=f"{doubled} attempts began beside a probe" if doubled else "",
        measured={"half_open_periods": half_open, "attempts_beside_a_probe": doubled},
    )


def quiet(run: Run) -> Iterator[Finding]:
    """Look for attempts that began while a breaker was open."""
    periods = wrong = 0
    for process, group in _each_breaker(run.history):
        attempts = _attempts(run.history, process, group)
        for period in open_periods(run.history, process, group):
            periods += 1
            noise_s = run.history.noise_s(
                process, period.began_s - _BEFORE_S, period.began_s + _BEFORE_S
            )
            from_s = period.began_s + _SEEN_LATE_S + noise_s
            wrong += sum(from_s < each.began_s < period.ended_s for each in attempts)
    yield Finding(
        checker=QUIET,
        call=None,
        status=Status.RED if wrong else Status.GREEN,
        text=f"{wrong} attempts began while their breaker was open" if wrong else "",
        measured={"open_periods": periods, "attempts_while_open": wrong},
    )


def open_periods(history: History, process: int, group: str) -> list[OpenPeriod]:
    """Return when a breaker of a process was open; the last one may have no end."""
    moves = _moves(history, process, group)
    return [
        OpenPeriod(
            began_s=move.at_s,
            ended_s=moves[n + 1].at_s if n + 1 < len(moves) else float("inf"),
            until_s=move.at_s if move.open_until_s is None else move.open_until_s,
        )
        for n, move in enumerate(moves)
        if move.to_state == "open"
    ]


def _each_breaker(history: History) -> Iterator[tuple[int, str]]:
    for process in history.processes(GATEWAY):
        for group in sorted(ALL_GROUPS):
            yield process, group


def _moves(history: History, process: int, group: str | None = None) -> list[BreakerMoved]:
    mine = (
        each
        for each in history.of(BreakerMoved)
        if each.process == process and group in (None, each.group)
    )
    return sorted(mine, key=lambda each: each.number)


def _attempts(history: History, process: int, group: str) -> list[WireAttempt]:
    """Return a group's attempts by their begin; all of them for the host, none of ``health``."""
    mine = (
        each
        for each in history.of(WireAttempt)
        if each.process == process and each.group is not None and group in ("host", each.group)
    )
    return sorted(mine, key=lambda each: each.began_s)


def _first_after(attempts: Sequence[WireAttempt], at_s: float) -> WireAttempt | None:
    return next((each for each in attempts if each.began_s >= at_s), None)


def _beside(probe: WireAttempt, attempts: Sequence[WireAttempt]) -> int:
    return sum(
        probe.began_s < each.began_s < probe.ended_s for each in attempts if each is not probe
    )
