"""Who said a message, and who takes part in a session.

Pure. A message's actor is not the caller who sent it: it is named by `role_id`, or else filled
from the request's effective identity.
"""

from dataclasses import dataclass, replace
from typing import Final

USER_ROLE: Final = "user"
ASSISTANT_ROLE: Final = "assistant"
MAX_ROLE_ID_CHARS: Final = 255


def actor_of(role: str, role_id: str | None, *, user_id: str, agent_id: str) -> str | None:
    """The id of who said a message: as sent, else the effective user or agent; by role.

    Roles other than `user` and `assistant` have no actor, whatever was sent.

    Raises:
        ValueError: `role_id` was sent and is empty or longer than 255 characters. It is not
            checked otherwise: the caller vouches for it.

    """
    if role_id is not None and not 1 <= len(role_id) <= MAX_ROLE_ID_CHARS:
        raise ValueError(
            f"role_id must have 1 to {MAX_ROLE_ID_CHARS} characters; leave it out for the default"
        )
    if role == USER_ROLE:
        return user_id if role_id is None else role_id
    if role == ASSISTANT_ROLE:
        return agent_id if role_id is None else role_id
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Participants:
    """Users and agents that said something in a session, in the order of their first word."""

    user_ids: tuple[str, ...] = ()
    agent_ids: tuple[str, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether it is undefined whose memory the session becomes; such a one is not committed."""
        return len(self.user_ids) > 1 or len(self.agent_ids) > 1

    def joined_by(self, role: str, actor: str | None) -> "Participants":
        """The participants after one more message; `actor` is what `actor_of` said."""
        if actor is None:
            return self
        if role == USER_ROLE:
            return replace(self, user_ids=_with(self.user_ids, actor))
        return replace(self, agent_ids=_with(self.agent_ids, actor))


def _with(ids: tuple[str, ...], one: str) -> tuple[str, ...]:
    return ids if one in ids else (*ids, one)
