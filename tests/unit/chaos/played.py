"""Played scenarios made by hand, for what shows them."""

from pathlib import Path

from resilient_ov_chaos.expectation import Expectation, Reads
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.history import Call
from resilient_ov_chaos.outcome import OPERATIONS, Ending, Outcome
from resilient_ov_chaos.suite import Aborted, Played, Skipped
from resilient_ov_chaos.verdict import Finding, Status
from tests.unit.chaos.story import Story

FAULT = Fault(
    name="rain",
    apply=lambda _: None,
    expectation=Expectation(told="Everybody gets wet.", reads=Reads.LOST),
)


def finding(
    call: Call | None, status: Status = Status.GREEN, text: str = "", **measured: float
) -> Finding:
    return Finding(checker="umbrella", call=call, status=status, text=text, measured=measured)


def played(*findings: Finding, folder: Path = Path("rain")) -> Played:
    """Return a scenario with these findings; calls without one have a green one."""
    told = {each.call for each in findings}
    green = [finding(call) for call in OPERATIONS.values() if call not in told]
    story = (
        Story(Expectation(told="Nobody stays dry.", reads=Reads.LOST))
        .call(Call.SEARCH, 5.0)
        .call(Call.ADD, 12.0)
        .breaker((11.0, "open"))
    )
    return Played(
        fault=FAULT, run=story.run(), findings=(*findings, *green), took_s=12.0, folder=folder
    )


def outcome(*scenarios: Played | Skipped | Aborted, ending: Ending = Ending.COMPLETED) -> Outcome:
    return Outcome(
        facts={"seed": "7", "target": "embedded"},
        scenarios=scenarios,
        ending=ending,
        began_at="2026-01-01T00:00:00+00:00",
        ended_at="2026-01-01T00:01:00+00:00",
        took_s=60.0,
    )
