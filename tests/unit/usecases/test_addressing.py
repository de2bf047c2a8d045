from dataclasses import replace
from pathlib import Path

import pytest

from resilient_ov.domain.errors import OpenVikingScopeError
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.identity import scope
from resilient_ov.domain.namespace import RESERVED_IDS, AccountView, HomeView, NamespacePolicy
from resilient_ov.settings import (
    AuthMode,
    AuthSettings,
    NamespaceSettings,
    ServerProfile,
    Settings,
)
from resilient_ov.usecases.addressing import identity_of, policy_of, target_of, view_of

HOME = Settings(
    base_url="http://localhost", storage_path=Path(), auth=AuthSettings(account="deerflow")
)
ACCOUNT = replace(
    HOME,
    server_profile=ServerProfile.NAMESPACE,
    namespace=NamespaceSettings(isolate_user_scope_by_agent=True, search_agent_scope=True),
)
ALICE = scope("deerflow", "alice", None)
RESEARCHER = scope("deerflow", "alice", "Researcher")
ALICE_HERE = "df_3d74e0081e9be3777ce0e498619bf014e950184a"


def test_on_profile_0_5_a_user_with_an_agent_is_one_user() -> None:
    lead, researcher = identity_of(HOME, ALICE), identity_of(HOME, RESEARCHER)
    assert lead == Identity(user="df_1dda69000a9a7414133f19c3ca5f167397825b4e")
    assert researcher == Identity(user="df_23a14cca9168155c1ac426d7ccb1b32c800dad10")
    target = target_of(HOME, researcher, "df_s")
    assert (target.user_role, target.agent_role, target.account) == (None, None, "deerflow")
    assert view_of(HOME, researcher, own_user="u") == HomeView(user="u")


def test_on_profile_namespace_the_agent_travels_beside_the_user() -> None:
    lead, researcher = identity_of(ACCOUNT, ALICE), identity_of(ACCOUNT, RESEARCHER)
    assert lead == Identity(user=ALICE_HERE, agent="__default__")
    assert researcher == Identity(user=ALICE_HERE, agent="researcher")
    target = target_of(ACCOUNT, researcher, "df_s")
    assert (target.user_role, target.agent_role) == (ALICE_HERE, "researcher")
    assert view_of(ACCOUNT, researcher, own_user=ALICE_HERE) == AccountView(
        policy=NamespacePolicy(isolate_user_scope_by_agent=True),
        user=ALICE_HERE,
        agent="researcher",
        agent_scope=True,
    )


def test_a_key_of_one_user_leaves_the_users_role_id_to_the_server() -> None:
    by_key = replace(ACCOUNT, auth=AuthSettings(mode=AuthMode.API_KEY, owner_user_id="alice"))
    target = target_of(by_key, identity_of(by_key, RESEARCHER), "df_s")
    assert (target.user_role, target.agent_role) == (None, "researcher")


@pytest.mark.parametrize("agent", sorted(RESERVED_IDS - {"profile.md"}))
def test_an_agent_named_like_a_part_of_a_scope_is_a_scope_error_there(agent: str) -> None:
    owner = scope("deerflow", "alice", agent)
    with pytest.raises(OpenVikingScopeError, match="rename the agent") as caught:
        identity_of(ACCOUNT, owner)
    assert "alice" not in str(caught.value)
    assert identity_of(HOME, owner).agent is None


def test_the_policy_is_the_configured_one() -> None:
    assert policy_of(HOME) == NamespacePolicy()
    by_user = NamespaceSettings(isolate_agent_scope_by_user=True)
    assert policy_of(replace(ACCOUNT, namespace=by_user)) == NamespacePolicy(
        isolate_agent_scope_by_user=True
    )
