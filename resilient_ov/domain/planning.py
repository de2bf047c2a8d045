"""Which of the presented messages are not on the server yet, and under which digests.

Rule: pure; the same list against the same watermark gives the same plan, and a message that the
watermark knows is never planned.

The watermark knows a window of digests and a prefix, the head of the presented list that fell out
of the window. A thread is stored in order: a message that stands behind one of the window is
either in the window too, or new. Of any other message only the server can tell, once something
fell out (`Plan.prefix_lost`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from resilient_ov.domain.alignment import align, align_head_first, interleave
from resilient_ov.domain.messages import Message
from resilient_ov.domain.presentation import (
    BASE_CHARS,
    Entry,
    Fingerprint,
    Place,
    Presentation,
    merge,
    numbered_digest,
    present,
    running_digest,
    trim,
)
from resilient_ov.domain.watermark import Watermark

__all__ = [
    "Plan",
    "Planned",
    "Presentation",
    "adopted_head",
    "grown_prefix",
    "merge",
    "plan",
    "present",
    "recognises",
    "trim",
]


@dataclass(frozen=True, slots=True)
class Planned:
    """A message to send and its digest."""

    message: Message
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of planning.

    `unknown` in order; `digests` one per entry, known or planned; `prefix_lost` True when some of
    `unknown` may be stored all the same, because they fell out of the window and the prefix does
    not cover them: compare with the server and plan again with its history.
    """

    unknown: tuple[Planned, ...]
    digests: tuple[str, ...]
    prefix_lost: bool


def plan(watermark: Watermark, presentation: Presentation, history: Sequence[str] = ()) -> Plan:
    """Return what of `presentation` must still be sent.

    `history` = what the server was just seen to hold, oldest first, when that is more than the
    window keeps.
    """
    entries = presentation.entries()
    submitted = interleave(watermark.submitted, history)
    window = submitted if watermark.in_doubt is None else submitted + watermark.in_doubt.digests
    more_than_seen = (watermark.server_total or 0) > len(submitted)
    forgotten = more_than_seen or (watermark.prefix_count > 0 and not history)
    prefix = _held_prefix(watermark, entries)

    found = _recognised(entries[prefix:], window, head_first=prefix > 0 or not forgotten)
    numbers = _Numbers(window, watermark.server_total or 0)
    digests = [_own_digest(entry) for entry in entries[:prefix]]
    unknown: list[Planned] = []
    by_token: dict[str, str] = {}
    before_found: int | None = None
    for entry, match in zip(entries[prefix:], found, strict=True):
        if match is not None:
            digests.append(match)
            before_found = len(unknown) if before_found is None else before_found
        elif isinstance(entry, Place) or entry.token in by_token:
            digests.append(by_token.get(entry.token, _own_digest(entry)))
        else:
            digests.append(numbers.next(entry.exact) if entry.numbered else entry.exact)
            unknown.append(Planned(entry.message, digests[-1]))
            if not entry.numbered:
                by_token[entry.token] = entry.exact
    return Plan(
        unknown=tuple(unknown),
        digests=tuple(digests),
        prefix_lost=forgotten and bool(unknown) and before_found != 0,
    )


def grown_prefix(
    watermark: Watermark, presentation: Presentation, digests: Sequence[str]
) -> tuple[int, str]:
    """Return the prefix after a delivery: the head that ends with the last one out of the window.

    `digests` are the plan's, and every one of them is stored by now.
    """
    window = frozenset(watermark.known)
    count = max((at for at, d in enumerate(digests, start=1) if d not in window), default=0)
    return count, running_digest(presentation.entries()[:count])


def recognises(digests: Sequence[str], presentation: Presentation) -> bool:
    """Tell whether enough was read back: `digests`, the newest, decide what is stored.

    One recognised message is enough for a list as the host presents it, because what stands
    before it is older. In a list that waited it must not stand behind a message that waits. A
    list with messages that have no id is only recognised whole.
    """
    known = frozenset(digests)
    for entry in presentation.entries():
        if isinstance(entry, Place):
            if entry.digest in known:
                return True
        elif entry.numbered:
            return False
        elif entry.known_as(known) is not None:
            return True
        elif presentation.waited:
            return False
    return False


def adopted_head(
    watermark: Watermark, presentation: Presentation, history: Sequence[str]
) -> Watermark:
    """After a rebuild: take the head of the list that is stored by now as the known prefix.

    What stands before the first recognised message counts as stored, unless it waited or has no
    id: the server was read only as far back as `recognises` asks for.
    """
    first = plan(replace(watermark, prefix_count=0, prefix_digest=""), presentation, history)
    known = {*watermark.known, *history}
    planned = {p.digest for p in first.unknown}
    first_known = next((at for at, d in enumerate(first.digests) if d in known), 0)
    head = 0
    for entry, digest in zip(presentation.entries(), first.digests, strict=True):
        older = head < first_known and not presentation.waited and not entry.numbered
        if digest in planned and not older:
            break
        head += 1
    return watermark.with_prefix(*grown_prefix(watermark, presentation, first.digests[:head]))


class _Numbers:
    """Hands out numbers for messages without an id; never one that the window holds."""

    def __init__(self, window: Sequence[str], total: int) -> None:
        self._last = total
        self._newest: dict[str, int] = {}
        for digest in window:
            base, number = digest[:BASE_CHARS], int(digest[BASE_CHARS:], 16)
            self._newest[base] = max(number, self._newest.get(base, 0))

    def next(self, base: str) -> str:
        self._last = max(self._last, self._newest.get(base, 0)) + 1
        return numbered_digest(base, self._last)


def _held_prefix(watermark: Watermark, entries: Sequence[Entry]) -> int:
    count = watermark.prefix_count
    holds = 0 < count <= len(entries) and running_digest(entries[:count]) == watermark.prefix_digest
    return count if holds else 0


def _recognised(
    entries: Sequence[Entry], window: Sequence[str], *, head_first: bool
) -> list[str | None]:
    """Return for each entry the digest of the window that stands for it, if any."""
    stored = frozenset(window)
    found = [_known_as(entry, stored) for entry in entries]
    bases = {e.exact for e in entries if isinstance(e, Fingerprint) and e.numbered}
    if not bases:
        return found
    # What a place stands for is known exactly; the other digests of that base are to be had.
    placed = {e.digest for e in entries if isinstance(e, Place)}
    tokens = [d[:BASE_CHARS] if d[:BASE_CHARS] in bases and d not in placed else d for d in window]
    sought = [
        (at, found[at] or _own_digest(entry))
        for at, entry in enumerate(entries)
        if isinstance(entry, Fingerprint) or found[at] is not None
    ]
    matches = (align_head_first if head_first else align)([token for _, token in sought], tokens)
    for (at, _), match in zip(sought, matches, strict=True):
        if found[at] is None and match is not None:
            found[at] = window[match]
    return found


def _known_as(entry: Entry, stored: Collection[str]) -> str | None:
    if isinstance(entry, Place):
        return entry.digest if entry.digest in stored else None
    return None if entry.numbered else entry.known_as(stored)


def _own_digest(entry: Entry) -> str:
    return entry.digest if isinstance(entry, Place) else entry.exact
