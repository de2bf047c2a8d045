"""Which of the presented messages are not on the server yet, and under which digests.

Rule: pure; the same list against the same watermark gives the same plan, and a message that the
watermark knows is never planned.

A digest is 32 hexadecimal characters. For a message with a host id it is
``sha256(NS, session, role, id, text)``. A message without an id has the first 24 characters of
that hash (with an empty id) and 8 for its number in the session, so that two equal texts differ;
it is recognised by aligning the presented list with the ordered window (longest common
subsequence), where only the 24 characters count.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resilient_ov.domain.identity import NAMESPACE, escape_join
from resilient_ov.domain.messages import Message
from resilient_ov.domain.watermark import Watermark

_BASE_CHARS = 24
_REKEYED = "__user"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies one presented message in one session.

    ``exact`` = its digest if it has a host id, else the 24-character base. ``older`` = digests it
    may be known under from before the host re-keyed it (``X`` became ``X__user``), nearest first.
    ``token`` = the spelling-independent identity used for prefixes and merging.
    """

    message: Message
    numbered: bool
    exact: str
    older: tuple[str, ...]
    token: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A message to send and its digest."""

    message: Message
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """An ordered list of messages of one thread.

    ``complete`` = it is what the host presented, from its head on; only then can the known prefix
    be compared with it. A list trimmed to what was unknown is not complete.
    """

    fingerprints: tuple[Fingerprint, ...]
    complete: bool = True

    @property
    def chars(self) -> int:
        """Total length of the texts."""
        return sum(len(f.message.text) for f in self.fingerprints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of planning.

    ``unknown`` in order; ``digests`` one per presented message, known or planned; ``prefix_*`` the
    prefix that still holds for this list; ``prefix_lost`` True when the list no longer begins with
    the known prefix and unknown messages stand before the first known one: only the server can
    tell whether those were stored long ago.
    """

    unknown: tuple[Planned, ...]
    digests: tuple[str, ...]
    prefix_count: int
    prefix_digest: str
    prefix_lost: bool


def digest(session_id: str, role: str, identity: str, text: str) -> str:
    """Return the 32-character digest of one message of one session."""
    return hashlib.sha256(escape_join(NAMESPACE, session_id, role, identity, text)).hexdigest()[:32]


def numbered_digest(base: str, number: int) -> str:
    """Return the digest of the ``number``-th message of a session that has no id."""
    return f"{base}{number % (1 << 32):08x}"


def fingerprint(session_id: str, message: Message) -> Fingerprint:
    """Return the identity of one message; the cost is one hash, more if it was re-keyed."""
    host_id = message.host_id
    if not host_id:
        base = digest(session_id, message.role, "", message.text)[:_BASE_CHARS]
        return Fingerprint(message, numbered=True, exact=base, older=(), token=base)
    exact = digest(session_id, message.role, host_id, message.text)
    older: list[str] = []
    while host_id.endswith(_REKEYED) and len(host_id) > len(_REKEYED):
        host_id = host_id.removesuffix(_REKEYED)
        older.append(digest(session_id, message.role, host_id, message.text))
    return Fingerprint(
        message, numbered=False, exact=exact, older=tuple(older), token=(older or [exact])[-1]
    )


def present(session_id: str, messages: Iterable[Message]) -> Presentation:
    """Return the messages of a thread as presented by the host."""
    return Presentation(fingerprints=tuple(fingerprint(session_id, m) for m in messages))


def plan(watermark: Watermark, presentation: Presentation) -> Plan:
    """Return what of ``presentation`` must still be sent."""
    items = presentation.fingerprints
    window = watermark.known
    known = set(window)
    held = watermark.prefix_count if presentation.complete else 0
    prefix = held if _prefix_holds(watermark, items, held) else 0
    aligned = _aligned(items[prefix:], window)
    number = _Numbers(window, watermark.server_total or 0)
    digests: list[str] = [f.exact for f in items[:prefix]]
    unknown: list[Planned] = []
    first_known = None if prefix == 0 else 0
    for position, item in enumerate(items[prefix:], start=prefix):
        found = aligned[position - prefix] if item.numbered else _known_as(item, known)
        if found is None:
            found = number.next(item.exact) if item.numbered else item.exact
            unknown.append(Planned(item.message, found))
            known.add(found)
        elif first_known is None:
            first_known = len(unknown)
        digests.append(found)
    lost = presentation.complete and watermark.prefix_count > 0 and prefix == 0
    return Plan(
        unknown=tuple(unknown),
        digests=tuple(digests),
        prefix_count=prefix,
        prefix_digest=watermark.prefix_digest if prefix else "",
        prefix_lost=lost and bool(unknown) and first_known != 0,
    )


def grown_prefix(
    watermark: Watermark, presentation: Presentation, digests: Sequence[str]
) -> tuple[int, str]:
    """Return the prefix after a delivery: the presented head that the window no longer holds.

    ``digests`` are the plan's, and every one of them is stored by now.
    """
    if not presentation.complete:
        return watermark.prefix_count, watermark.prefix_digest
    window = set(watermark.known)
    count = 0
    while count < len(digests) and digests[count] not in window:
        count += 1
    return count, _running(presentation.fingerprints, count)


def trim(presentation: Presentation, unknown: Sequence[Planned]) -> Presentation:
    """Drop what is known already, to hold less text while waiting.

    A list with messages that have no id is kept whole: they are only recognised in their context.
    """
    if any(f.numbered for f in presentation.fingerprints):
        return presentation
    wanted = {id(p.message) for p in unknown}
    kept = tuple(f for f in presentation.fingerprints if id(f.message) in wanted)
    if len(kept) == len(presentation.fingerprints):
        return presentation
    return Presentation(fingerprints=kept, complete=False)


def merge(waiting: Presentation, newer: Presentation) -> Presentation:
    """Return one ordered list that holds every message of both once, older ones first in a gap."""
    old, new = waiting.fingerprints, newer.fingerprints
    if not old:
        return newer
    if not new:
        return waiting
    matches = align([f.token for f in new], [f.token for f in old])
    merged: list[Fingerprint] = []
    taken = 0
    gap: list[Fingerprint] = []
    for item, match in zip(new, matches, strict=True):
        if match is None:
            gap.append(item)
            continue
        merged += [*old[taken:match], *gap, item]
        taken, gap = match + 1, []
    merged += [*old[taken:], *gap]
    out = _once(merged)
    head_of_old = bool(out) and out[0].token == old[0].token
    complete = waiting.complete if head_of_old else newer.complete
    if out and out[0].token == new[0].token:
        complete = complete or newer.complete
    return Presentation(fingerprints=tuple(out), complete=complete)


def align(presented: Sequence[str], window: Sequence[str]) -> list[int | None]:
    """Match ``presented`` to ``window`` along a longest common subsequence.

    Returns one window index (strictly growing) or None per presented token. Among the longest
    alignments the one that matches the earliest presented tokens is taken, because new messages
    stand at the end. Bit-parallel (Hyyrö 2004): about len(presented) operations on integers of
    len(window) bits.
    """
    size = len(window)
    places: dict[str, int] = {}
    for index, token in enumerate(window):
        places[token] = places.get(token, 0) | 1 << (size - 1 - index)
    full = (1 << size) - 1
    rows = [full]
    for token in reversed(presented):
        row = rows[-1]
        hit = row & places.get(token, 0)
        rows.append(((row + hit) | (row - hit)) & full)
    out: list[int | None] = []
    free = size  # window tokens still free, counted from the end
    for offset, token in enumerate(presented):
        rest = len(presented) - offset
        mask = (1 << free) - 1
        best = (~rows[rest] & mask).bit_count()
        ahead = places.get(token, 0) & mask
        at = ahead.bit_length()
        after = (~rows[rest - 1] & ((1 << at) - 1 >> 1)).bit_count() if at else -1
        if at and 1 + after == best:
            out.append(size - at)
            free = at - 1
        else:
            out.append(None)
    return out


class _Numbers:
    """Hands out numbers for messages without an id; never one that the window holds."""

    def __init__(self, window: Sequence[str], total: int) -> None:
        self._last = total
        self._window = window

    def next(self, base: str) -> str:
        self._last += 1
        taken = [int(d[_BASE_CHARS:], 16) for d in self._window if d.startswith(base)]
        self._last = max(self._last, *(n + 1 for n in taken)) if taken else self._last
        return numbered_digest(base, self._last)


def _known_as(item: Fingerprint, known: set[str]) -> str | None:
    for candidate in (item.exact, *item.older):
        if candidate in known:
            return candidate
    return None


def _aligned(items: Sequence[Fingerprint], window: Sequence[str]) -> list[str | None]:
    if not any(item.numbered for item in items):
        return []
    bases = {item.exact for item in items if item.numbered}
    known = set(window)
    tokens = [d[:_BASE_CHARS] if d[:_BASE_CHARS] in bases else d for d in window]
    wanted = [i.exact if i.numbered else _known_as(i, known) or i.exact for i in items]
    return [None if match is None else window[match] for match in align(wanted, tokens)]


def _prefix_holds(watermark: Watermark, items: Sequence[Fingerprint], held: int) -> bool:
    return 0 < held <= len(items) and _running(items, held) == watermark.prefix_digest


def _running(items: Sequence[Fingerprint], count: int) -> str:
    if count == 0:
        return ""
    running = hashlib.sha256()
    for item in items[:count]:
        running.update(item.token.encode().ljust(32))
    return running.hexdigest()[:32]


def _once(items: Iterable[Fingerprint]) -> list[Fingerprint]:
    seen: set[str] = set()
    out: list[Fingerprint] = []
    for item in items:
        if not item.numbered:
            if item.token in seen:
                continue
            seen.add(item.token)
        out.append(item)
    return out
