"""Sessions of an account: shared, with named speakers, deleted by admins only."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.namespace_world import TOPOLOGIES, As, make_accounts, running, user_root


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("sessions")) as client:
        make_accounts(client)
        yield client


@pytest.fixture(params=TOPOLOGIES)
def account(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def alice(http: httpx.Client, account: str) -> As:
    return As(http, account, "alice", "aa")


@pytest.fixture
def bob(http: httpx.Client, account: str) -> As:
    return As(http, account, "bob", "ab")


def user(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": text} | fields


def assistant(text: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | fields


def meta(me: As, session: str) -> Any:
    return json.loads(me.text(f"viking://session/{session}/.meta.json"))


def live(me: As, session: str) -> list[dict[str, Any]]:
    text = me.text(f"viking://session/{session}/messages.jsonl")
    return [json.loads(line) for line in text.splitlines()]


def test_a_session_is_the_accounts_and_lies_at_its_own_root(alice: As, bob: As) -> None:
    made = alice.result("POST", "/sessions", json={"session_id": "shared"})
    assert made["uri"] == "viking://session/shared"
    assert bob.result("GET", "/sessions/shared")["uri"] == "viking://session/shared"
    assert bob.ask("POST", "/sessions", json={"session_id": "shared"}).status_code == 409
    for me in (alice, bob):
        listed = {entry["session_id"]: entry["uri"] for entry in me.result("GET", "/sessions")}
        assert listed["shared"] == "viking://session/shared"
        assert "shared" in me.names("viking://session")
        assert set(me.names("viking://session/shared")) == {
            "history",
            "tools",
            "messages.jsonl",
            ".meta.json",
        }


def test_others_continue_and_commit_a_session(alice: As, bob: As) -> None:
    alice.say("together", user("I prefer green ink."))
    answer = bob.say("together", assistant("noted", role_id="aa"))
    assert answer.json()["result"]["message_count"] == 2
    task = bob.commit("together")
    assert task["status"] == "completed"
    assert task["result"]["archive_uri"] == "viking://session/together/history/archive_001"
    archive = "/sessions/together/archives/archive_001"
    assert len(alice.result("GET", archive)["messages"]) == 2
    # It becomes the memory of who spoke, not of who committed.
    own = f"{user_root(str(alice.account), 'alice', 'aa')}/memories/preferences/user/"
    found = alice.found("green ink", score_threshold=0.55)
    assert found == {f"{own}prefers_green_ink.md"}
    assert bob.found("green ink", score_threshold=0.55) == set()


def test_sessions_of_accounts_are_apart(http: httpx.Client, alice: As) -> None:
    alice.say("only-here", user())
    other = As(http, f"{alice.account}-2", "alice", "aa")
    assert other.ask("GET", "/sessions/only-here").status_code == 404
    assert other.status("/content/read", "viking://session/only-here/messages.jsonl") == 404
    assert "only-here" not in other.names("viking://session")
    assert other.say("only-here", user()).json()["result"]["message_count"] == 1
    assert alice.result("GET", "/sessions/only-here")["total_message_count"] == 1


def test_who_made_a_session_stays_whoever_speaks_in_it(alice: As, bob: As) -> None:
    bob.result("GET", "/sessions/made-by-bob?auto_create=true")
    alice.say("made-by-bob", user(role_id="carol"), assistant())
    for told in (alice.result("GET", "/sessions/made-by-bob"), meta(alice, "made-by-bob")):
        assert told["created_by_user_id"] == "bob"
        assert told["participant_user_ids"] == ["carol"]
        assert told["participant_agent_ids"] == ["aa"]
    alice.say("made-by-message", user())
    assert meta(bob, "made-by-message")["created_by_user_id"] == "alice"


def test_role_ids_are_kept_as_sent_or_filled_and_participants_gather(alice: As, bob: As) -> None:
    alice.result("POST", "/sessions", json={"session_id": "roles"})
    assert meta(alice, "roles")["participant_user_ids"] == []
    alice.say("roles", user(), assistant(), user(role_id="carol"), {"role": "tool", "content": "x"})
    single = alice.ask("POST", "/sessions/roles/messages", json=assistant(role_id="any text/%_"))
    assert single.status_code == 200
    bob.say("roles", user(), assistant(), user(role_id="alice"))
    said = [(message["role"], message.get("role_id")) for message in live(bob, "roles")]
    assert said == [
        ("user", "alice"),
        ("assistant", "aa"),
        ("user", "carol"),
        ("tool", None),
        ("assistant", "any text/%_"),
        ("user", "bob"),
        ("assistant", "ab"),
        ("user", "alice"),
    ]
    told = alice.result("GET", "/sessions/roles")
    assert told["participant_user_ids"] == ["alice", "carol", "bob"]
    assert told["participant_agent_ids"] == ["aa", "any text/%_", "ab"]
    in_context = alice.result("GET", "/sessions/roles/context")["messages"]
    assert [message.get("role_id") for message in in_context] == [each[1] for each in said]


@pytest.mark.parametrize("role_id", ["", "x" * 256, None, 7, ["alice"], {"id": "alice"}])
def test_other_role_ids_are_refused_and_nothing_is_stored(alice: As, role_id: object) -> None:
    alice.result("GET", "/sessions/refused?auto_create=true")
    before = alice.result("GET", "/sessions/refused")["total_message_count"]
    for body in (user(role_id=role_id), assistant(role_id=role_id)):
        single = alice.ask("POST", "/sessions/refused/messages", json=body)
        assert (single.status_code, "role_id" in single.text) == (400, True)
        assert alice.say("refused", user(), body).status_code == 400
    assert alice.result("GET", "/sessions/refused")["total_message_count"] == before
    assert alice.say("refused", user(role_id="x" * 255)).status_code == 200


def test_an_agent_that_is_not_named_is_the_default_one(http: httpx.Client, account: str) -> None:
    nameless = As(http, account, "dora")
    nameless.say("nameless", user(), assistant())
    assert [message["role_id"] for message in live(nameless, "nameless")] == ["dora", "default"]


def test_deleting_is_for_admins(http: httpx.Client, account: str, alice: As) -> None:
    alice.say("doomed", user())
    refused = alice.ask("DELETE", "/sessions/doomed")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert alice.result("GET", "/sessions/doomed")["message_count"] == 1
    admin = As(http, account, "boss", role="admin")
    assert admin.ask("DELETE", "/sessions/doomed").status_code == 200
    assert alice.ask("GET", "/sessions/doomed").status_code == 404
    assert admin.ask("DELETE", "/sessions/doomed").status_code == 404


@pytest.mark.parametrize(
    "second",
    [user("I like boats.", role_id="bob"), assistant(role_id="ab")],
    ids=["two users", "two agents"],
)
def test_a_mixed_session_is_not_committed_and_stays_live(alice: As, second: Any) -> None:
    session = f"mixed-{second['role']}"
    alice.say(session, user("I like tea."), assistant())
    alice.commit(session)
    alice.say(session, second)
    refused = alice.ask("POST", f"/sessions/{session}/commit", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (501, "UNIMPLEMENTED")
    assert "more than one participant" in refused.json()["error"]["message"]
    told = alice.result("GET", f"/sessions/{session}")
    assert (told["message_count"], told["commit_count"]) == (1, 1)
    assert len(live(alice, session)) == 1
    assert alice.found("boats", score_threshold=0.55) == set()


@pytest.mark.parametrize(
    "field",
    [{"acl": ["alice"]}, {"participant_user_ids": ["alice"]}, {"participant_agent_ids": []}],
    ids=lambda field: next(iter(field)),
)
def test_a_participant_acl_is_refused_not_ignored(alice: As, field: dict[str, Any]) -> None:
    alice.result("GET", "/sessions/open?auto_create=true")
    for answer in (
        alice.ask("POST", "/sessions", json={"session_id": "closed"} | field),
        alice.ask("PATCH", "/sessions/open/config", json=field),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (501, "UNIMPLEMENTED")
        assert "participant ACL" in answer.json()["error"]["message"]
    assert alice.ask("GET", "/sessions/closed").status_code == 404


def test_tool_calls_have_an_address_in_the_session(alice: As, bob: As) -> None:
    tool = {"type": "tool", "tool_id": "t1", "tool_name": "search", "tool_output": "found it"}
    odd = [{"type": "tool", "tool_id": "a/b"}, {"type": "tool"}, {"type": "text", "text": "x"}]
    alice.say("tools", {"role": "assistant", "parts": [tool, *odd]})
    parts = live(alice, "tools")[0]["parts"]
    assert parts[0]["tool_uri"] == "viking://session/tools/tools/t1"
    assert not any("tool_uri" in part for part in parts[1:])
    alice.commit("tools")
    assert bob.names("viking://session/tools/tools") == ["t1"]
    shown = json.loads(bob.text("viking://session/tools/tools/t1"))
    assert (shown["tool_name"], shown["tool_output"]) == ("search", "found it")
    assert bob.status("/content/read", "viking://session/tools/tools/t2") == 404
    size = bob.result("GET", "/fs/stat", params={"uri": "viking://session/tools/tools/t1"})["size"]
    assert size == len(bob.text("viking://session/tools/tools/t1").encode())


@pytest.mark.parametrize("session", ["a/b", "a%b", "..", "a\\b", "a?b"])
def test_an_id_that_no_address_holds_is_refused(alice: As, session: str) -> None:
    refused = alice.ask("POST", "/sessions", json={"session_id": session})
    assert refused.status_code in {400, 403}


def test_a_session_does_not_depend_on_the_older_home_of_its_user(alice: As) -> None:
    alice.say("s-new", user())
    assert alice.status("/content/read", "viking://session/alice/s-new/messages.jsonl") == 404
    assert alice.status("/fs/ls", "viking://~/sessions/s-new") == 400
    assert alice.status("/content/read", "viking://user/alice/sessions/s-new/messages.jsonl") in {
        400,
        404,
    }


def test_sessions_are_searched_without_an_error_and_hold_nothing_to_find(alice: As) -> None:
    alice.say("searched", user("I like violet elephants."))
    for target in ("viking://session", "viking://session/", "viking://session/searched"):
        assert alice.found("violet elephants", target_uri=target, level=None) == set()
    assert alice.found("violet elephants", score_threshold=0.55) == set()


def test_sessions_change_by_messages_only(alice: As) -> None:
    alice.say("written", user())
    for uri in (
        "viking://session/written/messages.jsonl",
        "viking://session/x/y",
        "viking://session",
    ):
        assert alice.write(uri, "x").status_code == 403
        deleted = alice.ask("DELETE", "/fs", params={"uri": uri, "recursive": True})
        assert deleted.status_code == 403


def test_a_session_of_an_agent_alone_becomes_nobodys_memory(alice: As) -> None:
    alice.say("monologue", assistant("I like tea."))
    assert alice.commit("monologue")["result"]["memories_extracted"] == {}


def test_without_an_assistant_the_committing_agent_counts(http: httpx.Client, account: str) -> None:
    me = As(http, account, "erin", "ae")
    me.say("no-agent", user("I prefer red ink."))
    assert me.commit("no-agent")["status"] == "completed"
    assert len(me.found("red ink", score_threshold=0.55)) == 1
    divided = TOPOLOGIES[account][0]
    assert bool(As(http, account, "erin", "af").found("red ink", score_threshold=0.55)) != divided


@pytest.mark.parametrize("role_id", ["memories", "a/b", "a%b"])
def test_a_speaker_that_no_scope_can_have_fails_the_extraction_only(
    alice: As, role_id: str
) -> None:
    session = f"odd-{role_id.encode().hex()}"
    alice.say(session, user("I like odd names.", role_id=role_id))
    task = alice.commit(session)
    assert (task["status"], "role_id" in task["error"]) == ("failed", True)
    assert alice.found("odd names", score_threshold=0.55) == set()
