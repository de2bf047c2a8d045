"""Policies of accounts: chosen once, kept for ever, the same after a restart."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from resilient_ov.settings.server import AuthMode
from tests.integration.namespace_world import TOPOLOGIES, As, make_accounts, running

SWITCHES = ("isolate_user_scope_by_agent", "isolate_agent_scope_by_user")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policy")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, dict[str, Any]]:
    with running(folder) as http:
        return make_accounts(http)


@pytest.fixture(scope="module")
def http(folder: Path, made: object) -> Iterator[httpx.Client]:
    """The server started again on what an earlier one has kept."""
    with running(folder) as client:
        yield client


def stored(folder: Path, account: str) -> Any:
    with sqlite3.connect(folder / "embedded.sqlite3") as db:
        path = f"/local/{account}/_system/setting.json"
        row = db.execute("SELECT content FROM files WHERE path = ?", (path,)).fetchone()
    db.close()
    return None if row is None else json.loads(row[0])


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_a_policy_is_answered_and_kept_as_the_accounts_setting(
    folder: Path, made: dict[str, dict[str, Any]], account: str
) -> None:
    wanted = dict(zip(SWITCHES, TOPOLOGIES[account], strict=True))
    assert {name: made[account][name] for name in SWITCHES} == wanted
    assert stored(folder, account) == {"namespace": wanted}


def test_accounts_are_listed_with_their_policies_after_a_restart(http: httpx.Client) -> None:
    listed = {
        entry["account_id"]: tuple(entry[name] for name in SWITCHES)
        for entry in As(http).result("GET", "/admin/accounts")
    }
    assert {account: listed[account] for account in TOPOLOGIES} == TOPOLOGIES
    one = As(http).result("GET", "/admin/accounts/acme-tf")
    assert tuple(one[name] for name in SWITCHES) == (True, False)


@pytest.mark.parametrize("account", TOPOLOGIES)
def test_a_loaded_policy_rules(http: httpx.Client, account: str) -> None:
    me = As(http, account, "ua", "aa")
    by_agent, by_user = TOPOLOGIES[account]
    assert me.status("/fs/ls", "viking://user/ua/memories") == (400 if by_agent else 200)
    assert me.status("/fs/ls", "viking://user/ua/agent/aa") == (200 if by_agent else 400)
    assert me.status("/fs/ls", "viking://agent/aa/memories") == (400 if by_user else 200)
    assert me.status("/fs/ls", "viking://agent/aa/user/ua") == (200 if by_user else 400)


@pytest.mark.parametrize(
    "left_out", [SWITCHES, SWITCHES[:1], SWITCHES[1:]], ids=["both", "user", "agent"]
)
def test_what_is_left_out_is_shared(
    http: httpx.Client, folder: Path, left_out: tuple[str, ...]
) -> None:
    account = f"short-{len(left_out)}-{left_out[0]}"
    body = {name: True for name in SWITCHES if name not in left_out}
    As(http).result(
        "POST", "/admin/accounts", json={"account_id": account, "admin_user_id": "boss"} | body
    )
    wanted = {name: name not in left_out for name in SWITCHES}
    assert stored(folder, account) == {"namespace": wanted}


def test_an_account_that_nobody_made_shares(http: httpx.Client, folder: Path) -> None:
    As(http, "unmade", "ua", "aa").result("GET", "/sessions")
    assert stored(folder, "unmade") == {"namespace": dict.fromkeys(SWITCHES, False)}
    again = {"account_id": "unmade", "admin_user_id": "boss", SWITCHES[0]: True}
    assert As(http).ask("POST", "/admin/accounts", json=again).status_code == 409
    assert stored(folder, "unmade") == {"namespace": dict.fromkeys(SWITCHES, False)}


@pytest.mark.parametrize("value", ["true", 1, None, {}])
def test_a_switch_is_true_or_false(http: httpx.Client, value: object) -> None:
    body = {"account_id": "odd", "admin_user_id": "boss", SWITCHES[0]: value}
    refused = As(http).ask("POST", "/admin/accounts", json=body)
    assert refused.status_code == 400
    assert SWITCHES[0] in refused.json()["error"]["message"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_policy_never_changes(http: httpx.Client, folder: Path, method: str) -> None:
    refused = As(http).ask(method, "/admin/accounts/acme-ff", json={SWITCHES[0]: True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (501, "UNIMPLEMENTED")
    assert "policy" in refused.json()["error"]["message"]
    assert stored(folder, "acme-ff") == {"namespace": dict.fromkeys(SWITCHES, False)}
    assert As(http).ask(method, "/admin/accounts/nope", json={}).status_code == 404
    twice = {"account_id": "acme-ff", "admin_user_id": "boss", SWITCHES[0]: True}
    assert As(http).ask("POST", "/admin/accounts", json=twice).status_code == 409


@pytest.mark.parametrize(
    "uri", ["viking://_system/setting.json", "viking://_system", "viking://local/acme-ff/_system"]
)
def test_settings_are_no_file_of_a_caller(http: httpx.Client, uri: str) -> None:
    for me in (As(http, "acme-ff", "ua", "aa"), As(http, "acme-ff", "boss", "aa", role="admin")):
        for path in ("/content/read", "/fs/ls", "/fs/stat", "/fs/tree"):
            assert me.status(path, uri) == 400
        assert me.write(uri, "{}").status_code == 400
        assert me.ask("DELETE", "/fs", params={"uri": uri}).status_code == 400
        assert "_system" not in me.names("viking://")
        assert not any("_system" in found for found in me.found(level=None))


def test_deleting_an_account_deletes_its_policy(http: httpx.Client, folder: Path) -> None:
    root = As(http)
    body = {"account_id": "brief", "admin_user_id": "boss"}
    root.result("POST", "/admin/accounts", json=body | {SWITCHES[0]: True})
    root.result("DELETE", "/admin/accounts/brief")
    while root.ask("GET", "/admin/accounts/brief").status_code != 404:
        pass
    root.result("POST", "/admin/accounts", json=body)
    assert stored(folder, "brief") == {"namespace": dict.fromkeys(SWITCHES, False)}


def test_a_folder_of_one_profile_is_not_served_with_the_other(folder: Path, made: object) -> None:
    from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings

    old = EmbeddedServer(EmbeddedSettings(data_dir=folder, auth=AuthMode.DEV))
    with pytest.raises(RuntimeError, match="did not start"):
        old.start()
