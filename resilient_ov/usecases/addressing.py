"""Who the server is told is asking, and what it is asked about: what differs by server profile.

Rule: values in, values out. On profile 0.5 one hashed user stands for a user with an agent; on
profile namespace the agent travels beside the user, and the account's policy decides what agents
share.
"""

from resilient_ov.domain.errors import OpenVikingScopeError
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.identity import Scope, namespace_user, openviking_user
from resilient_ov.domain.namespace import (
    RESERVED_IDS,
    AccountView,
    HomeView,
    NamespacePolicy,
    View,
)
from resilient_ov.domain.waiting import Target
from resilient_ov.settings import AuthMode, ServerProfile, Settings


def identity_of(settings: Settings, owner: Scope) -> Identity:
    """Return the identity a scope has on the server.

    Raises:
        OpenVikingScopeError: profile namespace has no agent of this name.
    """
    if settings.server_profile is not ServerProfile.NAMESPACE:
        return Identity(user=openviking_user(owner))
    if owner.agent in RESERVED_IDS:
        raise OpenVikingScopeError(
            f"agent_name must not be one of {', '.join(sorted(RESERVED_IDS))}, which name parts"
            " of a memory scope on server profile namespace; rename the agent"
        )
    return Identity(user=namespace_user(owner.account, owner.user_id), agent=owner.agent)


def target_of(settings: Settings, identity: Identity, session: str) -> Target:
    """Return the session of an identity; ``session`` empty = none is needed.

    With a key of one user the server knows that user and we do not: it fills the user's role id.
    """
    knows_user = settings.auth.mode is not AuthMode.API_KEY
    is_told = knows_user and identity.agent is not None
    return Target(
        identity=identity,
        session_id=session,
        account=settings.auth.scope_account,
        user_role=identity.user if is_told else None,
        agent_role=identity.agent,
    )


def view_of(settings: Settings, identity: Identity, *, own_user: str | None) -> View:
    """Return what an identity reads; ``own_user`` None = the server's user is not known yet."""
    if identity.agent is None:
        return HomeView(user=own_user)
    return AccountView(
        policy=policy_of(settings),
        user=own_user,
        agent=identity.agent,
        agent_scope=settings.namespace.search_agent_scope,
    )


def policy_of(settings: Settings) -> NamespacePolicy:
    """Return the account's policy as the operator told it."""
    told = settings.namespace
    return NamespacePolicy(
        isolate_user_scope_by_agent=told.isolate_user_scope_by_agent,
        isolate_agent_scope_by_user=told.isolate_agent_scope_by_user,
    )
