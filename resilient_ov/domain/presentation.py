"""The messages of a thread as the host presented them, and the lists that wait to be stored.

Rule: pure; a list keeps its order through trimming and merging, also where its texts are gone.

A digest is 32 hexadecimal characters. For a message with a host id it is
`sha256(NS, session, role, id, text)`. A message without an id has the first 24 characters of
that hash (with an empty id), its base, and 8 for its number in the session, so that two equal
texts differ; it is recognised by its place among the others, where only the base counts.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from resilient_ov.domain.alignment import align, align_head
from resilient_ov.domain.identity import NAMESPACE, escape_join
from resilient_ov.domain.messages import Message

BASE_CHARS: Final = 24
_REKEYED: Final = "__user"
_REKEYED_ROLE: Final = "user"
"""The host re-keys nothing but what a user said."""
_PLACE_CHARS: Final = 200
"""What a place costs in memory, about, so that a queue bounded by characters stays bounded."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies one presented message in one session.

    `exact` = its digest if it has a host id, else its base (`numbered`). `older` = digests it may
    be known under from before the host re-keyed it (`X` became `X__user`), nearest first.
    `token` = the identity that every spelling shares, used for prefixes and merging.
    """

    message: Message
    numbered: bool
    exact: str
    older: tuple[str, ...]
    token: str
    newer: str | None = None

    def known_as(self, known: Collection[str]) -> str | None:
        """Return the digest under which a message with an id is in `known`."""
        return next((d for d in (self.exact, *self.older, self.newer) if d in known), None)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands whose text is not held here: it only keeps the order.

    It is stored, or an earlier list of the same presentation holds it. `digest` = what it was
    known as, or would be.
    """

    numbered: bool
    digest: str
    token: str


Entry = Fingerprint | Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One list as the host showed it, from its head on.

    `waited` = it lay in the backlog: meanwhile another process may have stored what stands behind
    it, so nothing about it follows from that.
    """

    entries: tuple[Entry, ...]
    waited: bool = False

    @property
    def tokens(self) -> list[str]:
        """What the entries are matched by."""
        return [entry.token for entry in self.entries]


@dataclass(frozen=True, slots=True)
class Presentation:
    """What the host showed of one thread and what of it is held, in the order of its acceptance.

    Usually one list; more where a later one does not contain the earlier (a compaction or a
    branch while messages wait): an order that no list had must not be made up. `fingerprints` are
    the messages whose text is held; `chars` bounds their memory and that of the places.
    """

    listings: tuple[Listing, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = field(init=False)
    chars: int = field(init=False)

    def __post_init__(self) -> None:
        entries = self.entries()
        held = tuple(entry for entry in entries if isinstance(entry, Fingerprint))
        places = len(entries) - len(held)
        chars = sum(len(f.message.text) for f in held) + _PLACE_CHARS * places
        object.__setattr__(self, "fingerprints", held)
        object.__setattr__(self, "chars", chars)

    def entries(self) -> list[Entry]:
        """Return the entries of all lists."""
        return [entry for listing in self.listings for entry in listing.entries]


def digest(session_id: str, role: str, identity: str, text: str) -> str:
    """Return the 32-character digest of one message of one session."""
    return hashlib.sha256(escape_join(NAMESPACE, session_id, role, identity, text)).hexdigest()[:32]


def numbered_digest(base: str, number: int) -> str:
    """Return the digest of the `number`-th message of a session that has no id."""
    return f"{base}{number % (1 << 32):08x}"


def fingerprint(session_id: str, message: Message) -> Fingerprint:
    """Return the identity of one message; the cost is one or two hashes, more if re-keyed twice."""
    host_id = message.host_id
    if not host_id:
        base = digest(session_id, message.role, "", message.text)[:BASE_CHARS]
        return Fingerprint(message, numbered=True, exact=base, older=(), token=base)
    exact = digest(session_id, message.role, host_id, message.text)
    older: list[str] = []
    while host_id.endswith(_REKEYED) and len(host_id) > len(_REKEYED):
        host_id = host_id.removesuffix(_REKEYED)
        older.append(digest(session_id, message.role, host_id, message.text))
    newer = None
    if message.role == _REKEYED_ROLE and not older:
        newer = digest(session_id, message.role, host_id + _REKEYED, message.text)
    return Fingerprint(
        message,
        numbered=False,
        exact=exact,
        older=tuple(older),
        token=(older or [exact])[-1],
        newer=newer,
    )


def present(session_id: str, messages: Iterable[Message]) -> Presentation:
    """Return the messages of a thread as presented by the host."""
    entries = tuple(fingerprint(session_id, m) for m in messages)
    return Presentation((Listing(entries=entries),) if entries else ())


def having_waited(presentation: Presentation) -> Presentation:
    """Return the same as what waited for its delivery."""
    return Presentation(tuple(replace(each, waited=True) for each in presentation.listings))


def trim(
    presentation: Presentation, digests: Sequence[str], wanted: Collection[str]
) -> Presentation:
    """Keep the texts of the messages whose digest is `wanted`, and the places of the others.

    `digests` has one digest per entry, as planned; those not wanted are stored. A message is held
    once; a list that holds none is dropped.
    """
    unheld = set(wanted)
    planned = iter(digests)
    listings: list[Listing] = []
    for listing in presentation.listings:
        entries: list[Entry] = []
        for entry, digest in zip(listing.entries, planned, strict=False):
            if isinstance(entry, Fingerprint) and digest in unheld:
                unheld.remove(digest)
                entries.append(entry)
            else:
                # The number of a message without an id is not final before it is stored.
                entries.append(_place(entry, None if digest in wanted else digest))
        listings.append(Listing(entries=tuple(entries), waited=True))
    return Presentation(tuple(filter(_holds_text, listings)))


def merge(waiting: Presentation, newer: Presentation) -> Presentation:
    """Return what both hold, each message once, in the order in which it was accepted.

    A list that contains the last one of those that wait takes its place; any other stands behind,
    if it holds anything new.
    """
    listings = list(waiting.listings)
    for listing in newer.listings:
        united = _united(listings[-1], listing) if listings else listing
        if united is not None:
            listings[-1:] = [_without_held(united, listings[:-1])]
        else:
            behind = _without_held(listing, listings)
            listings += [behind] if _holds_text(behind) else []
    return Presentation(tuple(listings))


def running_digest(entries: Sequence[Entry]) -> str:
    """Return the digest of a head of a list, 32 characters; empty for an empty head."""
    if not entries:
        return ""
    running = hashlib.sha256()
    for entry in entries:
        running.update(entry.token.encode().ljust(32))
    return running.hexdigest()[:32]


def _either(old: Entry, new: Entry) -> Entry:
    if isinstance(old, Place):
        return old
    if isinstance(new, Place):
        return new
    # The spelling that knows more of the others is the later one.
    return old if len(old.older) > len(new.older) else new


def _united(last: Listing, newer: Listing) -> Listing | None:
    """Return the newer list with what is known of the older, if it contains all of that."""
    matches = _matches(newer, last)
    if sum(match is not None for match in matches) < len(last.entries):
        return None
    entries = [
        entry if match is None else _either(last.entries[match], entry)
        for match, entry in zip(matches, newer.entries, strict=True)
    ]
    return Listing(entries=tuple(entries), waited=last.waited or newer.waited)


def _matches(newer: Listing, older: Listing) -> list[int | None]:
    """Match the entries of two lists of one host, which adds at the end only."""
    equal_texts = any(entry.numbered for entry in newer.entries)
    return (align_head if equal_texts else align)(newer.tokens, older.tokens)


def _without_held(listing: Listing, earlier: Sequence[Listing]) -> Listing:
    """Leave only the places of what an earlier list has already."""
    entries = list(listing.entries)
    for other in earlier:
        held = frozenset(other.tokens)
        matches = _matches(listing, other)
        for at, (entry, match) in enumerate(zip(listing.entries, matches, strict=True)):
            if match is not None or (entry.token in held and not entry.numbered):
                entries[at] = _place(entry)
    return replace(listing, entries=tuple(entries))


def _holds_text(listing: Listing) -> bool:
    return any(isinstance(entry, Fingerprint) for entry in listing.entries)


def _place(entry: Entry, digest: str | None = None) -> Place:
    own = entry.digest if isinstance(entry, Place) else entry.exact
    return Place(entry.numbered, own if digest is None else digest, entry.token)
