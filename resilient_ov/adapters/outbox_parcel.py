"""The bytes of a parcel, and back: one part that keeps the order, and one part per text.

Rule: no I/O here. A text is in its own part only, so that a list that grows is not written anew.
What does not have exactly the expected shape is unreadable. What a text's digests are is computed
again, never believed.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.presentation import (
    Entry,
    Fingerprint,
    Listing,
    Place,
    Presentation,
    fingerprint,
)
from resilient_ov.domain.waiting import Parcel, Target

_VERSION: Final = 1


class UnreadableParcelError(Exception):
    """The parts are not a parcel of this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A parcel in parts; ``texts`` by a name that is the same as long as the message waits."""

    session_id: str
    user: str
    since_utc: str
    order: bytes
    texts: Mapping[str, bytes]

    @property
    def text_bytes(self) -> int:
        """How much the texts take."""
        return sum(map(len, self.texts.values()))


def pack(parcel: Parcel) -> Packed:
    """Return the parts of a parcel."""
    target = parcel.target
    counts: Counter[str] = Counter()
    texts: dict[str, bytes] = {}
    ages: list[tuple[str, float]] = []
    lists: list[object] = []
    waited_s = iter(parcel.waited_s)
    for listing in parcel.presentation.listings:
        entries: list[object] = []
        for entry in listing.entries:
            if isinstance(entry, Place):
                entries.append([entry.numbered, entry.digest, entry.token])
                continue
            name = f"{entry.exact}-{counts[entry.exact]}"
            counts[entry.exact] += 1
            texts[name] = _text_of(entry.message)
            ages.append((name, next(waited_s)))
            entries.append(name)
        lists.append([listing.waited, entries])
    order = {
        "version": _VERSION,
        "user": target.identity.user,
        "agent": target.identity.agent,
        "account": target.account,
        "user_role": target.user_role,
        "agent_role": target.agent_role,
        "trace_id": parcel.trace_id,
        "lists": lists,
        "ages": ages,
    }
    return Packed(
        session_id=target.session_id,
        user=target.identity.user or "",
        since_utc=parcel.since_utc,
        order=json.dumps(order, separators=(",", ":")).encode(),
        texts=texts,
    )


def unpack(packed: Packed) -> Parcel:
    """Return the parcel of these parts.

    Raises:
        UnreadableParcelError: they are not what ``pack`` makes.
    """
    try:
        return _unpacked(packed, json.loads(packed.order))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableParcelError from error


def _unpacked(packed: Packed, order: dict[str, Any]) -> Parcel:
    if order["version"] != _VERSION:
        raise UnreadableParcelError
    fresh = {
        name: fingerprint(packed.session_id, _message_of(json.loads(data)))
        for name, data in packed.texts.items()
    }
    ages = {str(name): float(age) for name, age in order["ages"]}
    names: list[str] = []
    listings: list[Listing] = []
    for waited, entries in order["lists"]:
        names += [entry for entry in entries if isinstance(entry, str)]
        found = tuple(_entry(entry, fresh) for entry in entries)
        listings.append(Listing(entries=found, waited=bool(waited)))
    return Parcel(
        target=Target(
            identity=Identity(user=_word(order["user"]), agent=_word(order["agent"])),
            session_id=packed.session_id,
            account=str(order["account"]),
            user_role=_word(order["user_role"]),
            agent_role=_word(order["agent_role"]),
        ),
        presentation=Presentation(tuple(listings)),
        waited_s=tuple(ages[name] for name in names),
        trace_id=_word(order["trace_id"]),
        since_utc=packed.since_utc,
    )


def _entry(entry: object, fresh: Mapping[str, Fingerprint]) -> Entry:
    if isinstance(entry, str):
        return fresh[entry]
    numbered, digest, token = cast("Sequence[object]", entry)
    return Place(numbered=bool(numbered), digest=str(digest), token=str(token))


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _text_of(message: Message) -> bytes:
    # Escaped, so that whatever a text holds comes back as it was.
    content = [message.role.value, message.text, message.host_id, message.created_at]
    return json.dumps(content, separators=(",", ":")).encode()


def _message_of(content: Sequence[Any]) -> Message:
    role, text, host_id, created_at = content
    return Message(
        role=Role(role), text=str(text), host_id=_word(host_id), created_at=_word(created_at)
    )
