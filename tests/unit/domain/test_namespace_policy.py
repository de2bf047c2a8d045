"""Four topologies against tables that were written by hand from the account-level design."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.namespace import (
    PRESET_DIRECTORIES,
    Area,
    InvalidUriError,
    InvisibleUriError,
    NamespacePolicy,
    Record,
    ReservedIdError,
    UnfitUriError,
    Viewer,
    VikingUri,
    expand,
    is_visible,
    leads_to_visible,
    locate,
    parse_uri,
    resolve,
    resolve_target,
    visible_roots,
)

# The two switches: user scopes divided by agent, agent scopes divided by user.
FF = NamespacePolicy()
FT = NamespacePolicy(isolate_agent_scope_by_user=True)
TF = NamespacePolicy(isolate_user_scope_by_agent=True)
TT = NamespacePolicy(isolate_user_scope_by_agent=True, isolate_agent_scope_by_user=True)
POLICIES = {"FF": FF, "FT": FT, "TF": TF, "TT": TT}
ME = Viewer(account_id="acme", user_id="ua", agent_id="aa")

ROOTS = {
    "FF": ("user/ua", "agent/aa"),
    "FT": ("user/ua", "agent/aa/user/ua"),
    "TF": ("user/ua/agent/aa", "agent/aa"),
    "TT": ("user/ua/agent/aa", "agent/aa/user/ua"),
}

OWN, FOREIGN, UNFIT = "own", "foreign", "unfit"
# What (ua, aa) of the account gets for an address, in the order FF, FT, TF, TT.
ACCESS = {
    "resources": (OWN, OWN, OWN, OWN),
    "resources/handbook.md": (OWN, OWN, OWN, OWN),
    "session": (OWN, OWN, OWN, OWN),
    "session/s1": (OWN, OWN, OWN, OWN),
    "session/s1/messages.jsonl": (OWN, OWN, OWN, OWN),
    "session/s1/tools/t1": (OWN, OWN, OWN, OWN),
    "user/ua": (OWN, OWN, "container", "container"),
    "user/ua/memories/x.md": (OWN, OWN, UNFIT, UNFIT),
    "user/ua/profile.md": (OWN, OWN, UNFIT, UNFIT),
    "user/ua/agent": (UNFIT, UNFIT, "container", "container"),
    "user/ua/agent/aa": (UNFIT, UNFIT, OWN, OWN),
    "user/ua/agent/aa/memories/x.md": (UNFIT, UNFIT, OWN, OWN),
    "user/ua/agent/ab": (UNFIT, UNFIT, FOREIGN, FOREIGN),
    "user/ua/agent/ab/memories/x.md": (UNFIT, UNFIT, FOREIGN, FOREIGN),
    "user/ub": (FOREIGN, FOREIGN, FOREIGN, FOREIGN),
    "user/ub/memories/x.md": (FOREIGN, FOREIGN, UNFIT, UNFIT),
    "user/ub/agent/aa/memories/x.md": (UNFIT, UNFIT, FOREIGN, FOREIGN),
    "user/ub/agent/ab/memories/x.md": (UNFIT, UNFIT, FOREIGN, FOREIGN),
    "agent/aa": (OWN, "container", OWN, "container"),
    "agent/aa/memories/cases/x.md": (OWN, UNFIT, OWN, UNFIT),
    "agent/aa/skills/s.md": (OWN, UNFIT, OWN, UNFIT),
    "agent/aa/user": (UNFIT, "container", UNFIT, "container"),
    "agent/aa/user/ua": (UNFIT, OWN, UNFIT, OWN),
    "agent/aa/user/ua/memories/cases/x.md": (UNFIT, OWN, UNFIT, OWN),
    "agent/aa/user/ub": (UNFIT, FOREIGN, UNFIT, FOREIGN),
    "agent/aa/user/ub/memories/cases/x.md": (UNFIT, FOREIGN, UNFIT, FOREIGN),
    "agent/ab": (FOREIGN, FOREIGN, FOREIGN, FOREIGN),
    "agent/ab/memories/cases/x.md": (FOREIGN, UNFIT, FOREIGN, UNFIT),
    "agent/ab/user/ua/memories/cases/x.md": (UNFIT, FOREIGN, UNFIT, FOREIGN),
    # Nothing of an older layout and nothing of the server's own is an address.
    "~": (UNFIT,) * 4,
    "~/memories": (UNFIT,) * 4,
    "skills": (UNFIT,) * 4,
    "local/acme/user/ua": (UNFIT,) * 4,
    "_system/setting.json": (UNFIT,) * 4,
    "User/ua/memories/x.md": (UNFIT,) * 4,
    # Containers that lead to a root of one's own.
    "": ("container",) * 4,
    "user": ("container",) * 4,
    "agent": ("container",) * 4,
}
# Of somebody else, and above a scope root: as a target the shape is told first.
FOREIGN_CONTAINERS = {
    ("TF", "user/ub"),
    ("TT", "user/ub"),
    ("FT", "agent/ab"),
    ("TT", "agent/ab"),
}
OWNERS = {
    "FF": {"user": ("ua", None), "agent": (None, "aa")},
    "FT": {"user": ("ua", None), "agent": ("ua", "aa")},
    "TF": {"user": ("ua", "aa"), "agent": (None, "aa")},
    "TT": {"user": ("ua", "aa"), "agent": ("ua", "aa")},
}


def _cases() -> list[tuple[str, str, str]]:
    return [
        (name, path, answers[column])
        for path, answers in ACCESS.items()
        for column, name in enumerate(POLICIES)
    ]


@pytest.mark.parametrize(("name", "path", "answer"), _cases())
def test_access_is_as_the_table_says(name: str, path: str, answer: str) -> None:
    text = f"viking://{path}"
    if answer in {OWN, "container"}:
        place = resolve(POLICIES[name], ME, parse_uri(text))
        assert str(place.uri) == text
        assert (place.root is None) == (answer == "container")
    else:
        with pytest.raises(UnfitUriError if answer == UNFIT else InvisibleUriError) as caught:
            resolve(POLICIES[name], ME, parse_uri(text))
        assert path == "" or path not in str(caught.value)


@pytest.mark.parametrize(("name", "path", "answer"), _cases())
def test_a_container_is_no_target(name: str, path: str, answer: str) -> None:
    text = f"viking://{path}"
    if answer == OWN:
        assert resolve_target(POLICIES[name], ME, parse_uri(text)) == resolve(
            POLICIES[name], ME, parse_uri(text)
        )
    else:
        unfit = answer in {UNFIT, "container"} or (name, path) in FOREIGN_CONTAINERS
        with pytest.raises(UnfitUriError if unfit else InvisibleUriError):
            resolve_target(POLICIES[name], ME, parse_uri(text))


@pytest.mark.parametrize("name", POLICIES)
def test_visible_are_resources_sessions_and_the_two_own_roots(name: str) -> None:
    roots = [str(root) for root in visible_roots(POLICIES[name], ME)]
    user, agent = ROOTS[name]
    assert roots == [
        "viking://resources",
        "viking://session",
        f"viking://{user}",
        f"viking://{agent}",
    ]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    ("short", "which", "rest"),
    [
        ("user/memories/preferences/", 0, "memories/preferences"),
        ("user/memories", 0, "memories"),
        ("user/profile.md", 0, "profile.md"),
        ("agent/memories/cases/", 1, "memories/cases"),
        ("agent/skills/x/y.md", 1, "skills/x/y.md"),
        ("agent/instructions", 1, "instructions"),
    ],
)
def test_short_addresses_expand(name: str, short: str, which: int, rest: str) -> None:
    expanded = expand(POLICIES[name], ME, parse_uri(f"viking://{short}"))
    assert str(expanded) == f"viking://{ROOTS[name][which]}/{rest}"
    assert resolve(POLICIES[name], ME, parse_uri(f"viking://{short}")).uri == expanded


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("path", ["user/skills", "agent/profile.md", "user/Memories/x", "user"])
def test_other_names_are_ids_not_short_addresses(name: str, path: str) -> None:
    uri = parse_uri(f"viking://{path}")
    assert expand(POLICIES[name], ME, uri) == uri


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("which", [0, 1])
def test_owners_come_from_the_address(name: str, which: int) -> None:
    root = ROOTS[name][which]
    owners = OWNERS[name]["agent" if which else "user"]
    for below in ("", "/memories", "/memories/a/b.md", "/anything.md"):
        place = locate(POLICIES[name], parse_uri(f"viking://{root}{below}"))
        assert (place.owner_user_id, place.owner_agent_id) == owners
        assert str(place.root) == f"viking://{root}"
        assert "/".join(("", *place.below)) == below
    for shared in ("resources/x.md", "session/s1/messages.jsonl"):
        place = locate(POLICIES[name], parse_uri(f"viking://{shared}"))
        assert (place.owner_user_id, place.owner_agent_id) == (None, None)


@pytest.mark.parametrize("name", POLICIES)
def test_owners_that_contradict_the_address_hide_a_record(name: str) -> None:
    policy = POLICIES[name]
    uri = parse_uri(f"viking://{ROOTS[name][0]}/memories/x.md")
    right = OWNERS[name]["user"]
    for user, agent in itertools.product(("ua", "ub", "", None), ("aa", "ab", "", None)):
        record = Record(account_id="acme", uri=uri, owner_user_id=user, owner_agent_id=agent)
        assert is_visible(policy, ME, record) == ((user, agent) == right)


@pytest.mark.parametrize("name", POLICIES)
def test_another_account_hides_everything(name: str) -> None:
    for path in (*ROOTS[name], "resources/x.md", "session/s1"):
        place = locate(POLICIES[name], parse_uri(f"viking://{path}"))
        for account, seen in (("acme", True), ("acme2", False), ("acm", False), ("ACME", False)):
            record = Record(
                account_id=account,
                uri=place.uri,
                owner_user_id=place.owner_user_id,
                owner_agent_id=place.owner_agent_id,
            )
            assert is_visible(POLICIES[name], ME, record) is seen


def test_what_fits_no_shape_is_never_visible() -> None:
    for path in ("user/memories/x.md", "_system/setting.json", "user/ua/agent/aa/x.md"):
        uri = parse_uri(f"viking://{path}")
        record = Record(account_id="acme", uri=uri, owner_user_id="ua", owner_agent_id=None)
        assert not is_visible(FF, ME, record)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("name", ["memories", "profile.md", "skills", "instructions"])
def test_parts_of_a_scope_are_no_ids(policy: NamespacePolicy, name: str) -> None:
    with pytest.raises(ReservedIdError, match="user_id"):
        Viewer(account_id="acme", user_id=name, agent_id="aa")
    with pytest.raises(ReservedIdError, match="agent_id"):
        Viewer(account_id="acme", user_id="ua", agent_id=name)
    for path in (f"user/{name}/x", f"agent/{name}/x"):
        with pytest.raises(UnfitUriError):
            locate(policy, parse_uri(f"viking://{path}"))
    assert Viewer(account_id=name, user_id="ua", agent_id="aa").account_id == name


def test_reserved_names_are_no_inner_ids_either() -> None:
    for path in ("user/ua/agent/skills/x.md", "agent/aa/user/memories/x.md"):
        with pytest.raises(UnfitUriError):
            locate(TT, parse_uri(f"viking://{path}"))
    assert locate(FF, parse_uri("viking://user/ua/notes/memories")).below == ("notes", "memories")


@pytest.mark.parametrize("bad", ["a%", "a/b", "", "..", "a\\b", "a?b"])
def test_ids_that_could_change_an_address_are_refused(bad: str) -> None:
    for ids in ((bad, "ua", "aa"), ("acme", bad, "aa"), ("acme", "ua", bad)):
        with pytest.raises(InvalidUriError):
            Viewer(account_id=ids[0], user_id=ids[1], agent_id=ids[2])


def test_presets_are_those_of_the_design() -> None:
    presets = {
        area.value: ["/".join(path) for path in paths] for area, paths in PRESET_DIRECTORIES.items()
    }
    assert presets == {
        "user": ["memories", "memories/preferences", "memories/entities", "memories/events"],
        "agent": [
            "memories",
            "memories/cases",
            "memories/patterns",
            "skills",
            "instructions",
        ],
    }


# Ids that begin with one another, hold what SQL patterns treat as wildcards, or differ in case.
# `%` is in no id: an address refuses it, see above; a name of a file may hold `_` and more.
IDS = st.sampled_from(
    ["a", "A", "aa", "aA", "aa_", "a_", "_", "aab", "agent", "user", "a.a", "session", "aa-1", "ab"]
)
NAMES = st.sampled_from(["memories", "m_", "agent", "user", "aa", "a", "profile.md", "x.md"])
ANY_POLICY = st.builds(
    NamespacePolicy,
    isolate_user_scope_by_agent=st.booleans(),
    isolate_agent_scope_by_user=st.booleans(),
)
VIEWERS = st.builds(Viewer, account_id=IDS, user_id=IDS, agent_id=IDS)
SEGMENTS = st.lists(st.sampled_from(list(Area)) | IDS | NAMES, max_size=7)


def _hand_rule(policy: NamespacePolicy, viewer: Viewer, segments: tuple[str, ...]) -> bool:
    """The design's sentences once more, on bare segments."""
    match segments:
        case ("resources" | "session", *_):
            return True
        case ("user", user, "agent", agent, *_) if policy.isolate_user_scope_by_agent:
            return user == viewer.user_id and agent == viewer.agent_id
        case ("user", user, *rest) if not policy.isolate_user_scope_by_agent:
            return user == viewer.user_id and rest[:1] != ["agent"]
        case ("agent", agent, "user", user, *_) if policy.isolate_agent_scope_by_user:
            return user == viewer.user_id and agent == viewer.agent_id
        case ("agent", agent, *rest) if not policy.isolate_agent_scope_by_user:
            return agent == viewer.agent_id and rest[:1] != ["user"]
        case _:
            return False


@given(ANY_POLICY, VIEWERS, SEGMENTS)
def test_visibility_follows_the_sentences_of_the_design(
    policy: NamespacePolicy, viewer: Viewer, segments: list[str]
) -> None:
    uri = VikingUri(tuple(map(str, segments)))
    try:
        place = locate(policy, uri)
    except UnfitUriError:
        owners: tuple[str | None, str | None] = (viewer.user_id, viewer.agent_id)
    else:
        owners = place.owner_user_id, place.owner_agent_id
    record = Record(
        account_id=viewer.account_id, uri=uri, owner_user_id=owners[0], owner_agent_id=owners[1]
    )
    assert is_visible(policy, viewer, record) == _hand_rule(policy, viewer, uri.segments)


@given(ANY_POLICY, VIEWERS, VIEWERS)
def test_two_viewers_share_a_root_only_where_the_policy_shares_it(
    policy: NamespacePolicy, one: Viewer, two: Viewer
) -> None:
    shared = set(visible_roots(policy, one)) & set(visible_roots(policy, two))
    same_user, same_agent = one.user_id == two.user_id, one.agent_id == two.agent_id
    expected = {"resources", "session"}
    if same_user and (same_agent or not policy.isolate_user_scope_by_agent):
        expected.add("user")
    if same_agent and (same_user or not policy.isolate_agent_scope_by_user):
        expected.add("agent")
    assert {root.segments[0] for root in shared} == expected


@given(ANY_POLICY, VIEWERS, SEGMENTS)
def test_expanding_is_stable_and_lands_in_an_own_root(
    policy: NamespacePolicy, viewer: Viewer, segments: list[str]
) -> None:
    uri = VikingUri(tuple(map(str, segments)))
    expanded = expand(policy, viewer, uri)
    assert expand(policy, viewer, expanded) == expanded
    if expanded != uri:
        assert locate(policy, expanded).root in visible_roots(policy, viewer)


@given(ANY_POLICY, VIEWERS, SEGMENTS)
def test_resolving_answers_with_something_visible_or_refuses(
    policy: NamespacePolicy, viewer: Viewer, segments: list[str]
) -> None:
    try:
        place = resolve(policy, viewer, VikingUri(tuple(map(str, segments))))
    except (UnfitUriError, InvisibleUriError):
        return
    assert place.root in visible_roots(policy, viewer) or (
        place.root is None and leads_to_visible(policy, viewer, place.uri)
    )
