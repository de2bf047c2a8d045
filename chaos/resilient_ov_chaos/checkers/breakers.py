"""Breakers open where they must and only there, probe one at a time, and send nothing while open.

Rule: their states are those their listeners were told; what was sent is what the wire saw.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resilient_ov_chaos.expectation import ALL_GROUPS
from resilient_ov_chaos.history import BreakerMoved, History, WireAttempt
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

STATES = "breaker"
PROBES = "single_probe"
QUIET = "quiet"
_TOLD_LATE_S = 0.05
"""Listeners hear of a move after it happened, outside of its lock."""


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """From opening to what came next; ``number`` counts openings in a row, from 1."""

    began_s: float
    ended_s: float
    number: int


def states(run: Run) -> Iterator[Finding]:
    """Look which breakers opened in the fault window or right after it."""
    history = run.history
    on_s, _ = history.fault_s
    opened = {
        move.group
        for each in history.processes(GATEWAY)
        for move in _moves(history, each)
        if move.to_state == "open" and move.at_s >= on_s
    }
    wanted = run.expectation
    problems = [f"{group} did not open" for group in sorted(wanted.opens - opened)]
    problems += [f"{group} opened" for group in sorted(wanted.stays_closed & opened)]
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
                probe = _first_after(attempts, move.at_s - _TOLD_LATE_S)
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
            wrong += sum(
                period.began_s + _TOLD_LATE_S < each.began_s < period.ended_s - _TOLD_LATE_S
                for each in attempts
            )
    yield Finding(
        checker=QUIET,
        call=None,
        status=Status.RED if wrong else Status.GREEN,
        text=f"{wrong} attempts began while their breaker was open" if wrong else "",
        measured={"open_periods": periods, "attempts_while_open": wrong},
    )


def open_periods(history: History, process: int, group: str) -> list[OpenPeriod]:
    """Return when a breaker of a process was open; the last one may have no end."""
    found: list[OpenPeriod] = []
    began_s: float | None = None
    number = 0
    for move in _moves(history, process, group):
        if began_s is not None:
            found.append(OpenPeriod(began_s, move.at_s, number))
            began_s = None
        if move.to_state == "open":
            began_s = move.at_s
            number += 1
        elif move.to_state == "closed":
            number = 0
    if began_s is not None:
        found.append(OpenPeriod(began_s, float("inf"), number))
    return found


def _each_breaker(history: History) -> Iterator[tuple[int, str]]:
    for process in history.processes(GATEWAY):
        for group in sorted(ALL_GROUPS):
            yield process, group


def _moves(history: History, process: int, group: str | None = None) -> list[BreakerMoved]:
    return [
        each
        for each in history.of(BreakerMoved)
        if each.process == process and group in (None, each.group)
    ]


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
