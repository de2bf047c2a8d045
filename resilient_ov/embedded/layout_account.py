"""Profile namespace: the account's policy places user and agent scopes; sessions are shared.

No I/O here. Every question is put to the domain's rules; nothing is decided here a second time.
"""

import sqlite3
from collections.abc import Callable

from resilient_ov.domain.namespace import (
    MEMORIES,
    PRESET_DIRECTORIES,
    PROFILE_FILE,
    SESSIONS,
    SKILLS,
    TOOLS,
    Area,
    InvalidUriError,
    InvisibleUriError,
    NamespacePolicy,
    Place,
    Record,
    ReservedIdError,
    UnfitUriError,
    Viewer,
    VikingUri,
    actor_of,
    agent_root,
    is_visible,
    locate,
    resolve,
    resolve_target,
    session_uri,
    user_root,
    visible_roots,
)
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.bodies import AnyMessage, RoleMessage
from resilient_ov.embedded.errors import (
    ApiError,
    invalid_argument,
    invalid_uri,
    permission_denied,
)
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.files import ABSTRACT, OVERVIEW, Owners, Shelf
from resilient_ov.embedded.layout import parse
from resilient_ov.embedded.lines import Said
from resilient_ov.embedded.search import MEMORY, RESOURCE, SKILL


def viewer_of(caller: Caller) -> Viewer:
    """The caller as the domain knows it.

    Raises:
        ApiError: 400 for a user or agent id that the profile's addresses cannot hold.

    """
    try:
        return Viewer(account_id=caller.account, user_id=caller.user, agent_id=caller.agent)
    except (InvalidUriError, ReservedIdError) as error:
        raise invalid_argument(str(error)) from None


def own_roots(caller: Caller) -> dict[Area, VikingUri]:
    """The caller's user and agent scope root."""
    ids = {"user_id": caller.user, "agent_id": caller.agent}
    return {
        Area.USER: user_root(caller.policy, **ids),
        Area.AGENT: agent_root(caller.policy, **ids),
    }


class AccountLayout:
    """Implements `Layout`."""

    shares_sessions = True

    def check_user_id(self, user: str) -> None:
        """Names of parts of a scope are no users."""
        viewer_of(Caller(Role.USER, "-", user))

    def session_owner(self, caller: Caller) -> str:  # noqa: ARG002 - the layouts' signature
        """Sessions belong to the account as a whole."""
        return ""

    def session_uri(
        self,
        caller: Caller,  # noqa: ARG002 - the layouts' signature
        session_id: str,
        *below: str,
    ) -> str:
        """`session/<id>`; 400 for an id that no address can hold."""
        try:
            return str(session_uri(session_id, shared=True).child(*below))
        except InvalidUriError:
            raise invalid_argument(
                "session_id must be one segment of an address: no '/', '\\', '%', '?', '#',"
                " control characters, and not '.' or '..'"
            ) from None

    def check_session_delete(self, caller: Caller) -> None:
        """For admins and root only: a shared session has no owner who could."""
        if caller.role < Role.ADMIN:
            raise permission_denied("Requires role: admin to delete a shared session")

    def said(self, caller: Caller, session_id: str, message: AnyMessage) -> Said:
        """Who said it, as sent or filled from the effective identity, and where its tools lie."""
        sent = message.role_id if isinstance(message, RoleMessage) else ""
        actor = actor_of(message.role, sent or None, user_id=caller.user, agent_id=caller.agent)
        return Said(message, actor, session_uri(session_id, shared=True).child(TOOLS))

    def memory_uri(self, caller: Caller, memory: Memory) -> VikingUri:
        """In the user scope: `profile.md` at its root, everything else below `memories/`."""
        try:
            viewer_of(caller)
        except ApiError as refusal:
            raise ValueError(f"a role_id names no scope: {refusal.message}") from None
        root = own_roots(caller)[Area.USER]
        if memory.segments == (PROFILE_FILE,):
            return root.child(PROFILE_FILE)
        return root.child(MEMORIES, *memory.segments)

    def search_roots(self, caller: Caller) -> list[VikingUri]:
        """Every scope root the caller sees; sessions among them, which hold nothing to find."""
        return list(visible_roots(caller.policy, viewer_of(caller)))

    def resolve(self, caller: Caller, text: str) -> VikingUri:
        """The canonical address in a visible scope, or of a container above one."""
        return _placed(resolve, caller, text)

    def resolve_target(self, caller: Caller, text: str) -> VikingUri:
        """The canonical address in a visible scope."""
        return _placed(resolve_target, caller, text)

    def check_change(self, caller: Caller, uri: VikingUri) -> None:
        """Files below a scope root, but neither sessions nor the server's own notes."""
        place = locate(caller.policy, uri)
        if place.area is Area.SESSION:
            raise permission_denied(
                f"Sessions change by their messages only: {uri}", {"resource": str(uri)}
            )
        if not place.below or uri.segments[-1] in {OVERVIEW, ABSTRACT}:
            raise invalid_argument(
                f"Not a file of a caller: {uri}. Name a file below a scope root.",
                {"resource": str(uri)},
            )

    def presets(self, caller: Caller) -> list[VikingUri]:
        """The visible roots, and what lies in a new user and agent scope."""
        roots = visible_roots(caller.policy, viewer_of(caller))
        inside = [
            root.child(*path)
            for area, root in own_roots(caller).items()
            for path in PRESET_DIRECTORIES[area]
        ]
        return [*roots, *inside]

    def session_path(self, uri: VikingUri) -> tuple[str, ...] | None:
        """What follows `session`."""
        if not uri.is_within(SESSIONS):
            return None
        return uri.segments[len(SESSIONS.segments) :]

    def shelf(self, caller: Caller) -> Shelf:
        """What the domain says is visible, whatever the caller's role."""
        policy, viewer = caller.policy, viewer_of(caller)

        def sees(row: sqlite3.Row) -> bool:
            record = Record(
                account_id=row["account"],
                uri=files.uri_of(row),
                owner_user_id=row["owner_user"],
                owner_agent_id=row["owner_agent"],
            )
            return is_visible(policy, viewer, record)

        return Shelf(
            caller.account,
            lambda uri: _owners(locate(policy, uri)),
            lambda directory: _has_notes(policy, directory),
            sees,
        )

    def type_of(self, caller: Caller, uri: VikingUri) -> str:
        """By area: resources, an agent's skills, and memories all the rest."""
        place = locate(caller.policy, uri)
        if place.area is Area.RESOURCES:
            return RESOURCE
        is_skill = place.area is Area.AGENT and place.below[:1] == (SKILLS,)
        return SKILL if is_skill else MEMORY


def _owners(place: Place) -> Owners:
    return place.owner_user_id, place.owner_agent_id


def _has_notes(policy: NamespacePolicy, directory: VikingUri) -> bool:
    """A container above scope roots keeps no notes."""
    return locate(policy, directory).root is not None


def _placed(
    rule: Callable[[NamespacePolicy, Viewer, VikingUri], Place], caller: Caller, text: str
) -> VikingUri:
    try:
        return rule(caller.policy, viewer_of(caller), parse(text)).uri
    except UnfitUriError as error:
        raise invalid_uri(text, str(error)) from None
    except InvisibleUriError as error:
        message = f"Access denied for {text}: {error}"
        raise permission_denied(message, {"resource": text}) from None
