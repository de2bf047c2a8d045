"""Keeps a played scenario on disk, so that it can be judged again.

Rule: the key is never written, so a later judgement cannot look for it; everything else is there.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resilient_ov_chaos.cast import personas
from resilient_ov_chaos.faults.catalogue import FAULTS
from resilient_ov_chaos.history import History, from_line
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.ledger import Ledger, Shelf
from resilient_ov_chaos.leftovers_reader import read_leftovers
from resilient_ov_chaos.verdict import Run

_FILE = "run.json"


def save_run(run: Run, folder: Path, *, fault: str, name: str, slow: bool = False) -> None:
    """Write what the history does not hold: the ledger, the pace, what was played, on what."""
    document = {
        "fault": fault,
        "run": name,
        "slow": slow,
        "knobs": asdict(run.knobs),
        "ledger": [asdict(shelf) for shelf in run.ledger.shelves],
    }
    (folder / _FILE).write_text(json.dumps(document), encoding="utf-8")


def load_run(folder: Path) -> Run:
    """Read a scenario's folder.

    Raises:
        OSError, ValueError, KeyError: it is none.

    """
    document: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    lines = (folder / "history.ndjson").read_bytes().splitlines()
    shelves = tuple(
        Shelf(persona=each["persona"], thread=each["thread"], marks=tuple(each["marks"]))
        for each in document["ledger"]
    )
    name: str = document["run"]
    expectation = FAULTS[document["fault"]].expectation
    return Run(
        history=History(map(from_line, lines)),
        ledger=Ledger(shelves=shelves),
        leftovers=read_leftovers(folder, run=name, key=None, personas=personas(name)),
        knobs=Knobs(**document["knobs"]),
        expectation=expectation.at_slow_server() if document["slow"] else expectation,
    )
