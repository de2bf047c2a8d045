"""What is read: which hits the caller may see, in which order, and the text that is injected.

Pure, and the same for equal hits whatever their order, because the host keeps a digest of the
injected text. Addresses are judged by `namespace` alone.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from resilient_ov.domain.namespace import HitRefusal, View, is_category, judge_hits
from resilient_ov.domain.text import clean, replace_surrogates, utc_instant

MAX_TOP_K: Final = 100
MEMORY_LEVEL: Final = 2
"""The server's level of a memory itself; 0 and 1 are summaries of a directory."""

UNKNOWN_CATEGORY: Final = "memory"
"""Shown where neither the address nor a tag names a category."""

_HEADING: Final = "## Relevant long-term memory\n"
_CATEGORY_TAG: Final = "memory_type="
_NOT_CATEGORY: Final = re.compile(r"[^a-z0-9_-]+")
_MAX_CATEGORY_CHARS: Final = 64
_INVISIBLE: Final = re.compile(
    "["
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks, embeddings, overrides, isolates
    "\U000e0000-\U000e007f"  # tags: invisible ASCII that a model reads and a person does not
    "]+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHit:
    """One hit as the server sent it, unchecked.

    Attributes:
        uri: the server's address of the memory.
        text: its content or summary.
        score: similarity; anything that was no number is NaN.
        level: 2 = a memory, 0 and 1 = summaries of directories, None = not told.
        created_at: as sent, or None.
        tags: as sent, such as `memory_type=preferences`.

    """

    uri: str
    text: str
    score: float
    level: int | None = None
    created_at: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHit:
    """One memory the caller may see.

    Attributes:
        uri: address with the hashed user replaced by `~`; unique within a selection.
        text: the server's text, well formed (no lone surrogates), otherwise raw.
        category: `[a-z0-9_-]+`.
        score: finite; 0.0 stands for a score that was no finite number.
        created_at: ISO-8601 instant in UTC, or None.

    """

    uri: str
    text: str
    category: str
    score: float
    created_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Visible hits, best first, and how many were refused because of where they lie."""

    hits: tuple[MemoryHit, ...]
    rejected: int


def select(
    hits: Sequence[ServerHit],
    *,
    view: View,
    categories: Collection[str] | None = None,
    score_threshold: float | None = None,
    limit: int | None = None,
) -> Selection:
    """Keep what the caller may see of ONE reply, best score first (ties by address).

    Dropped: hits outside the caller's own memories (these are counted), directory summaries,
    other categories than asked for, blank texts, and repeats of an address or a text.

    Args:
        hits: the whole reply, in any order.
        view: what the caller reads (see `judge_hits`).
        categories: the wanted ones; None = all.
        score_threshold: keep finite scores above it only (strict, as on the wire). None = the
            server's word is taken, and scores that are no finite number sort last.
        limit: the most hits to return; None = all.

    """
    verdicts = judge_hits([hit.uri for hit in hits], view)
    rejected = 0
    visible: list[tuple[bool, MemoryHit]] = []
    for hit, verdict in zip(hits, verdicts, strict=True):
        if isinstance(verdict, HitRefusal):
            rejected += verdict is not HitRefusal.DIRECTORY_NOTE
            continue
        category = verdict.category or _tagged_category(hit.tags)
        finite = math.isfinite(hit.score)
        if (
            hit.level not in {None, MEMORY_LEVEL}
            or not hit.text.strip()
            or (categories is not None and category not in categories)
            or (score_threshold is not None and not (finite and hit.score > score_threshold))
        ):
            continue
        memory = MemoryHit(
            uri=verdict.uri,
            text=replace_surrogates(hit.text),
            category=category,
            score=hit.score if finite else 0.0,
            created_at=utc_instant(hit.created_at),
        )
        visible.append((not finite, memory))
    visible.sort(key=lambda pair: (pair[0], _rank(pair[1])))
    unique = _without_repeats(memory for _, memory in visible)
    return Selection(hits=tuple(unique[:limit]), rejected=rejected)


def _tagged_category(tags: Iterable[str]) -> str:
    for tag in tags:
        name = tag.removeprefix(_CATEGORY_TAG)
        if name != tag and is_category(name):
            return name
    return UNKNOWN_CATEGORY


def _rank(hit: MemoryHit) -> tuple[float, str, str, str]:
    return -hit.score, hit.uri, hit.text, hit.category


def _without_repeats(hits: Iterable[MemoryHit]) -> list[MemoryHit]:
    uris: set[str] = set()
    texts: set[str] = set()
    kept: list[MemoryHit] = []
    for hit in hits:
        text = _folded(hit.text)
        if hit.uri not in uris and text not in texts:
            kept.append(hit)
            uris.add(hit.uri)
            texts.add(text)
    return kept


def _folded(text: str) -> str:
    return " ".join(text.split())


def as_result(hit: MemoryHit) -> dict[str, str | float]:
    """The hit as the host's `memory_search` promises it to the model; plain JSON values.

    The server knows no confidence of a fact. `confidence` is the similarity score: a mapping for
    compatibility, no statement about truth.
    """
    result: dict[str, str | float] = {
        "id": hit.uri,
        "content": hit.text,
        "category": hit.category,
        "confidence": hit.score,
        "source": hit.uri,
        "score": hit.score,
    }
    if hit.created_at is not None:
        result["createdAt"] = hit.created_at
    return result


def clamp_top_k(value: object, default: int) -> int:
    """Number of hits to ask for, 1..100: the model chooses it and may choose anything.

    An integer is clamped; everything else (a float, even a whole one, a bool, a string, None) is
    no choice and gives `default`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return min(max(value, 1), MAX_TOP_K)


def injection_text(hits: Iterable[MemoryHit], *, max_chars: int, max_item_chars: int) -> str:
    """The text that goes into the prompt: a heading and one line for each memory, best first.

    A line (`- [category] text`) is whole or absent: one longer than `max_item_chars`, or that no
    longer fits into `max_chars` together with the heading, is left out and the next one tried.
    A memory is data that a user may have written, so it cannot close the host's `<memory>` block,
    start a line or a heading of its own, or hide text from a person who reads the prompt.

    Returns:
        At most `max_chars` characters without a line break at the end; "" when no line fits.

    """
    lines: list[str] = []
    room = max_chars - len(_HEADING)
    uris: set[str] = set()
    texts: set[str] = set()
    for hit in sorted(hits, key=_rank):
        text = _one_line(hit.text)
        if not text or hit.uri in uris or text in texts:
            continue
        uris.add(hit.uri)
        texts.add(text)
        line = f"- [{_shown_category(hit.category)}] {text}"
        if len(line) <= max_item_chars and len(line) < room:
            lines.append(line)
            room -= len(line) + 1
    return "\n".join([_HEADING, *lines]) if lines else ""


def _one_line(text: str) -> str:
    # Folded first, because `clean` would glue the words around a form feed together.
    visible = _INVISIBLE.sub("", clean(_folded(text)))
    words = _folded(visible).lstrip("#- ")
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shown_category(category: str) -> str:
    return _NOT_CATEGORY.sub("", category.lower())[:_MAX_CATEGORY_CHARS] or UNKNOWN_CATEGORY
