import sqlite3

import pytest

from resilient_ov.domain.namespace import NamespacePolicy, parse_uri
from resilient_ov.embedded import files, scopes
from resilient_ov.embedded.auth import Caller, Role
from resilient_ov.embedded.layout_account import AccountLayout

LAYOUT = AccountLayout()


def caller(by_agent: bool, by_user: bool) -> Caller:
    policy = NamespacePolicy(
        isolate_user_scope_by_agent=by_agent, isolate_agent_scope_by_user=by_user
    )
    return Caller(Role.USER, "acme", "ua", agent="aa", policy=policy)


def places(db: sqlite3.Connection) -> set[str]:
    return {str(files.uri_of(row)) for row in db.execute("SELECT * FROM files")}


@pytest.mark.parametrize(
    ("by_agent", "by_user", "user_root", "agent_root"),
    [
        (False, False, "viking://user/ua", "viking://agent/aa"),
        (False, True, "viking://user/ua", "viking://agent/aa/user/ua"),
        (True, False, "viking://user/ua/agent/aa", "viking://agent/aa"),
        (True, True, "viking://user/ua/agent/aa", "viking://agent/aa/user/ua"),
    ],
)
def test_scope_roots_are_furnished_and_containers_are_not(
    db: sqlite3.Connection, by_agent: bool, by_user: bool, user_root: str, agent_root: str
) -> None:
    scopes.furnish(db, LAYOUT, caller(by_agent, by_user))
    assert places(db) == {
        f"{user_root}/profile.md",
        f"{user_root}/.abstract.md",
        f"{user_root}/.overview.md",
        f"{agent_root}/.abstract.md",
        f"{agent_root}/.overview.md",
    }


def test_the_overview_names_what_is_there(db: sqlite3.Connection) -> None:
    asking = caller(by_agent=False, by_user=False)
    scopes.furnish(db, LAYOUT, asking)
    shelf = LAYOUT.shelf(asking)
    user = files.read(db, shelf, parse_uri("viking://user/ua/.overview.md"))
    agent = files.read(db, shelf, parse_uri("viking://agent/aa/.overview.md"))
    assert user is not None
    assert agent is not None
    for name in ("memories/preferences/", "memories/entities/", "memories/events/", "profile.md"):
        assert f"- {name}" in user["content"]
    for name in ("memories/cases/", "memories/patterns/", "skills/", "instructions/"):
        assert f"- {name}" in agent["content"]


def test_a_second_time_changes_nothing(db: sqlite3.Connection) -> None:
    asking = caller(by_agent=False, by_user=False)
    shelf = LAYOUT.shelf(asking)
    scopes.furnish(db, LAYOUT, asking)
    profile = parse_uri("viking://user/ua/profile.md")
    files.write(db, shelf, profile, "likes tea", [])
    scopes.furnish(db, LAYOUT, asking)
    row = files.read(db, shelf, profile)
    assert row is not None
    assert row["content"] == "likes tea"
