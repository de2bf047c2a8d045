"""The run as a page of Markdown: the matrix, what was expected against what was measured.

Pure.
"""

import math
from collections.abc import Iterator, Mapping

from resilient_ov_chaos.outcome import OPERATIONS, Outcome, cases
from resilient_ov_chaos.suite import Aborted, Played, Skipped
from resilient_ov_chaos.verdict import Status

_SIGNS = {Status.GREEN: "ok", Status.RED: "**RED**", Status.UNKNOWN: "*unknown*"}
_NUMBERS = (
    ("served", "served_share", "share of the reads inside the window that had memory"),
    ("degrade s", "degrade_s", "first turn without memory after the fault began"),
    ("server s", "server_back_s", "first search the server itself served after it ended"),
    ("recover s", "recover_s", "first turn with memory after it ended"),
    ("limit s", "recover_limit_s", "what the server and the open period or hold allow"),
    ("deliver s", "deliver_s", "last accepted write on the server after it ended"),
    ("limit s", "deliver_limit_s", "what is expected"),
    ("attempts", "attempts", "on the wire, of the traffic's process"),
    ("ampl.", "amplification", "attempts for each request"),
    ("lost", "lost", "messages that are owed and not there"),
    ("twice", "duplicated", "messages that are there more than once"),
    ("late s", "worst_late_s", "worst call against its budget; negative = inside"),
    ("sinks", "sinks", "files and streams that were searched for canaries"),
)


def table(outcome: Outcome) -> str:
    """Return the page."""
    return "\n".join(_lines(outcome)) + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    verdict = "green" if outcome.green else "NOT green"
    yield "# Chaos report"
    yield ""
    yield f"{verdict}; {outcome.ending}, {len(outcome.played)} scenarios, {outcome.took_s:.0f} s."
    yield ""
    for name, value in outcome.facts.items():
        yield f"- {name}: {value}"
    yield ""
    yield "## Matrix"
    yield ""
    yield f"| fault | {' | '.join(OPERATIONS)} |"
    yield f"|---|{'---|' * len(OPERATIONS)}"
    for scenario in outcome.scenarios:
        yield f"| {_cell(scenario)} |"
    yield ""
    yield "## Expected and measured"
    yield ""
    yield f"| fault | expected | {' | '.join(name for name, _, _ in _NUMBERS)} |"
    yield f"|---|---|{'---:|' * len(_NUMBERS)}"
    for played in outcome.played:
        numbers = _numbers(played)
        shown = " | ".join(_number(numbers.get(key)) for _, key, _ in _NUMBERS)
        yield f"| {_link(played)} | {played.run.expectation.told} | {shown} |"
    yield ""
    for name, _, meaning in _NUMBERS:
        yield f"- {name}: {meaning}"
    if any(played.tries > 1 for played in outcome.played):
        yield "- a name that ends in -2 or -3: played again, because the machine was too busy"
    yield from _problems(outcome)


def _cell(scenario: Played | Skipped | Aborted) -> str:
    if isinstance(scenario, Played):
        signs = " | ".join(_SIGNS[each.status] for each in cases(scenario))
        return f"{_link(scenario)} | {signs}"
    word = "skipped" if isinstance(scenario, Skipped) else "**ABORTED**"
    return f"{scenario.fault.name} | {word}: {scenario.reason}{' |' * (len(OPERATIONS) - 1)}"


def _link(played: Played) -> str:
    name = played.folder.name
    return f"[{name}]({name}.png)"


def _numbers(played: Played) -> Mapping[str, float]:
    """Return all measured numbers by name; of several, the worst."""
    worst: dict[str, float] = {}
    for finding in played.findings:
        for name, value in finding.measured.items():
            if math.isnan(value):
                continue
            known = worst.get(name, value)
            worst[name] = min(known, value) if name == "served_share" else max(known, value)
    return worst


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def _problems(outcome: Outcome) -> Iterator[str]:
    told = [(played, case) for played in outcome.played for case in cases(played) if case.problems]
    if not told:
        return
    yield ""
    yield "## What is not green"
    yield ""
    for played, case in told:
        for problem in case.problems:
            yield f"- {played.folder.name}, {case.operation}: {problem}"
