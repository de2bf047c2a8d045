"""Who is asking: key and identity headers to an identity, in the three auth modes.

No I/O here; keys of users are looked up by the function that is passed in.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from resilient_ov.domain.namespace import NamespacePolicy
from resilient_ov.embedded.accounts import DEFAULT_ACCOUNT, KeyOwner
from resilient_ov.embedded.errors import ApiError, invalid_argument, permission_denied
from resilient_ov.embedded.errors import unauthenticated as refuse_key
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.settings.server import AuthMode, ServerProfile

KeyLookup = Callable[[str], Awaitable[KeyOwner | None]]

_ID = re.compile(r"[A-Za-z0-9_.@-]+")
_MAX_ID_CHARS = 255
DEFAULT_USER = "default"
DEFAULT_AGENT = "default"


class Role(IntEnum):
    """What a caller may do; a higher role may do all a lower one may."""

    USER = 1
    ADMIN = 2
    ROOT = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of one request: in whose role, and on whose behalf.

    Attributes:
        role: what the caller may do; always the real caller's.
        account: tenant; None when a trusted upstream named none.
        user: the user whose data is meant; None as for `account`.
        peer: the peer whose view is asked for (`X-OpenViking-Actor-Peer`), or None for all.
            Profile 0.5 only.
        agent: the agent whose data is meant (`X-OpenViking-Agent`). Profile namespace only.

    """

    role: Role
    account: str | None
    user: str | None
    peer: str | None = None
    agent: str = DEFAULT_AGENT


@dataclass(frozen=True, slots=True)
class Caller:
    """An `Identity` that is complete: the caller of a route that touches a tenant's data.

    `policy` is the account's; it rules on profile namespace only.
    """

    role: Role
    account: str
    user: str
    peer: str | None = None
    agent: str = DEFAULT_AGENT
    policy: NamespacePolicy = field(default_factory=NamespacePolicy)


def check_id(name: str, value: str) -> str:
    """Return the id unchanged, or raise 400 for characters or lengths the wire refuses."""
    if len(value) > _MAX_ID_CHARS:
        raise invalid_argument(f"{name} must not exceed {_MAX_ID_CHARS} characters.")
    if not _ID.fullmatch(value) or value in {".", ".."} or value.count("@") > 1:
        raise invalid_argument(f"{name} must be alpha_numeric string.")
    if name == "account_id" and value.startswith("_"):
        raise invalid_argument("account_id must not start with an underscore.")
    return value


def sent_key(headers: Mapping[str, str]) -> str | None:
    """The key of `X-API-Key`, else of `Authorization: Bearer`, else None."""
    key = headers.get("x-api-key")
    if key:
        return key
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" and token else None


class Authenticator:
    """Turns request headers into an `Identity`; raises `ApiError` 400, 401 or 403."""

    def __init__(self, settings: EmbeddedSettings, lookup: KeyLookup) -> None:
        self._mode = settings.auth
        self._has_agents = settings.profile is ServerProfile.NAMESPACE
        self._root_key = settings.root_key or ""
        self._lookup = lookup

    async def identify(self, headers: Mapping[str, str]) -> Identity:
        """Check the key and read the identity; the identity may still be incomplete."""
        match self._mode:
            case AuthMode.DEV:
                identity = self._from_headers(
                    headers, Role.ROOT, account=DEFAULT_ACCOUNT, user=DEFAULT_USER
                )
            case AuthMode.TRUSTED:
                identity = self._trusted(headers)
            case AuthMode.API_KEY:
                identity = await self._by_key(headers)
                if self._has_agents:
                    identity = _on_behalf(identity, headers)
        return _with_agent(identity, headers) if self._has_agents else identity

    def _trusted(self, headers: Mapping[str, str]) -> Identity:
        key = sent_key(headers)
        if key is None:
            raise refuse_key(
                "Missing API Key in trusted mode. Send X-API-Key with the server's root key."
            )
        if not self._is_root_key(key):
            raise refuse_key("Invalid API Key in trusted mode.")
        role = headers.get("x-openviking-role", "user")
        if role not in {"user", "admin"}:
            raise invalid_argument("X-OpenViking-Role must be one of: user, admin.")
        return self._from_headers(headers, Role[role.upper()])

    async def _by_key(self, headers: Mapping[str, str]) -> Identity:
        key = sent_key(headers)
        if key is None:
            raise refuse_key("Missing API Key when resolving identity.")
        if self._is_root_key(key):
            return Identity(Role.ROOT, DEFAULT_ACCOUNT, DEFAULT_USER)
        owner = await self._lookup(key)
        if owner is None:
            raise refuse_key("Invalid API key")
        return Identity(Role[owner.role.upper()], owner.account, owner.user, _actor_peer(headers))

    def _is_root_key(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self._root_key.encode())

    @staticmethod
    def _from_headers(
        headers: Mapping[str, str],
        role: Role,
        *,
        account: str | None = None,
        user: str | None = None,
    ) -> Identity:
        return Identity(
            role,
            _sent_id(headers, "account_id", "x-openviking-account") or account,
            _sent_id(headers, "user_id", "x-openviking-user") or user,
            _actor_peer(headers),
        )


def _sent_id(headers: Mapping[str, str], name: str, header: str) -> str | None:
    sent = headers.get(header)
    return check_id(name, sent) if sent else None


def _on_behalf(real: Identity, headers: Mapping[str, str]) -> Identity:
    """The effective identity: ROOT names account and user, ADMIN a user of its account.

    A USER is always itself. Raises 403 for more than the role may name.
    """
    account = _sent_id(headers, "account_id", "x-openviking-account")
    user = _sent_id(headers, "user_id", "x-openviking-user")
    if real.role is not Role.ROOT and account not in {None, real.account}:
        raise permission_denied("X-OpenViking-Account: only a ROOT key may name another account.")
    if real.role is Role.USER and user not in {None, real.user}:
        raise permission_denied(
            "X-OpenViking-User: only a ROOT or ADMIN key may name another user."
        )
    return replace(real, account=account or real.account, user=user or real.user)


def _with_agent(identity: Identity, headers: Mapping[str, str]) -> Identity:
    agent = _sent_id(headers, "agent_id", "x-openviking-agent")
    return replace(identity, agent=agent or DEFAULT_AGENT, peer=None)


def _actor_peer(headers: Mapping[str, str]) -> str | None:
    peer = headers.get("x-openviking-actor-peer")
    if not peer:
        return None
    if "/" in peer or "\\" in peer:
        raise invalid_argument("actor_peer_id must not contain path separators.")
    return check_peer(peer)


def check_peer(peer: str) -> str:
    """Return the peer id unchanged, or raise 400."""
    try:
        return check_id("peer_id", peer)
    except ApiError as refusal:
        raise invalid_argument(f"Invalid peer_id: {refusal.message}") from None


def require_data_access(identity: Identity, mode: AuthMode) -> Caller:
    """The identity, complete, for a route that reads or writes a tenant's data."""
    if mode is AuthMode.API_KEY and identity.role is Role.ROOT:
        raise permission_denied(
            "ROOT API keys cannot access tenant-scoped data APIs in api_key mode. "
            "Use a user/admin API key for data access, "
            "or trusted mode for upstream identity assertion."
        )
    return complete(identity)


def complete(identity: Identity) -> Caller:
    """The identity with both names, or 400 naming the headers that are missing."""
    if identity.account is not None and identity.user is not None:
        return Caller(identity.role, identity.account, identity.user, identity.peer, identity.agent)
    missing: list[str] = []
    if identity.account is None:
        missing.append("X-OpenViking-Account or explicit account_id in the URL")
    if identity.user is None:
        missing.append("X-OpenViking-User or explicit user_id in the URL")
    raise invalid_argument(f"Trusted mode requests must include {' and '.join(missing)}.")
