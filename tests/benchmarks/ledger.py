"""What the host presented, against what the server holds in the end. Knows no product code.

Rule: a message counts by its text, which is unique in a run, so nothing that the product computes
is believed.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.benchmarks.frame import Figure, say


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Messages that are missing, stored again, or stand in another order; examples for a look."""

    messages: int
    lost: int
    duplicated: int
    misplaced: int
    examples: tuple[str, ...]


class Ledger:
    """Texts by conversation, in the order of the thread. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._presented: dict[str, dict[str, None]] = {}

    def present(self, conversation: str, texts: Iterable[str]) -> None:
        """Note a list of a call that returned; what was presented before stays."""
        with self._lock:
            self._presented.setdefault(conversation, {}).update(dict.fromkeys(texts))

    def judge(self, stored: Mapping[str, list[str]]) -> Verdict:
        """Compare with the texts that the server holds of each conversation, in its order."""
        lost = duplicated = misplaced = messages = 0
        examples: list[str] = []
        for name, presented in self._presented.items():
            held = stored.get(name, [])
            count = Counter(held)
            messages += len(presented)
            gone = sum(not count[text] for text in presented)
            again = sum(count.values()) - len(count)
            moved = int(not gone and not again and held != list(presented))
            if gone or again or moved:
                examples.append(f"{name}: lost {gone}, duplicated {again}, moved {moved}")
            lost, duplicated, misplaced = lost + gone, duplicated + again, misplaced + moved
        return Verdict(
            messages=messages,
            lost=lost,
            duplicated=duplicated,
            misplaced=misplaced,
            examples=tuple(examples[:5]),
        )


def figures_of(verdict: Verdict, writes: int) -> Iterable[Figure]:
    """Return the verdict as figures; what is wrong is told with examples."""
    for example in verdict.examples:
        say(example)
    for name, value in (
        ("messages lost", verdict.lost),
        ("messages stored twice", verdict.duplicated),
        ("conversations in another order", verdict.misplaced),
    ):
        yield Figure(name=name, value=value, unit="", samples=writes, exactly=0)
