"""The four topologies through HTTP: canonical and short addresses, paths, roots and containers."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.namespace_world import TOPOLOGIES, As, make_accounts, running

# Written by hand from the design: for (ua, aa), the roots and where they lie in the store.
MATRIX = {
    "acme-ff": ("viking://user/ua", "viking://agent/aa", "user/ua", "agent/aa"),
    "acme-ft": ("viking://user/ua", "viking://agent/aa/user/ua", "user/ua", "agent/aa/user/ua"),
    "acme-tf": ("viking://user/ua/agent/aa", "viking://agent/aa", "user/ua/agent/aa", "agent/aa"),
    "acme-tt": (
        "viking://user/ua/agent/aa",
        "viking://agent/aa/user/ua",
        "user/ua/agent/aa",
        "agent/aa/user/ua",
    ),
}
CONTAINERS = {
    "acme-ff": [],
    "acme-ft": ["viking://agent/aa", "viking://agent/aa/user"],
    "acme-tf": ["viking://user/ua", "viking://user/ua/agent"],
    "acme-tt": [
        "viking://agent/aa",
        "viking://agent/aa/user",
        "viking://user/ua",
        "viking://user/ua/agent",
    ],
}
COMMON_CONTAINERS = ["viking://", "viking://user", "viking://agent"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[httpx.Client]:
    with running(folder) as client:
        make_accounts(client)
        yield client


@pytest.fixture(params=TOPOLOGIES)
def me(request: pytest.FixtureRequest, http: httpx.Client) -> As:
    return As(http, request.param, "ua", "aa")


@pytest.mark.parametrize(
    ("short", "which", "below"),
    [
        ("viking://user/memories/preferences/a.md", 0, "/memories/preferences/a.md"),
        ("viking://user/memories/entities/深/b.md", 0, "/memories/entities/深/b.md"),
        ("viking://agent/memories/cases/c.md", 1, "/memories/cases/c.md"),
        ("viking://agent/skills/d.md", 1, "/skills/d.md"),
        ("viking://agent/instructions/e.md", 1, "/instructions/e.md"),
    ],
)
def test_short_addresses_are_stored_and_found_as_canonical_ones(
    me: As, folder: Path, short: str, which: int, below: str
) -> None:
    assert me.account is not None
    roots = MATRIX[me.account]
    canonical = f"{roots[which]}{below}"
    assert me.put(short, f"text of {short}") == canonical
    assert me.text(short) == me.text(canonical) == f"text of {short}"
    assert me.result("GET", "/fs/stat", params={"uri": short})["uri"] == canonical
    assert canonical in me.found(target_uri=short) & me.found()
    with sqlite3.connect(folder / "embedded.sqlite3") as db:
        paths = db.execute(
            "SELECT owner_user, owner_agent FROM files WHERE account = ? AND path = ?",
            (me.account, f"/local/{me.account}/{roots[which + 2]}{below}"),
        ).fetchall()
    db.close()
    owners = {
        ("acme-ff", 0): ("ua", None),
        ("acme-ff", 1): (None, "aa"),
        ("acme-ft", 0): ("ua", None),
        ("acme-ft", 1): ("ua", "aa"),
        ("acme-tf", 0): ("ua", "aa"),
        ("acme-tf", 1): (None, "aa"),
        ("acme-tt", 0): ("ua", "aa"),
        ("acme-tt", 1): ("ua", "aa"),
    }
    assert paths == [owners[me.account, which]]


def test_a_trailing_slash_is_a_directory(me: As) -> None:
    assert me.names("viking://user/memories/") == me.names("viking://user/memories")


def test_scope_roots_are_furnished(me: As) -> None:
    assert me.account is not None
    user, agent = MATRIX[me.account][:2]
    assert set(me.names(user)) >= {"memories", "profile.md"}
    assert set(me.names(f"{user}/memories")) >= {"preferences", "entities", "events"}
    assert set(me.names(agent)) >= {"memories", "skills", "instructions"}
    assert set(me.names(f"{agent}/memories")) >= {"cases", "patterns"}
    assert me.text(f"{user}/profile.md") == ""
    for root in (user, agent):
        note = me.result("GET", "/content/abstract", params={"uri": root})
        assert "not ready" not in note
        assert "memories" in me.result("GET", "/content/overview", params={"uri": root})


def test_containers_hold_only_what_leads_to_a_root(me: As) -> None:
    assert me.account is not None
    fresh = As(me.http, me.account, "ux", "ax")
    for uri in [*COMMON_CONTAINERS, *CONTAINERS[me.account]]:
        own = uri.replace("ua", "ux").replace("aa", "ax")
        expected = {
            "viking://": ["agent", "resources", "session", "user"],
            "viking://user": ["ux"],
            "viking://agent": ["ax"],
            "viking://user/ux": ["agent"],
            "viking://agent/ax": ["user"],
            "viking://user/ux/agent": ["ax"],
            "viking://agent/ax/user": ["ux"],
        }
        assert fresh.names(own) == expected[own]
        assert "not ready" in fresh.result("GET", "/content/abstract", params={"uri": own})
        assert fresh.status("/content/read", f"{own.rstrip('/')}/.abstract.md") in {400, 403, 404}
        assert fresh.result("GET", "/fs/stat", params={"uri": own})["isDir"] is True


def test_a_container_is_no_target(me: As) -> None:
    assert me.account is not None
    for uri in [*COMMON_CONTAINERS, *CONTAINERS[me.account]]:
        assert me.find(target_uri=uri).status_code == 400
        assert me.write(uri, "x").status_code == 400
        assert me.ask("DELETE", "/fs", params={"uri": uri, "recursive": True}).status_code == 400
        for path in ("/content/reindex", "/system/consistency"):
            assert me.ask("POST", path, json={"uri": uri}).status_code == 400
    assert me.find(target_uri="viking://user/ua/agent/").status_code == 400
    assert me.find(target_uri="viking://agent/aa/user/").status_code == 400


def test_writing_and_deleting_show_everywhere(me: As) -> None:
    uri = me.put("viking://user/memories/events/walk.md", "we took a walk by the river")
    assert uri in me.found("river walk", score_threshold=0.5)
    assert uri in me.files()
    assert me.put("viking://user/memories/events/walk.md", "we took a swim") == uri
    assert me.found("river walk", score_threshold=0.5) == set()
    assert me.ask("DELETE", "/fs", params={"uri": uri}).status_code == 200
    assert uri not in me.found() | me.files()
    assert me.status("/content/read", uri) == 404
    assert "events" in me.names("viking://user/memories")


def test_content_types_follow_the_area(me: As) -> None:
    memory = me.put("viking://user/memories/events/t.md", "quokka burrow")
    skill = me.put("viking://agent/skills/t.md", "quokka burrow")
    resource = me.put("viking://resources/t.md", "quokka burrow")
    result = me.find("quokka burrow", score_threshold=0.5).json()["result"]
    kinds = {name: {hit["uri"] for hit in result[name]} for name in ("memories", "resources")}
    kinds["skills"] = {hit["uri"] for hit in result["skills"]}
    assert kinds == {"memories": {memory}, "resources": {resource}, "skills": {skill}}
    assert me.found("quokka burrow", context_type="memory", score_threshold=0.5) == {memory}
    assert me.found("quokka burrow", context_type=["skill", "resource"], score_threshold=0.5) == {
        skill,
        resource,
    }


@pytest.mark.parametrize(
    "uri", ["viking://user/memories", "viking://user/memories/events", "viking://user/profile.md/x"]
)
def test_files_and_directories_keep_out_of_each_others_place(me: As, uri: str) -> None:
    assert me.write(uri, "x").status_code == 400
    me.put("viking://user/memories/events/file.md", "x")
    assert me.write("viking://user/memories/events/file.md/below.md", "x").status_code == 400


@pytest.mark.parametrize("name", [".abstract.md", ".overview.md"])
def test_notes_of_directories_are_the_servers(me: As, name: str) -> None:
    assert me.write(f"viking://user/memories/{name}", "x").status_code == 400


def test_a_rebuilt_index_and_the_check_cover_the_own_subtree(me: As) -> None:
    me.put("viking://user/memories/events/indexed.md", "words")
    count = len(me.found(target_uri="viking://user/memories", level=None))
    body = {"uri": "viking://user/memories"}
    assert me.result("POST", "/content/reindex", json=body)["rebuilt_records"] == count
    checked = me.result("POST", "/system/consistency", json=body)
    assert (checked["ok"], checked["expected_count"]) == (True, count)
