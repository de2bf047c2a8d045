"""The manager on profile namespace: what agents share is what the account's policy says."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from resilient_ov.domain.identity import namespace_user, openviking_user, scope, session_id
from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov.settings.server import AuthMode, ServerProfile
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_manager.contract import MemoryManagerError
from tests.integration.namespace_world import (
    ROOT_KEY,
    TOPOLOGIES,
    As,
    agent_root,
    make_accounts,
    running,
    user_root,
)

Make = Callable[..., OpenVikingMemoryManager]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("client")) as client:
        make_accounts(client)
        yield client


@pytest.fixture(params=TOPOLOGIES)
def account(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Managers on one storage folder, closed at the end."""
    monkeypatch.setenv("NAMESPACE_TEST_KEY", ROOT_KEY)
    made: list[OpenVikingMemoryManager] = []

    def one(http: httpx.Client, account: str, **more: Any) -> OpenVikingMemoryManager:
        by_agent, by_user = TOPOLOGIES.get(account, (False, False))
        raw: dict[str, Any] = {
            "base_url": str(http.base_url),
            "account": account,
            "api_key_env": "NAMESPACE_TEST_KEY",
            "storage_path": str(tmp_path / "storage"),
            "server_profile": "namespace",
            "namespace": {
                "isolate_user_scope_by_agent": by_agent,
                "isolate_agent_scope_by_user": by_user,
            },
            "budgets": {"add_seconds": 10, "search_seconds": 10, "get_context_seconds": 10},
        }
        raw["namespace"] |= more.pop("namespace", {})
        made.append(OpenVikingMemoryManager.from_config(raw | more))
        return made[-1]

    yield one
    for manager in made:
        manager.close()


def human(text: str, key: str) -> Any:
    return SimpleNamespace(type="human", content=text, id=key, additional_kwargs={}, tool_calls=[])


def ai(text: str, key: str) -> Any:
    return SimpleNamespace(type="ai", content=text, id=key, additional_kwargs={}, tool_calls=[])


def turn(text: str) -> list[Any]:
    return [human(text, "h1"), ai("Noted.", "a1")]


def remembered(
    manager: OpenVikingMemoryManager, query: str, user: str, agent: str | None = None
) -> list[dict[str, Any]]:
    end_s = time.monotonic() + 15
    while time.monotonic() < end_s:
        hits = manager.search(query, user_id=user, agent_name=agent)
        if hits:
            return hits
        time.sleep(0.05)
    raise AssertionError("nothing was remembered")


def test_a_turn_is_remembered_as_far_as_the_policy_shares(
    http: httpx.Client, account: str, make: Make
) -> None:
    manager = make(http, account)
    assert manager.warm() is True
    manager.add("t1", turn("I prefer orange paper."), user_id="alice", agent_name="researcher")
    (hit,) = remembered(manager, "orange paper", "alice", "researcher")
    assert hit["source"] == "viking://user/memories/preferences/user/prefers_orange_paper.md"
    assert hit["category"] == "preferences"
    assert "orange paper" in manager.get_context("alice", agent_name="researcher")
    shared = not TOPOLOGIES[account][0]
    for agent in (None, "coder"):
        assert bool(manager.search("orange paper", user_id="alice", agent_name=agent)) is shared
    for agent in (None, "researcher"):
        assert manager.search("orange paper", user_id="bob", agent_name=agent) == []
        assert manager.get_context("bob", agent_name=agent) == ""


def test_the_wire_carries_user_agent_and_role_ids(
    http: httpx.Client, account: str, make: Make
) -> None:
    make(http, account).add("t2", turn("I live in Oslo."), user_id="alice", agent_name="Researcher")
    user = namespace_user(account, "alice")
    session = session_id(scope(account, "alice", "researcher"), "t2")
    told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
    assert told["created_by_user_id"] == user
    assert told["participant_user_ids"] == [user]
    assert told["participant_agent_ids"] == ["researcher"]
    assert told["total_message_count"] == 2


def test_without_an_agent_the_default_scope_is_sent(
    http: httpx.Client, account: str, make: Make
) -> None:
    make(http, account).add("t3", turn("I live in Bergen."), user_id="alice")
    session = session_id(scope(account, "alice", None), "t3")
    told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
    assert told["participant_agent_ids"] == ["__default__"]


def test_the_profile_is_recalled_and_categories_are_asked_for(
    http: httpx.Client, account: str, make: Make
) -> None:
    manager = make(http, account)
    said = "My name is Zora. I prefer violet paper."
    manager.add("t4", turn(said), user_id="zora")
    remembered(manager, "violet paper", "zora")
    (profile,) = manager.search("what is my name", user_id="zora", category="profile")
    assert (profile["content"], profile["source"]) == (
        "User's name is Zora.",
        "viking://user/profile.md",
    )
    (paper,) = manager.search("violet paper", user_id="zora", category="preferences")
    assert paper["category"] == "preferences"
    assert manager.search("violet paper", user_id="zora", category="events") == []


def test_agent_memories_are_read_when_wanted(http: httpx.Client, account: str, make: Make) -> None:
    user = namespace_user(account, "carol")
    As(http, account, user, "helper").put("viking://agent/memories/cases/c.md", "ochre valve case")
    without, reading = (
        make(http, account),
        make(http, account, namespace={"search_agent_scope": True}),
    )
    asked = {"user_id": "carol", "agent_name": "helper"}
    assert without.search("ochre valve", **asked) == []
    (hit,) = reading.search("ochre valve", **asked)
    assert (hit["source"], hit["category"]) == ("viking://agent/memories/cases/c.md", "cases")
    assert reading.search("ochre valve", user_id="carol", agent_name="other") == []
    by_user = TOPOLOGIES[account][1]
    assert bool(reading.search("ochre valve", user_id="dave", agent_name="helper")) != by_user


def test_a_second_life_sends_nothing_again(http: httpx.Client, account: str, make: Make) -> None:
    said = [*turn("I prefer grey paper."), human("And thin pens.", "h2"), ai("Noted.", "a2")]
    make(http, account).add("t5", said[:2], user_id="erin")
    second = make(http, account)
    second.add("t5", said, user_id="erin")
    second.add("t5", said, user_id="erin")
    session = session_id(scope(account, "erin", None), "t5")
    told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
    assert (told["total_message_count"], told["message_count"]) == (4, 0)


def test_a_lost_state_is_rebuilt_from_the_shared_session(
    http: httpx.Client, account: str, make: Make, tmp_path: Path
) -> None:
    said = turn("I prefer white paper.")
    first = make(http, account)
    first.add("t6", said, user_id="fay")
    first.close()
    second = make(http, account, storage_path=str(tmp_path / "fresh"))
    second.add("t6", [*said, human("Thick white paper.", "h2")], user_id="fay")
    session = session_id(scope(account, "fay", None), "t6")
    told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
    assert told["total_message_count"] == 3


def test_a_server_that_lies_is_not_believed(account: str, make: Make) -> None:
    """Hits of another user, another agent and another shape, and what was asked for."""
    own, other = namespace_user(account, "gil"), namespace_user(account, "hal")
    roots = [
        (user_root(account, own, "helper"), "own"),
        (user_root(account, other, "helper"), "another user's"),
        (user_root(account, f"{own}0", "helper"), "a longer user's"),
        (agent_root(account, own, "helper"), "the agent's"),
        (agent_root(account, own, "helper2"), "another agent's"),
        (user_root(account, own, "helper2"), "with another agent"),
        ("viking://resources", "a resource"),
        (f"viking://user/{own}/agent/helper/user", "misshapen"),
    ]
    hits = [
        {"uri": f"{root}/memories/x.md", "abstract": text, "score": 0.9, "level": 2}
        for root, text in roots
    ]
    reply = {"status": "ok", "result": {"memories": hits, "resources": [], "skills": []}}
    with ScriptedServer(key=ROOT_KEY) as server:
        server.script(Rule(on="find", do="ok", json=reply))
        place = SimpleNamespace(base_url=server.url)
        alone = make(place, account)
        shown = {hit["content"] for hit in alone.search("x", user_id="gil", agent_name="helper")}
        assert shown == {"own"}
        both = make(place, account, namespace={"search_agent_scope": True})
        shown = {hit["content"] for hit in both.search("x", user_id="gil", agent_name="helper")}
        assert shown == {"own", "the agent's"}
        seen = server.requests_to("find")[-1]
        assert seen.request.headers["x-openviking-user"] == own
        assert seen.request.headers["x-openviking-agent"] == "helper"
        assert seen.body["target_uri"] == [
            f"{user_root(account, own, 'helper')}/memories",
            f"{user_root(account, own, 'helper')}/profile.md",
            f"{agent_root(account, own, 'helper')}/memories",
        ]


@pytest.mark.parametrize("agent", ["memories", "skills", "Instructions"])
def test_an_agent_named_like_a_part_of_a_scope_is_refused_by_us(
    http: httpx.Client, make: Make, agent: str
) -> None:
    manager = make(http, "acme-tt", failure_policy={"read": "fail_fast"})
    with pytest.raises(MemoryManagerError, match="rename the agent"):
        manager.search("x", user_id="alice", agent_name=agent)


def test_a_policy_that_differs_from_the_servers_finds_nothing_instead_of_the_wrong_thing(
    http: httpx.Client, make: Make
) -> None:
    told_wrong = {"isolate_user_scope_by_agent": False}
    manager = make(http, "acme-tf", namespace=told_wrong, failure_policy={"read": "fail_fast"})
    with pytest.raises(MemoryManagerError):
        manager.search("anything", user_id="alice")
    with pytest.raises(MemoryManagerError):
        manager.warm()


def test_with_a_key_of_one_user_the_server_names_it(tmp_path: Path, make: Make) -> None:
    with running(tmp_path / "keys", AuthMode.API_KEY) as http:
        root = As(http)
        made = make_accounts(http)
        path = "/admin/accounts/acme-tt/users"
        key = root.result("POST", path, json={"user_id": "someone"})["user_key"]
        assert made
        key_file = tmp_path / "key"
        key_file.write_text(key)
        manager = make(
            http,
            "acme-tt",
            auth_mode="api_key",
            owner_user_id="alice",
            api_key_env="OPENVIKING_API_KEY",
            api_key_file=str(key_file),
            api_key_shared_agents=True,
        )
        assert manager.warm() is True
        manager.add("t8", turn("I prefer black paper."), user_id="alice", agent_name="ink")
        (hit,) = remembered(manager, "black paper", "alice", "ink")
        assert hit["source"].startswith("viking://user/memories/")
        session = session_id(scope("acme-tt", "alice", "ink"), "t8")
        told = As(http, key=key).result("GET", f"/sessions/{session}")
        assert told["participant_user_ids"] == ["someone"]
        assert told["participant_agent_ids"] == ["ink"]
        assert manager.search("black paper", user_id="alice", agent_name="other") == []


def test_what_a_dead_process_left_is_swept_with_its_agent(
    http: httpx.Client, account: str, make: Make
) -> None:
    first = make(http, account, session={"commit_min_messages": 100})
    first.add("t9", turn("I prefer pink paper."), user_id="ida", agent_name="sweeper")
    session = session_id(scope(account, "ida", "sweeper"), "t9")
    told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
    assert (told["message_count"], told["commit_count"]) == (2, 0)
    first.close()
    second = make(http, account, session={"settle_seconds": 0.5})
    backend = second._process.backend()
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s:
        for job in backend.sweeper.jobs(time.monotonic() + 3600):
            backend.sync.run(job)
        told = As(http, account, "anyone").result("GET", f"/sessions/{session}")
        if told["commit_count"]:
            break
        time.sleep(0.1)
    assert (told["message_count"], told["commit_count"]) == (0, 1)
    (hit,) = remembered(second, "pink paper", "ida", "sweeper")
    assert "pink paper" in hit["content"]


def test_a_state_of_the_other_profile_is_compared_anew(
    http: httpx.Client, make: Make, tmp_path: Path
) -> None:
    """The thread was stored on profile 0.5; on the same address a namespace server answers now."""
    said = turn("I prefer golden paper.")
    settings = EmbeddedSettings(data_dir=tmp_path / "old", root_key=ROOT_KEY)
    with EmbeddedServer(settings) as old:
        port = int(old.url.rsplit(":", 1)[1])
        first = make(SimpleNamespace(base_url=old.url), "acme-ff", server_profile="0.5")
        first.add("t10", said, user_id="jo")
        owner = scope("acme-ff", "jo", None)
        session = session_id(owner, "t10")
        stored = httpx.get(
            f"{old.url}/api/v1/sessions/{session}",
            headers=As(http, "acme-ff", openviking_user(owner)).headers,
        )
        assert stored.json()["result"]["total_message_count"] == 2
        first.close()
    new = EmbeddedSettings(
        data_dir=tmp_path / "new", root_key=ROOT_KEY, profile=ServerProfile.NAMESPACE
    )
    with EmbeddedServer(new, port=port) as server:
        second = make(SimpleNamespace(base_url=server.url), "acme-ff")
        second.add("t10", [*said, human("And golden pens.", "h2")], user_id="jo")
        with httpx.Client(base_url=server.url) as direct:
            told = As(direct, "acme-ff", "anyone").result("GET", f"/sessions/{session}")
        # What was stored once is not sent again, wherever it went.
        assert (told["total_message_count"], told["commit_count"]) == (1, 1)
        assert told["created_by_user_id"] == namespace_user("acme-ff", "jo")
