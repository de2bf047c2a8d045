"""Where things of a caller live and what a caller may see: the part that differs by profile.

No I/O here. A layout turns addresses a caller sent into canonical ones, or refuses them.
"""

import re
from typing import Final, Protocol

from resilient_ov.domain.namespace import (
    OWN_HOME,
    SCHEME,
    InvalidUriError,
    UriFault,
    VikingUri,
    parse_uri,
    unchecked_uri,
)
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.errors import ApiError, invalid_uri, permission_denied

_DRIVE: Final = re.compile(r"[A-Za-z]:")
_RESERVED_USERS: Final = frozenset(
    {"memories", "resources", "skills", "sessions", "peers", "privacy", "profile.md"}
)


class Layout(Protocol):
    """One profile's rules of place and visibility."""

    def session_owner(self, caller: Caller) -> str:
        """The name under which this caller's sessions are kept apart from others'."""
        ...

    def session_uri(self, caller: Caller, session_id: str, *below: str) -> str:
        """The address of a session, or of something below it, as replies show it."""
        ...

    def memory_root(self, caller: Caller, peer: str | None) -> VikingUri:
        """The directory that a memory said by this caller (or by a peer) goes to."""
        ...

    def search_roots(self, caller: Caller) -> list[VikingUri]:
        """What a search without target looks through."""
        ...

    def resolve(self, caller: Caller, text: str) -> VikingUri:
        """The canonical address; raises `ApiError` 400 (shape) or 403 (not visible)."""
        ...

    def sessions_root(self, caller: Caller) -> VikingUri:
        """The directory of the sessions this caller sees."""
        ...

    def session_path(self, uri: VikingUri) -> tuple[str, ...] | None:
        """What follows the sessions directory in a canonical address, or None outside of it."""
        ...

    def is_visible(self, caller: Caller, uri: VikingUri) -> bool:
        """Whether a listing shows this canonical address to the caller."""
        ...


class HomeLayout:
    """Profile 0.5: everything of a user lies under `user/<user>/`."""

    def session_owner(self, caller: Caller) -> str:
        """Sessions belong to the user."""
        return caller.user

    def session_uri(self, caller: Caller, session_id: str, *below: str) -> str:
        """`user/<user>/sessions/<id>`, also for ids that no strict address can hold."""
        return unchecked_uri("user", caller.user, "sessions", session_id, *below)

    def memory_root(self, caller: Caller, peer: str | None) -> VikingUri:
        """`user/<user>/memories`, or the same below `peers/<peer>`."""
        home = self._home(caller)
        return (home if peer is None else home.child("peers", peer)).child("memories")

    def search_roots(self, caller: Caller) -> list[VikingUri]:
        """The own memories and those of one peer, or of all peers when none is named."""
        home = self._home(caller)
        peers = home.child("peers")
        return [home.child("memories"), peers if caller.peer is None else peers.child(caller.peer)]

    def resolve(self, caller: Caller, text: str) -> VikingUri:
        """Put the caller's home in place of `~` and of `session`; refuse other users' homes."""
        uri = _parse(text)
        match uri.segments:
            case ("~", *rest):
                uri = self._home(caller).child(*rest)
            case ("session", *rest):
                uri = self._home(caller).child("sessions", *rest)
            case ("user", owner, *rest):
                if owner in _RESERVED_USERS:
                    raise invalid_uri(
                        text,
                        f"'{owner}' is a reserved name, not a user; for your own space use "
                        f"'{OWN_HOME.child(owner, *rest)}'",
                    )
                if owner != caller.user and caller.role is not Role.ROOT:
                    raise permission_denied(
                        f"Access denied for {uri}: read permission required",
                        {"resource": str(uri)},
                    )
            case _:
                pass
        return uri

    def sessions_root(self, caller: Caller) -> VikingUri:
        """`user/<user>/sessions`."""
        return self._home(caller).child("sessions")

    def is_visible(self, caller: Caller, uri: VikingUri) -> bool:
        """The own home, what leads to it, and for root everything."""
        home = self._home(caller)
        return caller.role is Role.ROOT or uri.is_within(home) or home.is_within(uri)

    def session_path(self, uri: VikingUri) -> tuple[str, ...] | None:
        """What follows `user/<user>/sessions`."""
        match uri.segments:
            case ("user", _, "sessions", *rest):
                return tuple(rest)
            case _:
                return None

    @staticmethod
    def _home(caller: Caller) -> VikingUri:
        return VikingUri(("user", caller.user))


def check_session_id(shown_uri: str, session_id: str) -> None:
    """Refuse the few ids the wire refuses: traversal and drive letters."""
    for segment in session_id.split("/"):
        _check_segment(segment, shown_uri)


def _check_segment(segment: str, shown: str) -> None:
    if segment in {".", ".."}:
        raise _unsafe("traversal segment", segment, shown)
    if _DRIVE.match(segment):
        raise _unsafe("drive-prefixed component", segment, shown)


def _unsafe(what: str, segment: str, shown: str) -> ApiError:
    message = f"Unsafe URI {what} '{segment}' in {shown}"
    return permission_denied(message, {"resource": shown})


def _parse(text: str) -> VikingUri:
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
