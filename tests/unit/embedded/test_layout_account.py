import sqlite3

import pytest

from resilient_ov.domain.namespace import NamespacePolicy, VikingUri, parse_uri
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.bodies import RoleMessage
from resilient_ov.embedded.errors import ApiError
from resilient_ov.embedded.extraction import Memory
from resilient_ov.embedded.layout_account import AccountLayout, own_roots, viewer_of

LAYOUT = AccountLayout()
# User scopes by agent, agent scopes by user: where the two scopes of (ua, aa) lie.
TOPOLOGIES = [
    (False, False, "viking://user/ua", "viking://agent/aa"),
    (False, True, "viking://user/ua", "viking://agent/aa/user/ua"),
    (True, False, "viking://user/ua/agent/aa", "viking://agent/aa"),
    (True, True, "viking://user/ua/agent/aa", "viking://agent/aa/user/ua"),
]


def caller(
    *,
    by_agent: bool = False,
    by_user: bool = False,
    user: str = "ua",
    agent: str = "aa",
    role: Role = Role.USER,
    account: str = "acme",
) -> Caller:
    policy = NamespacePolicy(
        isolate_user_scope_by_agent=by_agent, isolate_agent_scope_by_user=by_user
    )
    return Caller(role, account, user, agent=agent, policy=policy)


@pytest.fixture(params=TOPOLOGIES, ids=["ff", "ft", "tf", "tt"])
def topology(request: pytest.FixtureRequest) -> tuple[Caller, str, str]:
    by_agent, by_user, user_root, agent_root = request.param
    return caller(by_agent=by_agent, by_user=by_user), user_root, agent_root


def refusal(ask: object, *arguments: object) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        ask(*arguments)  # type: ignore[operator]
    return caught.value.status, caught.value.code


def test_a_search_looks_through_everything_visible_and_nothing_else(
    topology: tuple[Caller, str, str],
) -> None:
    asking, user_root, agent_root = topology
    assert {str(root) for root in LAYOUT.search_roots(asking)} == {
        "viking://resources",
        "viking://session",
        user_root,
        agent_root,
    }


def test_short_addresses_are_put_below_the_own_roots(topology: tuple[Caller, str, str]) -> None:
    asking, user_root, agent_root = topology
    for resolve in (LAYOUT.resolve, LAYOUT.resolve_target):
        assert str(resolve(asking, "viking://user/memories/x.md")) == f"{user_root}/memories/x.md"
        assert str(resolve(asking, "viking://agent/skills/x.md")) == f"{agent_root}/skills/x.md"
        assert str(resolve(asking, f"{user_root}/profile.md")) == f"{user_root}/profile.md"


def test_new_scopes_hold_the_presets_and_containers_none(
    topology: tuple[Caller, str, str],
) -> None:
    asking, user_root, agent_root = topology
    wanted = {
        *("viking://resources", "viking://session", user_root, agent_root),
        *(f"{user_root}/memories{below}" for below in ("/preferences", "/entities", "/events")),
        *(f"{agent_root}/{below}" for below in ("memories/cases", "memories/patterns")),
        *(f"{agent_root}/{below}" for below in ("skills", "instructions")),
    }
    found = {str(uri) for uri in LAYOUT.presets(asking)}
    assert wanted <= found
    assert found - wanted <= {f"{user_root}/memories", f"{agent_root}/memories"}


@pytest.mark.parametrize(
    ("by_agent", "by_user", "text", "status"),
    [
        (True, False, "viking://user/ua/memories", 400),
        (False, False, "viking://user/ua/agent/aa/memories", 400),
        (False, True, "viking://agent/aa/skills", 400),
        (False, False, "viking://agent/aa/user/ua/skills", 400),
        (False, False, "viking://user/ub/memories", 403),
        (True, True, "viking://user/ua/agent/ab/memories", 403),
        (True, True, "viking://agent/ab/user/ua/skills", 403),
        (True, True, "viking://agent/aa/user/ub/skills", 403),
        (False, False, "viking://agent/aa2/skills", 403),
        (False, False, "http://user/ua", 400),
    ],
)
def test_a_wrong_shape_is_400_and_a_foreign_scope_403(
    by_agent: bool, by_user: bool, text: str, status: int
) -> None:
    asking = caller(by_agent=by_agent, by_user=by_user)
    assert refusal(LAYOUT.resolve_target, asking, text)[0] == status


def test_a_container_can_be_listed_but_not_searched() -> None:
    asking = caller(by_agent=True)
    assert str(LAYOUT.resolve(asking, "viking://user/ua")) == "viking://user/ua"
    assert refusal(LAYOUT.resolve_target, asking, "viking://user/ua")[0] == 400


@pytest.mark.parametrize("role", Role)
def test_only_admins_and_root_delete_a_shared_session(role: Role) -> None:
    asking = caller(role=role)
    if role is Role.USER:
        assert refusal(LAYOUT.check_session_delete, asking) == (403, "PERMISSION_DENIED")
    else:
        LAYOUT.check_session_delete(asking)


def test_sessions_lie_in_the_account_whoever_asks() -> None:
    for asking in (caller(), caller(user="ub", agent="ab", by_agent=True)):
        assert LAYOUT.session_owner(asking) == ""
        uri = LAYOUT.session_uri(asking, "s1", "messages.jsonl")
        assert uri == "viking://session/s1/messages.jsonl"
    assert LAYOUT.session_path(parse_uri("viking://session/s1/history")) == ("s1", "history")
    assert LAYOUT.session_path(parse_uri("viking://user/ua/sessions/s1")) is None


@pytest.mark.parametrize("name", ["a/b", "..", "a%2Fb", "a?b", "a#b", ""])
def test_a_session_id_that_no_address_holds_is_400(name: str) -> None:
    assert refusal(LAYOUT.session_uri, caller(), name) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("role", "sent", "actor"),
    [
        ("user", "", "ua"),
        ("assistant", "", "aa"),
        ("user", "somebody", "somebody"),
        ("assistant", "other", "other"),
    ],
)
def test_who_said_it_is_sent_or_filled_from_the_identity(role: str, sent: str, actor: str) -> None:
    body = {"role": role, "content": "x", **({"role_id": sent} if sent else {})}
    said = LAYOUT.said(caller(), "s1", RoleMessage.model_validate(body))
    assert (said.actor, str(said.tools)) == (actor, "viking://session/s1/tools")


def test_a_memory_goes_into_the_user_scope(topology: tuple[Caller, str, str]) -> None:
    asking, user_root, _ = topology
    assert str(LAYOUT.memory_uri(asking, Memory("profile", "x"))) == f"{user_root}/profile.md"
    likes = str(LAYOUT.memory_uri(asking, Memory("preferences", "User likes tea.")))
    assert likes.startswith(f"{user_root}/memories/preferences/")


def test_a_role_id_that_names_no_scope_makes_no_memory() -> None:
    with pytest.raises(ValueError, match="names no scope"):
        LAYOUT.memory_uri(caller(user="memories"), Memory("profile", "x"))


@pytest.mark.parametrize("name", ["memories", "skills", "profile.md"])
def test_names_of_parts_of_a_scope_are_no_users(name: str) -> None:
    assert refusal(LAYOUT.check_user_id, name)[0] == 400
    assert refusal(viewer_of, caller(agent=name))[0] == 400


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("viking://session/s1/messages.jsonl", 403),
        ("viking://user/ua", 400),
        ("viking://user/ua/memories/.overview.md", 400),
        ("viking://agent/aa/.abstract.md", 400),
        ("viking://user/ua/memories/x.md", None),
        ("viking://resources/books/x.md", None),
    ],
)
def test_only_files_below_a_scope_root_change(text: str, status: int | None) -> None:
    if status is None:
        LAYOUT.check_change(caller(), parse_uri(text))
    else:
        assert refusal(LAYOUT.check_change, caller(), parse_uri(text))[0] == status


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("viking://user/ua/memories/x.md", "memory"),
        ("viking://user/ua/skills.md", "memory"),
        ("viking://agent/aa/skills/x.md", "skill"),
        ("viking://agent/aa/memories/skills/x.md", "memory"),
        ("viking://resources/skills/x.md", "resource"),
    ],
)
def test_the_kind_of_a_file_follows_from_its_place(text: str, kind: str) -> None:
    assert LAYOUT.type_of(caller(), parse_uri(text)) == kind


def test_a_shelf_shows_rows_of_the_caller_only_whatever_the_role(db: sqlite3.Connection) -> None:
    uri = VikingUri(("user", "ua", "agent", "aa", "memories", "x.md"))
    writer = caller(by_agent=True)
    files.write(db, LAYOUT.shelf(writer), uri, "secret", [])
    row = db.execute("SELECT owner_user, owner_agent FROM files").fetchone()
    assert tuple(row) == ("ua", "aa")
    assert files.read(db, LAYOUT.shelf(writer), uri) is not None
    others = [
        caller(by_agent=True, user="ub"),
        caller(by_agent=True, agent="ab"),
        caller(by_agent=True, user="ub", role=Role.ROOT),
        caller(by_agent=True, account="acme2"),
        caller(by_agent=True, user="u_"),
    ]
    for other in others:
        assert files.read(db, LAYOUT.shelf(other), uri) is None


def test_a_row_whose_owners_contradict_its_address_is_hidden(db: sqlite3.Connection) -> None:
    uri = VikingUri(("user", "ua", "memories", "x.md"))
    files.write(db, LAYOUT.shelf(caller()), uri, "text", [])
    db.execute("UPDATE files SET owner_user = 'ub'")
    for user in ("ua", "ub"):
        assert files.read(db, LAYOUT.shelf(caller(user=user)), uri) is None


def test_containers_keep_no_notes() -> None:
    shelf = LAYOUT.shelf(caller(by_agent=True, by_user=True))
    assert not shelf.has_notes(parse_uri("viking://user/ua"))
    assert not shelf.has_notes(parse_uri("viking://agent/aa/user"))
    assert shelf.has_notes(parse_uri("viking://user/ua/agent/aa"))
    assert shelf.has_notes(parse_uri("viking://agent/aa/user/ua/skills"))


def test_the_own_roots_follow_the_policy(topology: tuple[Caller, str, str]) -> None:
    asking, user_root, agent_root = topology
    assert sorted(map(str, own_roots(asking).values())) == sorted([user_root, agent_root])
