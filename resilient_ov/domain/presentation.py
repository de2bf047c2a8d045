"""The messages of a thread as the host presented them, and the lists that wait to be stored.

Rule: pure; a list keeps its order through trimming and merging, also where its texts are gone.

A digest is 32 hexadecimal characters. For a message with a host id it is
`sha256(NS, session, role, id, text)`. A message without an id has the first 24 characters of
that hash (with an empty id), its base, and 8 for its number in the session, so that two equal
texts differ; it is recognised by its place among the others, where only the base counts.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from resilient_ov.domain.alignment import align_head_first, weave
from resilient_ov.domain.identity import NAMESPACE, escape_join
from resilient_ov.domain.messages import Message

BASE_CHARS: Final = 24
_REKEYED: Final = "__user"
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

    def known_as(self, known: Collection[str]) -> str | None:
        """Return the digest under which a message with an id is in `known`."""
        return next((d for d in (self.exact, *self.older) if d in known), None)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands that is stored: its text is not held, it only keeps the order.

    `ahead` = how many fingerprints of its list stand before it. `digest` = what it was known as.
    """

    ahead: int
    numbered: bool
    digest: str
    token: str


Entry = Fingerprint | Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """An ordered list of messages of one thread, from the head of the host's list on.

    `fingerprints` are the messages whose text is held; `places` those of the same list that were
    stored already when it was trimmed, by growing `ahead`. `waited` = it was trimmed: what it
    holds was not stored when it was planned last, whatever it stands before.
    """

    fingerprints: tuple[Fingerprint, ...]
    places: tuple[Place, ...] = ()
    waited: bool = False

    @property
    def chars(self) -> int:
        """Total length of the texts, and something for each place."""
        texts = sum(len(f.message.text) for f in self.fingerprints)
        return texts + _PLACE_CHARS * len(self.places)

    def entries(self) -> list[Entry]:
        """Return fingerprints and places in their order."""
        entries: list[Entry] = []
        taken = 0
        for place in self.places:
            entries += self.fingerprints[taken : place.ahead]
            entries.append(place)
            taken = place.ahead
        return [*entries, *self.fingerprints[taken:]]


def digest(session_id: str, role: str, identity: str, text: str) -> str:
    """Return the 32-character digest of one message of one session."""
    return hashlib.sha256(escape_join(NAMESPACE, session_id, role, identity, text)).hexdigest()[:32]


def numbered_digest(base: str, number: int) -> str:
    """Return the digest of the `number`-th message of a session that has no id."""
    return f"{base}{number % (1 << 32):08x}"


def fingerprint(session_id: str, message: Message) -> Fingerprint:
    """Return the identity of one message; the cost is one hash, more if it was re-keyed."""
    host_id = message.host_id
    if not host_id:
        base = digest(session_id, message.role, "", message.text)[:BASE_CHARS]
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


def trim(
    presentation: Presentation, digests: Sequence[str], wanted: Collection[str]
) -> Presentation:
    """Keep the texts of the messages whose digest is `wanted`, and the places of the others.

    `digests` has one digest per entry, as planned; those not wanted are stored.
    """
    return _assembled(
        (
            entry
            if isinstance(entry, Fingerprint) and digest in wanted
            else Place(ahead=0, numbered=entry.numbered, digest=digest, token=entry.token)
            for entry, digest in zip(presentation.entries(), digests, strict=True)
        ),
        waited=True,
    )


def merge(waiting: Presentation, newer: Presentation) -> Presentation:
    """Return one list that holds every message of both once, older ones first in a gap.

    What is stored in one of them is stored in the result. Where the lists disagree about the
    order, a message stands where it stands first.
    """
    old, new = waiting.entries(), newer.entries()
    if not old:
        return newer
    if not new:
        return waiting
    matches = align_head_first([e.token for e in new], [e.token for e in old])
    woven = weave(old, new, matches, _either)
    return _assembled(_once(woven), waited=waiting.waited or newer.waited)


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


def _once(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Unite entries with the same id and text; equal texts without an id are not the same."""
    once: dict[object, Entry] = {}
    for position, entry in enumerate(entries):
        key = position if entry.numbered else entry.token
        once[key] = _either(once[key], entry) if key in once else entry
    return once.values()


def _assembled(entries: Iterable[Entry], *, waited: bool) -> Presentation:
    fingerprints: list[Fingerprint] = []
    places: list[Place] = []
    for entry in entries:
        if isinstance(entry, Fingerprint):
            fingerprints.append(entry)
        else:
            places.append(Place(len(fingerprints), entry.numbered, entry.digest, entry.token))
    return Presentation(fingerprints=tuple(fingerprints), places=tuple(places), waited=waited)
