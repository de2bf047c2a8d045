"""An outage is quiet: for each process and group one "degraded", then one "recovered"; few lines.

Read from the log lines that the product wrote, as an operator would.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import cast

from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "one_story"
LOG = "log"
LOGGER = "resilient_ov"
LOUD = frozenset({"WARNING", "ERROR", "CRITICAL"})
MOST_LOUD = 60
"""Lines above INFO that one process may write in one run, which is one outage."""


def check(run: Run) -> Iterator[Finding]:
    """Follow the lines of each process."""
    problems: list[str] = []
    told = 0
    for where, text in run.leftovers.texts.items():
        if not where.startswith(LOG):
            continue
        loud, story = _read(text)
        told += sum(map(len, story.values()))
        if loud > MOST_LOUD:
            problems.append(f"{where}: {loud} lines above INFO")
        for group, words in story.items():
            if any(word == after for word, after in itertools.pairwise(words)):
                problems.append(f"{where}: {group}: {', '.join(words)}")
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if problems else Status.GREEN,
        text="; ".join(problems),
        measured={"lines_of_the_story": told},
    )


def _read(text: str) -> tuple[int, Mapping[str, list[str]]]:
    loud = 0
    story: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        level, _, rest = line.partition(" ")
        logger, _, text = rest.partition(" ")
        if logger != LOGGER:
            continue
        loud += level in LOUD
        said = _fields(text)
        event = str(said.get("event"))
        if event.endswith((".degraded", ".recovered")):
            story[str(said.get("group"))].append(event.rpartition(".")[2])
    return loud, story


def _fields(text: str) -> dict[str, object]:
    """Return a line's fields; a line for people has none."""
    if not text.startswith("{"):
        return {}
    return cast("dict[str, object]", json.loads(text))
