"""Marks: words inside message texts by which the suite recognises each message anywhere.

Pure. A mark tells whose message it is, so one that shows up elsewhere is a leak by itself. It is
one plain word, so that no filter on the way takes it for a secret or cuts it.
"""

import re
from typing import Final

_MARK: Final = re.compile(r"mk[0-9a-f]{6}p\d{2}(?:t\d{3}n\d{4}[ha]|seed)")
RUN_CHARS: Final = 6
ANSWER_CANARY: Final = "cnry7f3a91"
"""Word in headers and error texts of answers, where the server or a gateway before it can lie."""


def mark(run: str, persona: int, thread: int, number: int, role: str) -> str:
    """Return the mark of message ``number`` of a thread; ``role`` is ``h`` or ``a``."""
    return f"mk{run}p{persona:02d}t{thread:03d}n{number:04d}{role}"


def seed_mark(run: str, persona: int) -> str:
    """Return the mark of what the persona's memory holds from the start."""
    return f"mk{run}p{persona:02d}seed"


def marks_in(text: str) -> tuple[str, ...]:
    """Return all marks of a text, in order."""
    return tuple(_MARK.findall(text))


def owner_of(found: str) -> int:
    """Return the persona whose mark this is."""
    return int(found[2 + RUN_CHARS + 1 : 2 + RUN_CHARS + 3])


def is_seed(found: str) -> bool:
    """Tell whether this is the mark of a persona's first memory."""
    return found.endswith("seed")


def thread_of(found: str) -> str:
    """Return the head of a message's mark, which is the id of its conversation."""
    return found.partition("n")[0]
