"""Reads what the product left behind: logs, spans, metrics pages, state, status page, evidence.

Rule: the canaries are what must be in none of it; they are chosen so that nothing else holds them.
"""

import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.agent.sinks import PAGES, SPANS
from resilient_ov_chaos.ledger import Leftovers
from resilient_ov_chaos.marks import ANSWER_CANARY
from resilient_ov_chaos.snapshot import SEEN

_SINKS: Final = {SPANS: "spans", PAGES: "metrics"}
_LEVELS: Final = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})


def read_leftovers(
    folder: Path, *, run: str, key: str | None, personas: Sequence[Persona]
) -> Leftovers:
    """Return all texts of a scenario's folder, by sink; ``key`` None = it is not known."""
    texts: dict[str, str] = {}
    for log in sorted(folder.glob("*.log")):
        for sink, lines in _by_sink(log).items():
            texts[f"{sink} {log.stem}"] = "\n".join(lines)
    for kind in ("storage", SEEN):
        for name, text in _files(folder / kind):
            texts[f"{kind} {name}"] = text
    canaries = {
        "a text or a thread id": f"mk{run}",
        "an answer's header or error text": ANSWER_CANARY,
        # Its name stands where whole headers are written down, whatever the key is.
        "a request's headers": "X-API-Key",
    }
    if key is not None:
        canaries["the key"] = key
    # The first part only: what follows may be escaped.
    canaries |= {f"user {each.number}": each.user.partition("@")[0] for each in personas}
    return Leftovers(texts=texts, canaries=canaries)


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Return name and text of every file below a folder, and of every file of an archive there."""
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                for inner in archive.namelist():
                    yield f"{name} {inner}", archive.read(inner).decode(errors="replace")
        elif file.is_file():
            yield name, file.read_text(encoding="utf-8", errors="replace")


def _by_sink(log: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    sink = "log"
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        level, _, rest = line.partition(" ")
        if level in _LEVELS:
            sink = _SINKS.get(rest.partition(" ")[0], "log")
        found[sink].append(line)
    return found
