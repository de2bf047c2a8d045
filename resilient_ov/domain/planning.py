"""Which of the presented messages are not on the server yet, and under which digests.

Rule: pure; the same list against the same watermark gives the same plan, and a message that the
watermark knows is never planned.

The watermark knows a window of digests and a prefix, the head of the presented list that fell out
of the window. A thread is stored in order: what stands behind a message of the window is either
in the window too, or new. Of any other message only the server can tell, once something fell out
of the window (`Plan.prefix_lost`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from resilient_ov.domain.alignment import align, align_head_first, interleave
from resilient_ov.domain.messages import Message
from resilient_ov.domain.presentation import (
    BASE_CHARS,
    Entry,
    Fingerprint,
    Listing,
    Place,
    Presentation,
    having_waited,
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
    "delivered",
    "having_waited",
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


def plan(
    watermark: Watermark,
    presentation: Presentation,
    *,
    window: int,
    history: Sequence[str] | None = None,
) -> Plan:
    """Return what of `presentation` must still be sent.

    `window` = how many digests the watermark keeps. `history` = what the server was just seen to
    hold, oldest first; None = it was not asked.
    """
    submitted = interleave(watermark.submitted, history or ())
    total = watermark.server_total or 0
    if history is not None:
        forgotten = total > len(history)
    else:
        forgotten = watermark.prefix_count > 0 or total > len(submitted) or len(submitted) >= window
    doubt = watermark.in_doubt
    known = [*submitted, *(() if doubt is None else doubt.digests)]
    numbers = _Numbers(known, total)
    by_token: dict[str, str] = {}
    unknown: list[Planned] = []
    digests: list[str] = []
    lost = False
    for listing in presentation.listings:
        prefix = _held_prefix(watermark, listing.entries)
        # What a prefix stands for is not in the window, but a history may hold it.
        skipped = prefix if history is None else 0
        head_first = prefix > 0 or not forgotten
        fresh = [p.digest for p in unknown]
        found = _recognised(listing.entries[skipped:], known, fresh, head_first=head_first)
        found = [*[None] * skipped, *found]
        digests += map(_digest_in_prefix, listing.entries[:prefix], found[:prefix])
        stored = {*known, *fresh}
        anchored = any(_known_as(entry, stored) for entry in listing.entries[:prefix])
        for entry, match in zip(listing.entries[prefix:], found[prefix:], strict=True):
            digest = match or by_token.get(entry.token)
            if digest is None and isinstance(entry, Fingerprint):
                digest = numbers.next(entry.exact) if entry.numbered else entry.exact
                unknown.append(Planned(entry.message, digest))
                lost = lost or (forgotten and not anchored)
            elif digest is None:
                digest = _digest(entry)
            anchored = anchored or digest in stored
            if not entry.numbered:
                by_token[entry.token] = digest
            digests.append(digest)
    return Plan(unknown=tuple(unknown), digests=tuple(digests), prefix_lost=lost)


def delivered(
    watermark: Watermark, presentation: Presentation, digests: Sequence[str]
) -> Watermark:
    """Return the state after a delivery: `digests`, the plan's, are all stored or given up by now.

    The new prefix is the head of the list the host showed last that ends with the last message
    out of the window. The window takes the order of the lists and leaves the prefix out, because
    a message that was stored late, or given up, must not outlive its neighbours there.
    """
    for listing, stored in _by_listing(presentation, digests):
        window = frozenset(watermark.submitted)
        order = interleave(watermark.submitted, [d for d in dict.fromkeys(stored) if d in window])
        count, prefix_digest = _fallen(watermark, listing.entries, stored)
        covered = frozenset(stored[:count])
        watermark = replace(watermark, submitted=tuple(d for d in order if d not in covered))
        watermark = watermark.with_prefix(count, prefix_digest)
    return watermark


def recognises(digests: Sequence[str], presentation: Presentation) -> bool:
    """Tell whether enough was read back: `digests`, the newest, decide what is stored.

    One recognised message is enough for the list that the host shows, because what stands before
    it is older. In any other list, and one that waited, it must not stand behind a message that
    is not recognised; nor in one with messages that have no id, which are only known whole.
    """
    known = frozenset(digests)
    return all(
        _decided(listing, known, strict=listing.waited or listing is not presentation.listings[-1])
        for listing in presentation.listings
    )


def adopted_head(
    watermark: Watermark, presentation: Presentation, *, window: int, history: Sequence[str]
) -> Watermark:
    """After a rebuild: take the head of the list the host shows that is stored as the prefix.

    What stands before the first recognised message counts as stored, unless it waited or has no
    id: the server was read only as far back as `recognises` asks for.
    """
    if not presentation.listings:
        return watermark
    bare = watermark.with_prefix(0, "")
    first = plan(bare, presentation, window=window, history=history)
    listing, digests = list(_by_listing(presentation, first.digests))[-1]
    known = {*watermark.known, *history}
    planned = {p.digest for p in first.unknown}
    first_known = next((at for at, d in enumerate(digests) if d in known), 0)
    head = 0
    for entry, digest in zip(listing.entries, digests, strict=True):
        older = head < first_known and not listing.waited and not entry.numbered
        if (digest in planned and not older) or (entry.numbered and digest == entry.token):
            break
        head += 1
    return watermark.with_prefix(*_fallen(watermark, listing.entries, digests[:head]))


class _Numbers:
    """Hands out numbers for messages without an id; never one that the window holds."""

    def __init__(self, window: Iterable[str], total: int) -> None:
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


def _by_listing(
    presentation: Presentation, digests: Sequence[str]
) -> Iterator[tuple[Listing, Sequence[str]]]:
    start = 0
    for listing in presentation.listings:
        yield listing, digests[start : start + len(listing.entries)]
        start += len(listing.entries)


def _fallen(
    watermark: Watermark, entries: Sequence[Entry], digests: Sequence[str]
) -> tuple[int, str]:
    """Return the head of stored `entries` that ends with the last one out of the window."""
    window = frozenset(watermark.known)
    count = max((at for at, d in enumerate(digests, start=1) if d not in window), default=0)
    return count, running_digest(entries[:count])


def _recognised(
    entries: Sequence[Entry], known: Sequence[str], fresh: Sequence[str], *, head_first: bool
) -> list[str | None]:
    """Return for each entry the digest that stands for it, if any.

    `known` = the window in its order; `fresh` = what an earlier list of this plan has planned.
    """
    stored = frozenset(known)
    found = [_known_as(entry, stored) for entry in entries]
    sought = [at for at, entry in enumerate(entries) if _never_numbered(entry)]
    if not sought:
        return found
    bases = {entries[at].token for at in sought}
    # What a place stands for is known exactly; the other digests of a base are to be had.
    placed = {digest for digest in found if digest is not None}
    tokens = [d[:BASE_CHARS] if d[:BASE_CHARS] in bases and d not in placed else d for d in known]
    shown = [at for at, e in enumerate(entries) if _never_numbered(e) or found[at] is not None]
    wanted = [found[at] or entries[at].token for at in shown]
    for at, match in zip(
        shown, (align_head_first if head_first else align)(wanted, tokens), strict=True
    ):
        if found[at] is None and match is not None:
            found[at] = known[match]
    rest = [at for at in sought if found[at] is None]
    planned = align([entries[at].token for at in rest], [d[:BASE_CHARS] for d in fresh])
    for at, match in zip(rest, planned, strict=True):
        found[at] = None if match is None else fresh[match]
    return found


def _decided(listing: Listing, known: Collection[str], *, strict: bool) -> bool:
    for entry in listing.entries:
        if _known_as(entry, known) is not None:
            return True
        if _never_numbered(entry) or (strict and isinstance(entry, Fingerprint)):
            return False
    return False


def _known_as(entry: Entry, stored: Collection[str]) -> str | None:
    if isinstance(entry, Place):
        return entry.digest if entry.digest in stored else None
    return None if entry.numbered else entry.known_as(stored)


def _digest(entry: Entry) -> str:
    return entry.digest if isinstance(entry, Place) else entry.exact


def _digest_in_prefix(entry: Entry, found: str | None) -> str:
    # Which number an old message without an id once had is not known any more.
    return found or ("" if _never_numbered(entry) else _digest(entry))


def _never_numbered(entry: Entry) -> bool:
    """Tell whether it is only known by its base: a message without an id, or its place."""
    return entry.numbered and _digest(entry) == entry.token
