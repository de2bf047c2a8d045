"""The account-level namespace: what a user and an agent of an account share, and who sees what.

Pure. Two switches of an account give four topologies. Every decision rests on the account, the
canonical address and its two owners; a file tree and a search index ask the same functions.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from resilient_ov.domain.namespace_uri import VikingUri


class Area(StrEnum):
    """The first segment of a canonical address."""

    USER = "user"
    AGENT = "agent"
    SESSION = "session"
    RESOURCES = "resources"


MEMORIES: Final = "memories"
PROFILE_FILE: Final = "profile.md"
SKILLS: Final = "skills"
INSTRUCTIONS: Final = "instructions"

_CONTENT: Final = {
    Area.USER: (MEMORIES, PROFILE_FILE),
    Area.AGENT: (MEMORIES, SKILLS, INSTRUCTIONS),
}
RESERVED_IDS: Final = frozenset(name for names in _CONTENT.values() for name in names)
"""No user and no agent may have these names: a short address would be read as theirs."""

PRESET_DIRECTORIES: Final[dict[Area, tuple[tuple[str, ...], ...]]] = {
    Area.USER: (
        (MEMORIES,),
        (MEMORIES, "preferences"),
        (MEMORIES, "entities"),
        (MEMORIES, "events"),
    ),
    Area.AGENT: (
        (MEMORIES,),
        (MEMORIES, "cases"),
        (MEMORIES, "patterns"),
        (SKILLS,),
        (INSTRUCTIONS,),
    ),
}
"""What lies in a new scope root; a container above one holds nothing of its own."""


class UnfitUriError(ValueError):
    """An address whose shape is not one of this account's; carries no part of the address."""


class InvisibleUriError(ValueError):
    """A well-shaped address that is not the viewer's; carries no part of the address."""


class ReservedIdError(ValueError):
    """A user or agent id that the account-level namespace cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicy:
    """What an account chose when it was made; it never changes.

    Attributes:
        isolate_user_scope_by_agent: user memories are kept apart per agent. Default: shared.
        isolate_agent_scope_by_user: agent memories are kept apart per user. Default: shared.

    """

    isolate_user_scope_by_agent: bool = False
    isolate_agent_scope_by_user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """On whose behalf a request is served (which need not be whose key was sent).

    Raises:
        InvalidUriError: an id that no address can hold.
        ReservedIdError: a user or agent id in `RESERVED_IDS`.

    """

    account_id: str
    user_id: str
    agent_id: str

    def __post_init__(self) -> None:
        VikingUri((self.account_id, self.user_id, self.agent_id))
        for name, value in (("user_id", self.user_id), ("agent_id", self.agent_id)):
            if value in RESERVED_IDS:
                raise ReservedIdError(
                    f"{name} must not be one of {', '.join(sorted(RESERVED_IDS))}, which name"
                    " parts of a scope; use another id"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a canonical address is under a policy.

    Attributes:
        area: None only for the root of all addresses.
        root: the scope root that the address is or lies in; None = a container above scope roots.
        owner_user_id: whose it is; None = not bound to a user. Always None for a container.
        owner_agent_id: as `owner_user_id`, for agents.

    """

    uri: VikingUri
    area: Area | None = None
    root: VikingUri | None = None
    owner_user_id: str | None = None
    owner_agent_id: str | None = None

    @property
    def below(self) -> tuple[str, ...]:
        """The segments below the scope root; empty for a root and for a container."""
        return () if self.root is None else self.uri.segments[len(self.root.segments) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is stored beside a file or an index entry, and all that decides who sees it."""

    account_id: str
    uri: VikingUri
    owner_user_id: str | None
    owner_agent_id: str | None


def user_root(policy: NamespacePolicy, *, user_id: str, agent_id: str) -> VikingUri:
    """The scope root of a user's memories, as seen with an agent."""
    root = VikingUri((Area.USER.value, user_id))
    return root.child(Area.AGENT.value, agent_id) if policy.isolate_user_scope_by_agent else root


def agent_root(policy: NamespacePolicy, *, user_id: str, agent_id: str) -> VikingUri:
    """The scope root of an agent's memories, as seen by a user."""
    root = VikingUri((Area.AGENT.value, agent_id))
    return root.child(Area.USER.value, user_id) if policy.isolate_agent_scope_by_user else root


def visible_roots(policy: NamespacePolicy, viewer: Viewer) -> tuple[VikingUri, ...]:
    """All scope roots the viewer sees: resources, sessions, the own user and agent scope."""
    return (
        VikingUri((Area.RESOURCES.value,)),
        VikingUri((Area.SESSION.value,)),
        _root_of(Area.USER, policy, viewer),
        _root_of(Area.AGENT, policy, viewer),
    )


def expand(policy: NamespacePolicy, viewer: Viewer, uri: VikingUri) -> VikingUri:
    """The canonical form of a short address (`user/memories/...`, `agent/skills/...`).

    Short is what names a part of a scope right after `user` or `agent`; all else stays as it is.
    """
    match uri.segments:
        case (Area.USER | Area.AGENT as area, name, *rest) if name in _CONTENT[Area(area)]:
            return _root_of(Area(area), policy, viewer).child(name, *rest)
        case _:
            return uri


def _root_of(area: Area, policy: NamespacePolicy, viewer: Viewer) -> VikingUri:
    root = user_root if area is Area.USER else agent_root
    return root(policy, user_id=viewer.user_id, agent_id=viewer.agent_id)


def locate(policy: NamespacePolicy, uri: VikingUri) -> Place:
    """What a canonical address is, and whose, whoever asks.

    Raises:
        UnfitUriError: no address of an account with this policy looks like that.

    """
    match uri.segments:
        case ():
            return Place(uri=uri)
        case (Area.RESOURCES | Area.SESSION as name, *_):
            return Place(uri=uri, area=Area(name), root=VikingUri((name,)))
        case (Area.USER, *_):
            return _scoped(uri, Area.USER, Area.AGENT, nested=policy.isolate_user_scope_by_agent)
        case (Area.AGENT, *_):
            return _scoped(uri, Area.AGENT, Area.USER, nested=policy.isolate_agent_scope_by_user)
        case _:
            raise UnfitUriError("an address begins with user/, agent/, session/ or resources/")


def _scoped(uri: VikingUri, area: Area, inner: Area, *, nested: bool) -> Place:
    """An address below `user` or `agent`; `nested` = this area is divided by the `inner` one."""
    segments = uri.segments
    ids = segments[1:4:2]
    if RESERVED_IDS.intersection(ids[: 1 + nested]):
        raise UnfitUriError("this is a short address, or names a part of a scope where an id goes")
    divided = segments[2:3] == (inner,)
    if divided and not nested:
        raise UnfitUriError(
            f"this account does not divide {area} scopes by {inner}; use {area}/<{area}>/..."
        )
    if nested and len(segments) > 2 and not divided:
        raise UnfitUriError(
            f"this account divides {area} scopes by {inner};"
            f" use {area}/<{area}>/{inner}/<{inner}>/..."
        )
    depth = 4 if nested else 2
    if len(segments) < depth:
        return Place(uri=uri, area=area)
    owner = {area: ids[0], inner: ids[1] if nested else None}
    return Place(
        uri=uri,
        area=area,
        root=VikingUri(segments[:depth]),
        owner_user_id=owner[Area.USER],
        owner_agent_id=owner[Area.AGENT],
    )


def is_visible(policy: NamespacePolicy, viewer: Viewer, record: Record) -> bool:
    """Whether the viewer may see what is stored so; also False for owners that contradict."""
    if record.account_id != viewer.account_id:
        return False
    try:
        place = locate(policy, record.uri)
    except UnfitUriError:
        return False
    owners = (record.owner_user_id, record.owner_agent_id)
    return (
        place.root in visible_roots(policy, viewer)
        and (place.owner_user_id, place.owner_agent_id) == owners
    )


def leads_to_visible(policy: NamespacePolicy, viewer: Viewer, uri: VikingUri) -> bool:
    """Whether the viewer sees something at or below an address that is or leads to a root."""
    return any(root.is_within(uri) for root in visible_roots(policy, viewer))


def resolve(policy: NamespacePolicy, viewer: Viewer, uri: VikingUri) -> Place:
    """Where a sent address leads the viewer: into a visible scope, or to a container above one.

    Raises:
        UnfitUriError: its shape does not fit the policy; told before whose it is.
        InvisibleUriError: it is not the viewer's.

    """
    return _seen(policy, viewer, locate(policy, expand(policy, viewer, uri)))


def resolve_target(policy: NamespacePolicy, viewer: Viewer, uri: VikingUri) -> Place:
    """As `resolve`, for a search or a write: a container is no target.

    Raises:
        UnfitUriError, InvisibleUriError: as `resolve`.

    """
    place = locate(policy, expand(policy, viewer, uri))
    if place.root is None:
        raise UnfitUriError(
            "this is only a container; name the scope inside it, up to its user or agent id"
        )
    return _seen(policy, viewer, place)


def _seen(policy: NamespacePolicy, viewer: Viewer, place: Place) -> Place:
    is_own = place.root in visible_roots(policy, viewer)
    if not is_own and not leads_to_visible(policy, viewer, place.uri):
        raise InvisibleUriError("the address belongs to another user or agent")
    return place
