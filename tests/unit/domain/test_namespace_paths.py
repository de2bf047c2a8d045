"""Addresses and places of storage in the four topologies, from tables written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import (
    InvalidUriError,
    NamespacePolicy,
    UnfitUriError,
    VikingUri,
    from_storage_path,
    locate,
    parse_uri,
    settings_path,
    storage_path,
)

# One line of the design's matrix each; the canonical address is the path below the account.
PATHS = {
    (False, False): {
        "viking://user/ua/memories/x.md": "/local/acme/user/ua/memories/x.md",
        "viking://agent/aa/skills/s.md": "/local/acme/agent/aa/skills/s.md",
        "viking://session/s1/messages.jsonl": "/local/acme/session/s1/messages.jsonl",
    },
    (False, True): {
        "viking://user/ua/memories/x.md": "/local/acme/user/ua/memories/x.md",
        "viking://agent/aa/user/ua/skills/s.md": "/local/acme/agent/aa/user/ua/skills/s.md",
        "viking://session/s1/messages.jsonl": "/local/acme/session/s1/messages.jsonl",
    },
    (True, False): {
        "viking://user/ua/agent/aa/memories/x.md": "/local/acme/user/ua/agent/aa/memories/x.md",
        "viking://agent/aa/skills/s.md": "/local/acme/agent/aa/skills/s.md",
        "viking://session/s1/messages.jsonl": "/local/acme/session/s1/messages.jsonl",
    },
    (True, True): {
        "viking://user/ua/agent/aa/memories/x.md": "/local/acme/user/ua/agent/aa/memories/x.md",
        "viking://agent/aa/user/ua/skills/s.md": "/local/acme/agent/aa/user/ua/skills/s.md",
        "viking://session/s1/messages.jsonl": "/local/acme/session/s1/messages.jsonl",
    },
}


@pytest.mark.parametrize(
    ("switches", "text", "path"),
    [(switches, text, path) for switches, rows in PATHS.items() for text, path in rows.items()],
)
def test_each_topology_is_stored_as_it_is_addressed(
    switches: tuple[bool, bool], text: str, path: str
) -> None:
    policy = NamespacePolicy(
        isolate_user_scope_by_agent=switches[0], isolate_agent_scope_by_user=switches[1]
    )
    uri = locate(policy, parse_uri(text)).uri
    assert storage_path("acme", uri) == path
    assert from_storage_path(path) == ("acme", uri)


def test_settings_lie_beside_the_areas_where_no_address_leads() -> None:
    path = settings_path("acme")
    assert path == "/local/acme/_system/setting.json"
    account, uri = from_storage_path(path)
    assert account == "acme"
    with pytest.raises(UnfitUriError):
        locate(NamespacePolicy(), uri)


SEGMENTS = st.text(min_size=1, max_size=6).filter(
    lambda text: not set(text) & set("/%?#\\") and text not in {".", ".."} and text.isprintable()
)


@given(SEGMENTS, st.lists(SEGMENTS, max_size=5))
def test_paths_lead_back_and_never_into_another_account(account: str, below: list[str]) -> None:
    uri = VikingUri(tuple(below))
    path = storage_path(account, uri)
    assert from_storage_path(path) == (account, uri)
    assert path == f"/local/{account}" or path.startswith(f"/local/{account}/")


@pytest.mark.parametrize("account", ["", "..", "a/b", "a%2Fb"])
def test_accounts_that_could_change_a_path_are_refused(account: str) -> None:
    with pytest.raises(InvalidUriError):
        storage_path(account, VikingUri())


@pytest.mark.parametrize("path", ["", "/local", "local/acme/x", "/other/acme/x", "/local/a//b"])
def test_other_paths_are_not_of_the_store(path: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_storage_path(path)
