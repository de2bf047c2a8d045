"""What a client reads of its own memory, and which hits of a reply it may show.

Pure. A view both names the targets of a search and judges what came back, so that the server is
never believed about whose memory a hit is. Shown addresses hide the server's hashed ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from resilient_ov.domain.namespace_policy import (
    MEMORIES,
    PROFILE_FILE,
    Area,
    NamespacePolicy,
    UnfitUriError,
    agent_root,
    locate,
    user_root,
)
from resilient_ov.domain.namespace_sessions import OWN_HOME
from resilient_ov.domain.namespace_uri import InvalidUriError, VikingUri, is_category, parse_uri

_PROFILE: Final = PROFILE_FILE.removesuffix(".md")
_DIRECTORY_NOTES: Final = frozenset({".overview.md", ".abstract.md"})


class HitRefusal(StrEnum):
    """Why a hit is not shown. Only `DIRECTORY_NOTE` is harmless: it is not worth a count."""

    MALFORMED = "malformed"
    OUTSIDE = "outside"
    AMBIGUOUS_USER = "ambiguous_user"
    DIRECTORY_NOTE = "directory_note"


@dataclass(frozen=True, slots=True)
class VisibleHit:
    """A hit that lies in the caller's own memories.

    Attributes:
        uri: the address without the server's hashed ids.
        category: the first segment below `memories/` (`profile.md` is `profile`), or None when
            it is not of `[a-z0-9_-]+`.

    """

    uri: str
    category: str | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit of the right shape: whose it is (None = bound to no user), and how it is shown."""

    user: str | None
    shown: VikingUri
    below: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """Profile 0.5: the memories below the caller's own home; never its `peers/`.

    Attributes:
        user: the server's user of this caller. None = not known yet (API keys name it only in an
            authenticated health reply): then a reply is believed as long as it speaks of one user.

    """

    user: str | None

    def targets(self, category: str | None) -> tuple[str, ...]:
        """The addresses a search covers; raises `ValueError` for an impossible category."""
        return (memories_uri(category),)

    def candidate(self, uri: VikingUri) -> Candidate | None:
        """The hit, if it has the shape of a memory of some user."""
        match uri.segments:
            case ("user", user, "memories", _, *_):
                below = uri.segments[3:]
                return Candidate(user, OWN_HOME.child(MEMORIES, *below), below)
            case _:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """Profile namespace: the caller's user scope by the account's policy, and its agent scope.

    Attributes:
        user: as in `HomeView`.
        agent: the agent as it is sent to the server.
        agent_scope: whether memories of the agent are read besides those of the user.

    """

    policy: NamespacePolicy
    user: str | None
    agent: str
    agent_scope: bool = False

    def targets(self, category: str | None) -> tuple[str, ...]:
        """The addresses a search covers; raises `ValueError` for an impossible category.

        Canonical, so that a server with another policy refuses them; short while the user is not
        known.
        """
        user, agent = self._roots()
        if category is None:
            targets = [user.child(MEMORIES), user.child(PROFILE_FILE)]
        elif category == _PROFILE:
            targets = [user.child(PROFILE_FILE)]
        else:
            targets = [user.child(MEMORIES, _checked(category))]
        if self.agent_scope and category != _PROFILE:
            targets.append(agent.child(MEMORIES, *([] if category is None else [category])))
        return tuple(map(str, targets))

    def _roots(self) -> tuple[VikingUri, VikingUri]:
        if self.user is None:
            return VikingUri((Area.USER.value,)), VikingUri((Area.AGENT.value,))
        return (
            user_root(self.policy, user_id=self.user, agent_id=self.agent),
            agent_root(self.policy, user_id=self.user, agent_id=self.agent),
        )

    def candidate(self, uri: VikingUri) -> Candidate | None:
        """The hit, if it has the shape of a memory that some user with this agent reads."""
        try:
            place = locate(self.policy, uri)
        except UnfitUriError:
            return None
        if place.owner_agent_id not in {None, self.agent}:
            return None
        match place.area, place.below:
            case Area.USER, ("profile.md",):
                below = place.below
            case (Area.USER, ("memories", _, *_)):
                below = place.below[1:]
            case (Area.AGENT, ("memories", _, *_)) if self.agent_scope:
                below = place.below[1:]
            case _:
                return None
        shown = VikingUri((place.area.value, *place.below))
        return Candidate(place.owner_user_id, shown, below)


View = HomeView | AccountView


def judge_hits(uris: Sequence[str], view: View) -> list[VisibleHit | HitRefusal]:
    """Decide for each hit of ONE reply whether the caller may see it; same order, same length.

    Refused is everything that does not lie in the memories of the view: other users, other
    agents, sessions, resources, other shapes. While the own user is not known, a reply that
    speaks of two users is `AMBIGUOUS_USER` as a whole.
    """
    judged = [_parse_hit(uri, view) for uri in uris]
    users = {hit.user for hit in judged if isinstance(hit, Candidate)} - {None}
    if view.user is None and len(users) > 1:
        return [HitRefusal.AMBIGUOUS_USER if isinstance(hit, Candidate) else hit for hit in judged]
    return [
        hit
        if isinstance(hit, HitRefusal)
        else _show(hit)
        if view.user is None or hit.user in {None, view.user}
        else HitRefusal.OUTSIDE
        for hit in judged
    ]


def memories_uri(category: str | None = None) -> str:
    """The caller's own memories on profile 0.5, or one category of them.

    Raises:
        ValueError: `category` is not of `[a-z0-9_-]+`.

    """
    root = OWN_HOME.child(MEMORIES)
    return str(root if category is None else root.child(_checked(category)))


def _checked(category: str) -> str:
    if not is_category(category):
        raise ValueError(
            "category must consist of the characters a-z, 0-9, '_' and '-'; "
            "use the name of a folder below memories/, such as 'preferences'"
        )
    return category


def _parse_hit(text: str, view: View) -> Candidate | HitRefusal:
    try:
        uri = parse_uri(text)
    except InvalidUriError:
        return HitRefusal.MALFORMED
    return view.candidate(uri) or HitRefusal.OUTSIDE


def _show(hit: Candidate) -> VisibleHit | HitRefusal:
    if hit.below[-1] in _DIRECTORY_NOTES:
        return HitRefusal.DIRECTORY_NOTE
    first = hit.below[0].removesuffix(".md") if len(hit.below) == 1 else hit.below[0]
    return VisibleHit(uri=str(hit.shown), category=first if is_category(first) else None)
