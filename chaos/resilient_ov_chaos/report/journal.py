"""The run as a journal in Chaos Toolkit's shape, one experiment for each scenario.

Pure.
"""

import json
import math
from typing import Any

from resilient_ov_chaos.outcome import Outcome, cases
from resilient_ov_chaos.suite import Aborted, Played, Skipped
from resilient_ov_chaos.verdict import Status


def journal(outcome: Outcome) -> str:
    """Return the document."""
    document = {
        "status": outcome.ending.value,
        "deviated": not outcome.green,
        "start": outcome.began_at,
        "end": outcome.ended_at,
        "duration": round(outcome.took_s, 3),
        "configuration": dict(outcome.facts),
        "experiments": [_experiment(each) for each in outcome.scenarios],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _experiment(scenario: Played | Skipped | Aborted) -> dict[str, Any]:
    expected = scenario.fault.expectation
    title = {"title": scenario.fault.name, "description": expected.told}
    if not isinstance(scenario, Played):
        ending = "aborted" if isinstance(scenario, Aborted) else "skipped"
        return {"experiment": title, "status": ending, "reason": scenario.reason, "run": []}
    return {
        "experiment": title,
        "status": "completed" if scenario.status is Status.GREEN else "failed",
        "deviated": scenario.status is not Status.GREEN,
        "duration": round(scenario.took_s, 3),
        "run": [
            {
                "activity": {"type": "probe", "name": case.operation},
                "status": "succeeded" if case.status is Status.GREEN else case.status.value,
                "output": {
                    name: value for name, value in case.measured.items() if math.isfinite(value)
                },
                "problems": list(case.problems),
            }
            for case in cases(scenario)
        ],
    }
