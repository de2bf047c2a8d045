"""The one place that builds and parses memory addresses (`viking://...`), for client and server.

Pure: strings in, frozen values out. Every decision is made on path segments after a strict parse,
never on a text prefix, so `.../alice2/...` is never mistaken for `.../alice/...`.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEME: Final = "viking://"
_CATEGORY: Final = re.compile(r"[a-z0-9_-]+")
_ARCHIVE: Final = re.compile(r"archive_(\d{3,9})")
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTORY_NOTES: Final = frozenset({".overview.md", ".abstract.md"})


class UriFault(StrEnum):
    """Why a text is not an address."""

    SCHEME = "scheme"
    EMPTY_SEGMENT = "empty_segment"
    DOT_SEGMENT = "dot_segment"
    PERCENT_ENCODING = "percent_encoding"
    BACKSLASH = "backslash"
    QUERY_OR_FRAGMENT = "query_or_fragment"
    CONTROL_CHARACTER = "control_character"
    SLASH_IN_SEGMENT = "slash_in_segment"


class InvalidUriError(ValueError):
    """A text that is no address; carries the kind of fault, never the text."""

    def __init__(self, fault: UriFault) -> None:
        super().__init__(f"not a memory address: {fault.value}")
        self.fault: Final = fault


def _segment_fault(segment: str) -> UriFault | None:
    if not segment:
        return UriFault.EMPTY_SEGMENT
    if segment in {".", ".."}:
        return UriFault.DOT_SEGMENT
    if "/" in segment:
        return UriFault.SLASH_IN_SEGMENT
    if "\\" in segment:
        return UriFault.BACKSLASH
    if "%" in segment:
        return UriFault.PERCENT_ENCODING
    if "?" in segment or "#" in segment:
        return UriFault.QUERY_OR_FRAGMENT
    if any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in segment):
        return UriFault.CONTROL_CHARACTER
    return None


@dataclass(frozen=True, slots=True)
class VikingUri:
    """An address as its path segments; `()` is the root. Equal addresses have equal segments.

    Raises:
        InvalidUriError: at construction, when a segment could change meaning on its way (empty,
            `.`, `..`, a slash or backslash, `%`, `?`, `#`, control characters, lone surrogates).

    """

    segments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for segment in self.segments:
            fault = _segment_fault(segment)
            if fault is not None:
                raise InvalidUriError(fault)

    def __str__(self) -> str:
        return unchecked_uri(*self.segments)

    def child(self, *segments: str) -> "VikingUri":
        """The address below this one; raises `InvalidUriError` for a bad segment."""
        return VikingUri((*self.segments, *segments))

    def is_within(self, root: "VikingUri") -> bool:
        """Whether this address is `root` itself or lies below it, by whole segments."""
        return self.segments[: len(root.segments)] == root.segments


OWN_HOME: Final = VikingUri(("~",))
"""The caller's own home on profile 0.5: the server puts the authenticated user in its place."""


def unchecked_uri(*segments: str) -> str:
    """Join segments as they are, for showing an address the server accepted without checks."""
    return SCHEME + "/".join(segments)


def parse_uri(text: str) -> VikingUri:
    """Parse an address strictly; one trailing slash (a directory) is allowed and dropped.

    The scheme is compared exactly: another case or another scheme is a fault.

    Raises:
        InvalidUriError: with the first fault, left to right.

    """
    if not text.startswith(SCHEME):
        raise InvalidUriError(UriFault.SCHEME)
    path = text.removeprefix(SCHEME)
    if not path:
        return VikingUri()
    return VikingUri(tuple(path.removesuffix("/").split("/")))


def memories_uri(category: str | None = None) -> str:
    """The caller's own memories, or one category of them.

    Raises:
        ValueError: `category` is not of `[a-z0-9_-]+`.

    """
    root = OWN_HOME.child("memories")
    if category is None:
        return str(root)
    if not is_category(category):
        raise ValueError(
            "category must consist of the characters a-z, 0-9, '_' and '-'; "
            "use the name of a folder below memories/, such as 'preferences'"
        )
    return str(root.child(category))


def is_category(text: str) -> bool:
    """Whether a text can name a category: `[a-z0-9_-]+`."""
    return _CATEGORY.fullmatch(text) is not None


def session_messages_uri(session_id: str) -> str:
    """The live (uncommitted) messages of a session, one JSON line each."""
    return str(_session(session_id).child("messages.jsonl"))


def session_history_uri(session_id: str) -> str:
    """The directory that lists the archives of a session."""
    return str(_session(session_id).child("history"))


def archive_messages_uri(session_id: str, number: int) -> str:
    """The messages of one archive, readable in every state of its extraction; `number` >= 1."""
    return str(_session(session_id).child("history", archive_name(number), "messages.jsonl"))


def _session(session_id: str) -> VikingUri:
    return OWN_HOME.child("sessions", session_id)


def archive_name(number: int) -> str:
    """`archive_001` for 1; numbers above 999 simply grow longer."""
    if number < 1:
        raise ValueError("archive number must be 1 or more")
    return f"archive_{number:03d}"


def archive_number(text: str) -> int | None:
    """The number in an archive's name or address, or None when the text names no archive.

    Accepts `archive_007` and any address whose last two segments are `history/archive_007`.
    """
    name = text
    if text.startswith(SCHEME):
        try:
            segments = parse_uri(text).segments
        except InvalidUriError:
            return None
        if segments[-2:-1] != ("history",):
            return None
        name = segments[-1]
    match = _ARCHIVE.fullmatch(name)
    if match is None:
        return None
    number = int(match.group(1))
    return number if number >= 1 and archive_name(number) == name else None


class HitRefusal(StrEnum):
    """Why a hit is not shown. Only `DIRECTORY_NOTE` is harmless: it is not worth a count."""

    MALFORMED = "malformed"
    OUTSIDE = "outside"
    AMBIGUOUS_USER = "ambiguous_user"
    DIRECTORY_NOTE = "directory_note"


@dataclass(frozen=True, slots=True)
class VisibleHit:
    """A hit that lies under the caller's own memories.

    Attributes:
        uri: the address with the server's user replaced by `~`.
        category: the first segment below `memories/` (`profile.md` is `profile`), or None when
            it is not of `[a-z0-9_-]+`.

    """

    uri: str
    category: str | None


def judge_hits(uris: Sequence[str], *, own_user: str | None) -> list[VisibleHit | HitRefusal]:
    """Decide for each hit of ONE reply whether the caller may see it; same order, same length.

    Visible is what lies below `user/<own user>/memories/`. Everything else is refused: other
    users, the `peers/` of the own user, sessions, resources, other shapes.

    Args:
        uris: addresses as the server sent them.
        own_user: the server's user of this caller. None = not known yet (API keys name it only in
            an authenticated health reply): then hits are visible as long as the whole reply
            speaks of one user; with two users in one reply all are `AMBIGUOUS_USER`.

    """
    parsed = [_parse_hit(uri) for uri in uris]
    owners = {hit.segments[1] for hit in parsed if isinstance(hit, VikingUri)}
    if own_user is None and len(owners) > 1:
        return [HitRefusal.AMBIGUOUS_USER if isinstance(hit, VikingUri) else hit for hit in parsed]
    return [
        hit
        if isinstance(hit, HitRefusal)
        else HitRefusal.OUTSIDE
        if own_user not in (None, hit.segments[1])
        else _show(hit)
        for hit in parsed
    ]


def _parse_hit(text: str) -> VikingUri | HitRefusal:
    try:
        uri = parse_uri(text)
    except InvalidUriError:
        return HitRefusal.MALFORMED
    match uri.segments:
        case ("user", _, "memories", _, *_):
            return uri
        case _:
            return HitRefusal.OUTSIDE


def _show(uri: VikingUri) -> VisibleHit | HitRefusal:
    below = uri.segments[3:]
    if below[-1] in _DIRECTORY_NOTES:
        return HitRefusal.DIRECTORY_NOTE
    first = below[0].removesuffix(".md") if len(below) == 1 else below[0]
    category = first if is_category(first) else None
    return VisibleHit(uri=str(OWN_HOME.child("memories", *below)), category=category)
