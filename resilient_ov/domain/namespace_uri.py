"""An address (`viking://...`) as its path segments, and the one strict parser.

Pure. Every decision is made on segments after a strict parse, never on a text prefix, so
`.../alice2/...` is never mistaken for `.../alice/...`.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEME: Final = "viking://"
_CATEGORY: Final = re.compile(r"[a-z0-9_-]+")
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


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


def is_category(text: str) -> bool:
    """Whether a text can name a category of memories: `[a-z0-9_-]+`."""
    return _CATEGORY.fullmatch(text) is not None
