"""Where things of a caller live and what a caller may see: the part that differs by profile.

No I/O here. A layout turns addresses a caller sent into canonical ones, or refuses them.
"""

import re
from typing import Final, Protocol

from resilient_ov.domain.namespace import (
    SCHEME,
    InvalidUriError,
    UriFault,
    VikingUri,
    parse_uri,
)
from resilient_ov.embedded.auth import Caller
from resilient_ov.embedded.bodies import AnyMessage
from resilient_ov.embedded.errors import ApiError, invalid_uri, permission_denied
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.files import Owners, Shelf
from resilient_ov.embedded.lines import Said

_DRIVE: Final = re.compile(r"[A-Za-z]:")


class Layout(Protocol):
    """One profile's rules of place and visibility.

    `shares_sessions`: sessions belong to the account, name their participants, and hold tool
    calls and metadata as files.
    """

    shares_sessions: bool

    def check_user_id(self, user: str) -> None:
        """Raise 400 for a user id that the profile's addresses cannot hold."""
        ...

    def session_owner(self, caller: Caller) -> str:
        """The name under which this caller's sessions are kept apart from others'."""
        ...

    def session_uri(self, caller: Caller, session_id: str, *below: str) -> str:
        """The address of a session, or of something below it; raises 400 if none can hold it."""
        ...

    def check_session_delete(self, caller: Caller) -> None:
        """Raise 403 unless the caller may delete sessions."""
        ...

    def said(self, caller: Caller, session_id: str, message: AnyMessage) -> Said:
        """A message with what the profile knows besides its body."""
        ...

    def memory_uri(self, caller: Caller, memory: Memory) -> VikingUri:
        """Where a memory said by this caller goes; raises `ValueError` if nowhere."""
        ...

    def search_roots(self, caller: Caller) -> list[VikingUri]:
        """What a search without target looks through."""
        ...

    def resolve(self, caller: Caller, text: str) -> VikingUri:
        """The canonical address; raises `ApiError` 400 (shape) or 403 (not visible)."""
        ...

    def resolve_target(self, caller: Caller, text: str) -> VikingUri:
        """As `resolve`, for what must lie in one scope: a search, a write, an index."""
        ...

    def check_change(self, caller: Caller, uri: VikingUri) -> None:
        """Raise `ApiError` unless a file at this canonical address may be written or deleted."""
        ...

    def presets(self, caller: Caller) -> list[VikingUri]:
        """Directories that are always there for this caller."""
        ...

    def session_path(self, uri: VikingUri) -> tuple[str, ...] | None:
        """What follows the sessions directory in a canonical address, or None outside of it."""
        ...

    def shelf(self, caller: Caller) -> Shelf:
        """The files of the caller's account, with what the caller sees of them."""
        ...

    def type_of(self, caller: Caller, uri: VikingUri) -> str:
        """The context type of a file: memory, resource or skill."""
        ...


def no_owners(_: VikingUri) -> Owners:
    """Profile 0.5 binds by address alone."""
    return None, None


def check_session_id(shown_uri: str, session_id: str) -> None:
    """Refuse the few ids the wire refuses: traversal and drive letters."""
    for segment in session_id.split("/"):
        _check_segment(segment, shown_uri)


def parse(text: str) -> VikingUri:
    """Parse a sent address, or raise the refusal the wire has for its fault."""
    try:
        uri = parse_uri(text)
    except InvalidUriError as error:
        if error.fault is UriFault.SCHEME:
            raise invalid_uri(text, f"URI must start with '{SCHEME}'") from None
        if error.fault is UriFault.DOT_SEGMENT:
            check_session_id(text, text.removeprefix(SCHEME))
        raise invalid_uri(text, error.fault.value.replace("_", " ")) from None
    for segment in uri.segments:
        _check_segment(segment, text)
    return uri


def _check_segment(segment: str, shown: str) -> None:
    if segment in {".", ".."}:
        raise _unsafe("traversal segment", segment, shown)
    if _DRIVE.match(segment):
        raise _unsafe("drive-prefixed component", segment, shown)


def _unsafe(what: str, segment: str, shown: str) -> ApiError:
    message = f"Unsafe URI {what} '{segment}' in {shown}"
    return permission_denied(message, {"resource": shown})
