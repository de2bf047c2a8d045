"""What the demo's backend is told about the server, and what the server calls those who talk.

Rule: values only. On profile namespace the demo's account keeps the agents of a user apart, so
that both profiles are held to the same checks.
"""

from pathlib import Path
from typing import Any, Final

from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.identity import scope, session_id
from resilient_ov.settings import ServerProfile, Settings
from resilient_ov.usecases.addressing import identity_of
from resilient_ov_manager.demo.conversation import Talk

ACCOUNT: Final = "demo"
POLICY: Final = {"isolate_user_scope_by_agent": True, "isolate_agent_scope_by_user": False}
"""The policy of the demo's account on profile namespace."""

_SHOWN_CHARS: Final = 11


def configuration(
    url: str, key_file: Path, storage: Path, profile: ServerProfile = ServerProfile.V0_5
) -> dict[str, Any]:
    """Return the shortest `backend_config`; everything else is the default."""
    raw: dict[str, Any] = {
        "base_url": url,
        "account": ACCOUNT,
        "api_key_file": str(key_file),
        "storage_path": str(storage),
    }
    if profile is ServerProfile.NAMESPACE:
        raw |= {"server_profile": profile.value, "namespace": dict(POLICY)}
    return raw


class Names:
    """The identities and sessions of talks on the server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def shared_sessions(self) -> bool:
        """Whether sessions lie in the account and not in a user's home."""
        return self._settings.server_profile is ServerProfile.NAMESPACE

    def identity(self, talk: Talk) -> Identity:
        """Return who the server is told is asking."""
        return identity_of(self._settings, scope(ACCOUNT, talk.user, talk.agent))

    def session(self, talk: Talk) -> str:
        """Return the id of the talk's session."""
        return session_id(scope(ACCOUNT, talk.user, talk.agent), talk.thread)

    def headers(self, talk: Talk) -> dict[str, str]:
        """Return the headers that say who is asking."""
        told = self.identity(talk)
        named = {"X-OpenViking-User": told.user, "X-OpenViking-Agent": told.agent}
        return {name: value for name, value in named.items() if value is not None}

    def shown(self, talk: Talk) -> str:
        """Return the identity as a table shows it: the hash in short, and the agent if told."""
        told = self.identity(talk)
        user = f"{(told.user or '')[:_SHOWN_CHARS]}…"
        return user if told.agent is None else f"{user} {told.agent}"
