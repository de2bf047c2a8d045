"""What the server holds at the end, as its administrator reads it.

Pure: values only; ``ledger_reader`` fills them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One session on the server.

    Attributes:
        persona: whose user it was found under.
        thread: the conversation it belongs to; None = no conversation of ours has that id.
        marks: the marks of its messages, oldest first.

    """

    persona: int
    thread: str | None
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All sessions of all personas."""

    shelves: tuple[Shelf, ...]

    def of_thread(self, thread: str) -> tuple[str, ...]:
        """Return what the server holds of a conversation, oldest first."""
        return tuple(
            mark for shelf in self.shelves if shelf.thread == thread for mark in shelf.marks
        )

    def counted(self) -> Counter[str]:
        """Return how often each mark is stored, wherever."""
        return Counter(mark for shelf in self.shelves for mark in shelf.marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What else a run left behind.

    Attributes:
        texts: sink or file name -> all it holds: logs, metrics page, spans, state files.
        canaries: words that must be in none of them: name -> word.

    """

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    canaries: Mapping[str, str] = field(default_factory=dict[str, str])
