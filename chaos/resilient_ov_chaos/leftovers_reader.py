"""Reads what the product's processes left behind: logs, spans, metrics pages, state and status.

Rule: the canaries are what must be in none of it; they are chosen so that nothing else holds them.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.agent.sinks import PAGES, SPANS
from resilient_ov_chaos.ledger import Leftovers

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
    for file in sorted((folder / "storage").rglob("*")):
        if file.is_file():
            name = f"state {file.relative_to(folder / 'storage')}"
            texts[name] = file.read_text(encoding="utf-8", errors="replace")
    canaries = {"a text or a thread id": f"mk{run}"}
    if key is not None:
        canaries["the key"] = key
    canaries |= {f"user {each.number}": each.user for each in personas}
    return Leftovers(texts=texts, canaries=canaries)


def _by_sink(log: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    sink = "log"
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        level, _, rest = line.partition(" ")
        if level in _LEVELS:
            sink = _SINKS.get(rest.partition(" ")[0], "log")
        found[sink].append(line)
    return found
