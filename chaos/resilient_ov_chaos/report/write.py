"""Writes the report of a run into its folder."""

import json
from pathlib import Path

from resilient_ov_chaos.outcome import Outcome
from resilient_ov_chaos.report.journal import journal
from resilient_ov_chaos.report.junit import junit
from resilient_ov_chaos.report.plots import plot
from resilient_ov_chaos.report.table import table
from resilient_ov_chaos.suite import Played


def write_report(outcome: Outcome, out: Path) -> None:
    """Write ``chaos.junit.xml``, ``chaos-report.md``, ``journal.json`` and ``history.ndjson``.

    Pictures are written by ``picture``, one as each scenario ends.
    """
    (out / "chaos.junit.xml").write_bytes(junit(outcome))
    (out / "chaos-report.md").write_text(table(outcome), encoding="utf-8")
    (out / "journal.json").write_text(journal(outcome), encoding="utf-8")
    with (out / "history.ndjson").open("wb") as whole:
        for played in outcome.played:
            head = {"kind": "scenario", "name": played.folder.name, "seed": outcome.facts["seed"]}
            whole.write(json.dumps(head).encode() + b"\n")
            whole.write((played.folder / "history.ndjson").read_bytes())


def picture(played: Played, out: Path) -> Path:
    """Draw a scenario; return the picture's path."""
    path = out / f"{played.folder.name}.png"
    title = f"{played.folder.name}: {played.status}"
    plot(
        played.run.history,
        path,
        title=title,
        told=played.run.expectation.told,
        budget_s=played.run.knobs.get_context_s,
    )
    return path
