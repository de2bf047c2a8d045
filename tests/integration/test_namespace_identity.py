"""On whose behalf a request is served, by auth mode and role; what the real role still rules."""

from collections.abc import Iterator

import httpx
import pytest

from resilient_ov.settings.server import AuthMode
from tests.integration.namespace_world import TOPOLOGIES, As, make_accounts, running, user_root


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("keys"), AuthMode.API_KEY) as client:
        yield client


@pytest.fixture(scope="module")
def keys(http: httpx.Client) -> dict[str, str]:
    """A user key for each `account/user`; `boss` is the admin of its account."""
    root = As(http)
    found = {f"{name}/boss": made["user_key"] for name, made in make_accounts(http).items()}
    for account in TOPOLOGIES:
        for user in ("alice", "bob"):
            made = root.result("POST", f"/admin/accounts/{account}/users", json={"user_id": user})
            found[f"{account}/{user}"] = made["user_key"]
    return found


def whoami(me: As) -> tuple[str, str, str, str] | int:
    answer = me.http.get("/health", headers=me.headers)
    if answer.status_code != 200:
        return answer.status_code
    told = answer.json()
    return told["account_id"], told["user_id"], told["agent_id"], told["role"]


# real caller, sent account, user and agent -> effective identity and real role, or the refusal
TABLE = [
    ("root", None, None, None, ("default", "default", "default", "root")),
    ("root", "acme-tt", "alice", "aa", ("acme-tt", "alice", "aa", "root")),
    ("root", "acme-ff", "bob", None, ("acme-ff", "bob", "default", "root")),
    ("acme-tt/boss", None, None, None, ("acme-tt", "boss", "default", "admin")),
    ("acme-tt/boss", None, "alice", "aa", ("acme-tt", "alice", "aa", "admin")),
    ("acme-tt/boss", "acme-tt", "alice", None, ("acme-tt", "alice", "default", "admin")),
    ("acme-tt/boss", "acme-ff", None, None, 403),
    ("acme-tt/boss", "acme-ff", "alice", None, 403),
    ("acme-tt/boss", "acme-t", None, None, 403),
    ("acme-tt/alice", None, None, None, ("acme-tt", "alice", "default", "user")),
    ("acme-tt/alice", None, None, "aa", ("acme-tt", "alice", "aa", "user")),
    ("acme-tt/alice", "acme-tt", "alice", "aa", ("acme-tt", "alice", "aa", "user")),
    ("acme-tt/alice", None, "bob", None, 403),
    ("acme-tt/alice", None, "Alice", None, 403),
    ("acme-tt/alice", None, "alice2", None, 403),
    ("acme-tt/alice", "acme-ff", None, None, 403),
    ("acme-tt/alice", "acme-ff", "alice", None, 403),
]


@pytest.mark.parametrize(("real", "account", "user", "agent", "effective"), TABLE)
def test_keys_and_headers_make_an_identity(
    http: httpx.Client,
    keys: dict[str, str],
    real: str,
    account: str | None,
    user: str | None,
    agent: str | None,
    effective: object,
) -> None:
    key = {} if real == "root" else {"key": keys[real]}
    me = As(http, account, user, agent, **key)
    assert whoami(me) == effective
    answer = me.ask("GET", "/system/status")
    if isinstance(effective, tuple):
        assert answer.json()["result"]["user"] == effective[1]
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-OpenViking-Agent", "a%"),
        ("X-OpenViking-Agent", "a/b"),
        ("X-OpenViking-Agent", "skills"),
        ("X-OpenViking-Agent", "x" * 256),
        ("X-OpenViking-User", "a%"),
        ("X-OpenViking-User", "memories"),
        ("X-OpenViking-Account", "_system"),
    ],
)
def test_ids_that_no_address_holds_are_refused(
    http: httpx.Client, keys: dict[str, str], header: str, value: str
) -> None:
    admin = As(http, more={header: value}, key=keys["acme-tt/boss"])
    root = As(http, more={header: value})
    for me in (admin, root):
        assert me.ask("GET", "/sessions").status_code == 400


@pytest.mark.parametrize("user", ["memories", "profile.md", "skills", "instructions"])
def test_parts_of_a_scope_are_no_users(http: httpx.Client, keys: dict[str, str], user: str) -> None:
    root = As(http)
    made = root.ask("POST", "/admin/accounts/acme-tt/users", json={"user_id": user})
    assert made.status_code == 400
    body = {"account_id": f"of-{user}", "admin_user_id": user}
    assert root.ask("POST", "/admin/accounts", json=body).status_code == 400


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_data_follows_the_effective_identity(
    http: httpx.Client, keys: dict[str, str], account: str
) -> None:
    alice = As(http, agent="aa", key=keys[f"{account}/alice"])
    uri = alice.put("viking://user/memories/events/a.md", "seen by alice")
    assert uri == f"{user_root(account, 'alice', 'aa')}/memories/events/a.md"
    as_alice = [
        As(http, None, "alice", "aa", key=keys[f"{account}/boss"]),
        As(http, account, "alice", "aa"),
    ]
    for me in as_alice:
        assert me.text(uri) == "seen by alice"
        assert uri in me.found()
    not_alice = [
        As(http, None, "bob", "aa", key=keys[f"{account}/boss"]),
        As(http, None, None, "aa", key=keys[f"{account}/boss"]),
        As(http, None, None, "aa", key=keys[f"{account}/bob"]),
        As(http, account, "bob", "aa"),
        As(http, None, None, "aa"),
    ]
    for me in not_alice:
        assert me.status("/content/read", uri) in {400, 403}
        assert uri not in me.found()


def test_the_real_role_rules_administration_and_deletion(
    http: httpx.Client, keys: dict[str, str]
) -> None:
    alice = As(http, key=keys["acme-tt/alice"])
    for session in ("by-admin", "by-root"):
        alice.say(session, {"role": "user", "content": "hello"})
    assert alice.ask("DELETE", "/sessions/by-admin").status_code == 403
    admin_as_alice = As(http, None, "alice", key=keys["acme-tt/boss"])
    assert admin_as_alice.ask("DELETE", "/sessions/by-admin").status_code == 200
    root_as_alice = As(http, "acme-tt", "alice")
    assert root_as_alice.ask("DELETE", "/sessions/by-root").status_code == 200
    path = "/admin/accounts/acme-tt/users"
    assert [me.ask("GET", path).status_code for me in (alice, admin_as_alice, root_as_alice)] == [
        403,
        200,
        200,
    ]
    other = As(http, None, "alice", key=keys["acme-tt/boss"])
    assert other.ask("GET", "/admin/accounts/acme-ff/users").status_code == 403
    assert admin_as_alice.ask("PATCH", "/admin/accounts/acme-tt", json={}).status_code == 403


def test_messages_are_filled_from_the_effective_identity(
    http: httpx.Client, keys: dict[str, str]
) -> None:
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    As(http, None, "alice", "aa", key=keys["acme-ff/boss"]).say("filled", *said)
    As(http, "acme-ff", "bob", "ab").say("filled", *said)
    As(http, agent="ac", key=keys["acme-ff/alice"]).say("filled", *said)
    told = As(http, key=keys["acme-ff/bob"]).result("GET", "/sessions/filled")
    assert told["created_by_user_id"] == "alice"
    assert told["participant_user_ids"] == ["alice", "bob"]
    assert told["participant_agent_ids"] == ["aa", "ab", "ac"]


def test_accounts_and_users_that_do_not_exist_have_no_data(
    http: httpx.Client, keys: dict[str, str]
) -> None:
    assert As(http, "nowhere", "alice").ask("GET", "/sessions").status_code == 404
    assert As(http, "acme-ff", "nobody").ask("GET", "/sessions").status_code == 404
    unknown = As(http, None, "nobody", key=keys["acme-ff/boss"])
    assert unknown.find().status_code == 404


def test_a_peers_view_is_not_of_this_profile(http: httpx.Client, keys: dict[str, str]) -> None:
    me = As(http, key=keys["acme-ff/alice"], more={"X-OpenViking-Actor-Peer": "bob"})
    me.say("peerless", {"role": "user", "content": "I like kites.", "peer_id": "bob"})
    me.commit("peerless")
    found = me.found("kites", score_threshold=0.55)
    assert found == {"viking://user/alice/memories/preferences/user/likes_kites.md"}


def test_trusted_headers_are_the_caller(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("trusted")) as http:
        make_accounts(http)
        assert whoami(As(http, "acme-tt", "alice", "aa")) == ("acme-tt", "alice", "aa", "user")
        admin = As(http, "acme-tt", "alice", role="admin")
        assert whoami(admin) == ("acme-tt", "alice", "default", "admin")
        As(http, "acme-tt", "alice", "aa").put("viking://user/memories/events/t.md", "trusted")
        assert As(http, "acme-tt", "bob", "aa").found("trusted", score_threshold=0.5) == set()
        for half in (As(http, "acme-tt"), As(http, None, "alice")):
            assert half.ask("GET", "/sessions").status_code == 400
        assert As(http, "acme-tt", "alice", key="wrong").ask("GET", "/sessions").status_code == 401


def test_without_keys_headers_choose_and_everybody_is_root(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(tmp_path_factory.mktemp("dev"), AuthMode.DEV) as http:
        me = As(http, "a", "u", "x")
        assert me.put("viking://user/memories/events/t.md", "dev") == (
            "viking://user/u/memories/events/t.md"
        )
        assert As(http).found("dev", score_threshold=0.5) == set()
        me.say("s", {"role": "user", "content": "hello"})
        assert me.ask("DELETE", "/sessions/s").status_code == 200
