"""Profile 0.5: everything of a user lies under `user/<user>/`, and nothing is shared.

No I/O here.
"""

import sqlite3
from typing import Final

from resilient_ov.domain.namespace import MEMORIES, OWN_HOME, VikingUri, unchecked_uri
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.bodies import AnyMessage
from resilient_ov.embedded.errors import invalid_uri, permission_denied
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.files import Shelf
from resilient_ov.embedded.layout import no_owners, parse
from resilient_ov.embedded.lines import Said
from resilient_ov.embedded.search import MEMORY

_RESERVED_USERS: Final = frozenset(
    {"memories", "resources", "skills", "sessions", "peers", "privacy", "profile.md"}
)


class HomeLayout:
    """Implements `Layout`."""

    shares_sessions = False

    def check_user_id(self, user: str) -> None:
        """Every id of the wire is a user's."""

    def session_owner(self, caller: Caller) -> str:
        """Sessions belong to the user."""
        return caller.user

    def session_uri(self, caller: Caller, session_id: str, *below: str) -> str:
        """`user/<user>/sessions/<id>`, also for ids that no strict address can hold."""
        return unchecked_uri("user", caller.user, "sessions", session_id, *below)

    def check_session_delete(self, caller: Caller) -> None:
        """Everybody deletes their own."""

    def said(
        self,
        caller: Caller,  # noqa: ARG002 - the layouts' signature
        session_id: str,  # noqa: ARG002 - the layouts' signature
        message: AnyMessage,
    ) -> Said:
        """Nothing is added."""
        return Said(message)

    def memory_uri(self, caller: Caller, memory: Memory) -> VikingUri:
        """Below `user/<user>/memories`, or below the same of a peer."""
        home = self._home(caller)
        place = home if memory.peer is None else home.child("peers", memory.peer)
        return place.child(MEMORIES, *memory.segments)

    def search_roots(self, caller: Caller) -> list[VikingUri]:
        """The own memories and those of one peer, or of all peers when none is named."""
        home = self._home(caller)
        peers = home.child("peers")
        return [home.child(MEMORIES), peers if caller.peer is None else peers.child(caller.peer)]

    def resolve(self, caller: Caller, text: str) -> VikingUri:
        """Put the caller's home in place of `~` and of `session`; refuse other users' homes."""
        uri = parse(text)
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

    def resolve_target(self, caller: Caller, text: str) -> VikingUri:
        """As `resolve`: every address is a target."""
        return self.resolve(caller, text)

    def check_change(self, caller: Caller, uri: VikingUri) -> None:  # noqa: ARG002 - the layouts' signature
        """Memories only."""
        if MEMORIES not in uri.segments:
            raise permission_denied(
                f"Only memories can be deleted through the file system: {uri}",
                {"resource": str(uri)},
            )

    def presets(self, caller: Caller) -> list[VikingUri]:
        """`user/<user>/memories` and `user/<user>/sessions`."""
        home = self._home(caller)
        return [home.child(MEMORIES), home.child("sessions")]

    def session_path(self, uri: VikingUri) -> tuple[str, ...] | None:
        """What follows `user/<user>/sessions`."""
        match uri.segments:
            case ("user", _, "sessions", *rest):
                return tuple(rest)
            case _:
                return None

    def shelf(self, caller: Caller) -> Shelf:
        """The own home is seen, and by root everything."""
        home = self._home(caller)

        def sees(row: sqlite3.Row) -> bool:
            return caller.role is Role.ROOT or files.uri_of(row).is_within(home)

        return Shelf(caller.account, no_owners, _has_notes, sees)

    def type_of(self, caller: Caller, uri: VikingUri) -> str:  # noqa: ARG002 - the layouts' signature
        """All are memories."""
        return MEMORY

    @staticmethod
    def _home(caller: Caller) -> VikingUri:
        return VikingUri(("user", caller.user))


def _has_notes(directory: VikingUri) -> bool:
    return MEMORIES in directory.segments
