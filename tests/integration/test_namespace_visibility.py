"""What is listed, read and found is the same, in every topology, and never somebody else's."""

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.namespace_world import (
    TOPOLOGIES,
    As,
    agent_root,
    make_accounts,
    running,
    user_root,
)

USERS, AGENTS = ("ua", "ub", "ua2"), ("aa", "ab", "aa_")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("visibility")


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[httpx.Client]:
    """Every user with every agent has written a memory, an agent's case and a resource."""
    with running(folder) as client:
        make_accounts(client)
        for account in (*TOPOLOGIES, "other"):
            for user, agent in itertools.product(USERS, AGENTS):
                me = As(client, account, user, agent)
                me.put(f"viking://user/memories/events/{user}-{agent}.md", f"by {user} {agent}")
                me.put(f"viking://agent/memories/cases/{user}-{agent}.md", f"by {user} {agent}")
                me.put(f"viking://resources/{user}-{agent}.md", f"by {user} {agent}")
        yield client


# Which writers' user and agent memories (ua, aa) sees, by hand from the design.
def _writers(user: bool, agent: bool) -> set[tuple[str, str]]:
    return {
        (u, a)
        for u, a in itertools.product(USERS, AGENTS)
        if (not user or u == "ua") and (not agent or a == "aa")
    }


SEEN = {
    "acme-ff": (_writers(True, False), _writers(False, True)),
    "acme-ft": (_writers(True, False), _writers(True, True)),
    "acme-tf": (_writers(True, True), _writers(False, True)),
    "acme-tt": (_writers(True, True), _writers(True, True)),
}


def expected(account: str) -> set[str]:
    users, agents = SEEN[account]
    own, tool = user_root(account, "ua", "aa"), agent_root(account, "ua", "aa")
    return {
        f"{own}/profile.md",
        *(f"{own}/memories/events/{u}-{a}.md" for u, a in users),
        *(f"{tool}/memories/cases/{u}-{a}.md" for u, a in agents),
        *(f"viking://resources/{u}-{a}.md" for u, a in itertools.product(USERS, AGENTS)),
    }


@pytest.fixture(params=TOPOLOGIES)
def me(request: pytest.FixtureRequest, http: httpx.Client) -> As:
    return As(http, request.param, "ua", "aa")


def test_the_tree_and_the_search_show_exactly_the_own_scopes(me: As) -> None:
    # Messages of sessions are files too, and never in an index.
    listed = {uri for uri in me.files() if not uri.startswith("viking://session/")}
    assert listed == expected(str(me.account))
    assert me.found() == expected(str(me.account))
    assert me.found("by ub ab", score_threshold=0.5) <= expected(str(me.account))


def test_everything_that_is_found_can_be_listed_and_read(me: As) -> None:
    for uri in me.found(level=None):
        text = me.text(uri)
        parent = uri.rsplit("/", 1)[0]
        if not uri.endswith((".overview.md", ".abstract.md")):
            assert uri.rsplit("/", 1)[1] in me.names(parent)
            stat = me.result("GET", "/fs/stat", params={"uri": uri})
            assert (stat["isDir"], stat["size"]) == (False, len(text.encode()))


def test_notes_of_directories_name_only_what_is_seen(me: As) -> None:
    seen = {uri.rsplit("/", 1)[1] for uri in expected(str(me.account))}
    for uri in me.found(level=[0, 1]):
        named = {line[2:] for line in me.text(uri).splitlines() if line.startswith("- ")}
        assert {name for name in named if "-" in name} <= seen


@pytest.mark.parametrize("role", [None, "admin"])
def test_foreign_scopes_are_refused_to_every_role(me: As, role: str | None) -> None:
    caller = As(me.http, me.account, me.user, me.agent, role=role)
    account = str(me.account)
    for user, agent in itertools.product(USERS, AGENTS):
        roots = {user_root(account, user, agent), agent_root(account, user, agent)}
        foreign = roots - {user_root(account, "ua", "aa"), agent_root(account, "ua", "aa")}
        for root in foreign:
            uri = f"{root}/memories"
            for path in ("/fs/ls", "/fs/tree", "/fs/stat", "/content/read", "/content/abstract"):
                assert caller.status(path, uri) == 403
            assert caller.find(target_uri=uri).status_code == 403
            assert caller.find(target_uri=["viking://user/memories", uri]).status_code == 403
            assert caller.write(f"{uri}/events/x.md", "x").status_code == 403
            gone = caller.ask("DELETE", "/fs", params={"uri": uri, "recursive": True})
            assert gone.status_code == 403


def test_accounts_share_nothing(http: httpx.Client) -> None:
    for account in TOPOLOGIES:
        here, there = As(http, account, "ua", "aa"), As(http, f"{account}2", "ua", "aa")
        here.put("viking://resources/here.md", f"only in {account}")
        here.put("viking://user/memories/events/here.md", f"only in {account}")
        assert there.found(f"only in {account}", score_threshold=0.5) == set()
        assert not any("here" in uri for uri in there.files() | there.found(level=None))
        assert there.status("/content/read", "viking://resources/here.md") == 404
        for uri in here.found(f"only in {account}", score_threshold=0.5):
            if uri.endswith("/here.md"):
                here.result("DELETE", "/fs", params={"uri": uri})


def test_users_that_differ_in_case_share_nothing(me: As) -> None:
    for user, agent in (("UA", "aa"), ("ua", "AA"), ("Ua", "aA")):
        other = As(me.http, me.account, user, agent)
        shared = me.found() & other.found()
        allowed = {uri for uri in shared if uri.startswith("viking://resources/")}
        if user == "ua" and not TOPOLOGIES[str(me.account)][0]:
            allowed |= {uri for uri in shared if uri.startswith("viking://user/ua/")}
        if agent == "aa" and not TOPOLOGIES[str(me.account)][1]:
            allowed |= {uri for uri in shared if uri.startswith("viking://agent/aa/")}
        assert shared == allowed


@pytest.mark.parametrize(
    "dirty",
    [
        {"owner_user": "ub", "owner_agent": "ab"},
        {"owner_user": None, "owner_agent": None},
        {"account": "acme-moved"},
        {"path": "/local/{account}/user/ub/memories/events/dirty.md"},
        {"path": "/local/{account}/elsewhere/dirty.md"},
    ],
    ids=["other owners", "no owners", "other account", "other path", "no area"],
)
def test_a_spoiled_index_entry_is_neither_found_nor_listed_nor_read(
    me: As, folder: Path, dirty: dict[str, str | None]
) -> None:
    uri = me.put("viking://user/memories/events/dirty.md", "spoiled zebra")
    assert me.found("zebra", score_threshold=0.5) == {uri}
    changes = {
        name: value.format(account=me.account) if isinstance(value, str) else value
        for name, value in dirty.items()
    }
    with sqlite3.connect(folder / "embedded.sqlite3") as db:
        row = db.execute(
            "SELECT id FROM files WHERE account = ? AND path LIKE '%/dirty.md'", (me.account,)
        ).fetchone()
        for name, value in changes.items():
            db.execute(f"UPDATE files SET {name} = ? WHERE id = ?", (value, row[0]))
    db.close()
    assert me.found("zebra", score_threshold=0.5) == set()
    assert uri not in me.found(level=None) | me.files()
    assert me.status("/content/read", uri) == 404
    assert me.status("/fs/stat", uri) == 404
    assert "dirty.md" not in me.names("viking://user/memories/events")
    with sqlite3.connect(folder / "embedded.sqlite3") as db:
        db.execute("DELETE FROM files WHERE id = ?", (row[0],))
    db.close()


def test_a_deleted_user_leaves_its_sessions_but_no_memory(http: httpx.Client) -> None:
    for account in TOPOLOGIES:
        gone, stays = As(http, account, "leaver", "aa"), As(http, account, "stayer", "aa")
        gone.put("viking://user/memories/events/secret.md", "secret of leaver")
        gone.put("viking://agent/memories/cases/lesson.md", "lesson of leaver")
        stays.put("viking://user/memories/events/own.md", "own of stayer")
        gone.say("left-behind", {"role": "user", "content": "bye"})
        As(http).result("DELETE", f"/admin/accounts/{account}/users/leaver")
        while gone.ask("GET", "/sessions").status_code == 412:
            pass
        assert gone.found("secret", score_threshold=0.5) == set()
        bound_to_user = TOPOLOGIES[account][1]
        lesson = gone.found("lesson", score_threshold=0.5)
        assert bool(lesson) != bound_to_user
        assert stays.found("own of stayer", score_threshold=0.6) != set()
        assert stays.result("GET", "/sessions/left-behind")["message_count"] == 1
        if lesson:
            gone.ask("DELETE", "/fs", params={"uri": lesson.pop()})
