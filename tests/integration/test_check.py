"""`resilient-ov check`: each step on a real socket and disk, its reason, its advice, its exit."""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from typer.testing import CliRunner

from resilient_ov.adapters import lock_file, watermark_store
from resilient_ov.testing.fake_wire import FakeAuth
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.cli import app

KEY = "canary-key-4711"
STEPS = ["config", "key", "server", "version", "find", "storage", "lock", "metrics"]
HTML = Rule(on="any", do="status", code=200, html=True)
Check = Callable[..., "Checked"]


class Checked:
    """What the command printed, by step."""

    def __init__(self, code: int, shown: str) -> None:
        self.code = code
        self.shown = shown
        self.steps: dict[str, str] = {}
        name = ""
        for line in shown.splitlines():
            words = line.split()
            if words and words[0] in {"ok", "FAILED", "note", "skipped"}:
                name = words[1]
                self.steps[name] = f"{words[0]}: {' '.join(words[2:])}"
            elif words and line.startswith(" ") and name:
                self.steps[name] += f" {' '.join(words)}"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OPENVIKING_API_KEY", KEY)
    monkeypatch.delenv("GATEWAY_WORKERS", raising=False)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(key=KEY) as made:
        yield made


@pytest.fixture
def check(server: ScriptedServer, tmp_path: Path) -> Check:
    """Run the command on a configuration for the server, with changes; None removes a key."""

    def run(**changes: Any) -> Checked:
        section = {
            "base_url": server.url,
            "account": "secret-tenant",
            "storage_path": str(tmp_path / "storage"),
            **changes,
        }
        path = tmp_path / "config.yaml"
        wanted = {name: value for name, value in section.items() if value is not None}
        path.write_text(yaml.safe_dump({"memory": {"backend_config": wanted}}))
        return run_on(path)

    return run


def run_on(path: Path) -> Checked:
    result = CliRunner().invoke(app, ("check", "--config", str(path)))
    assert result.stderr == ""
    for secret in (KEY, "secret-tenant", "127.0.0.1", "Traceback"):
        assert secret not in result.stdout
    return Checked(result.exit_code, result.stdout)


def test_everything_fine(check: Check, server: ScriptedServer, tmp_path: Path) -> None:
    checked = check()
    assert checked.code == 0
    assert list(checked.steps) == STEPS
    assert {step.split(":")[0] for step in checked.steps.values()} == {"ok"}
    assert "Memory is usable." in checked.shown
    assert "OPENVIKING_API_KEY" in checked.steps["key"]
    assert str(tmp_path / "storage" / "openviking") in checked.steps["storage"]
    assert [seen.route for seen in server.requests] == ["health", "find"]
    users = {seen.request.headers["x-openviking-user"] for seen in server.requests}
    assert len(users) == 1
    left = [path for path in (tmp_path / "storage").rglob("*") if path.is_file()]
    assert left == []


def test_a_key_file_is_named_with_its_age(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    for age_s, told in ((3 * 86400, "3 d"), (7500, "2 h"), (150, "2 min"), (-9, "0 s")):
        changed = time.time() - age_s
        os.utime(path, (changed, changed))
        checked = check(api_key_file=str(path))
        assert checked.code == 0
        assert f"{path} (api_key_file), written {told} ago" in checked.steps["key"]


def test_a_key_file_that_a_variable_names_is_named_with_its_age(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    changed = time.time() - 7500
    os.utime(path, (changed, changed))
    monkeypatch.delenv("OPENVIKING_API_KEY")
    monkeypatch.setenv("OPENVIKING_API_KEY_FILE", str(path))
    checked = check()
    assert checked.code == 0
    assert f"{path} (OPENVIKING_API_KEY_FILE), written 2 h ago" in checked.steps["key"]


def test_dev_needs_no_key(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENVIKING_API_KEY")
    with ScriptedServer(auth=FakeAuth.DEV) as dev:
        checked = check(base_url=dev.url, auth_mode="dev", account=None)
    assert (checked.code, checked.steps["key"]) == (0, "ok: none is needed (auth_mode dev)")


@pytest.mark.parametrize(
    ("rule", "found", "advice"),
    [
        (Rule(on="any", do="refuse"), "no connection", "Is the server up"),
        (Rule(on="health", do="hang"), "no answer in time (0.3 s)", "budgets.health_seconds"),
        (Rule(on="health", do="reset"), "the connection was cut", "log of the server"),
        (HTML, "the answer is not OpenViking's", "base_url must lead to"),
        (
            Rule(
                on="any", do="raw", code=302, headers={"location": "/login", "content-length": "0"}
            ),
            "the answer is not OpenViking's",
            "not to a login page",
        ),
        (
            Rule(on="health", do="status", code=404, html=True),
            "refused, but not by OpenViking itself (404)",
            "what answers at base_url",
        ),
        (
            Rule(on="health", do="status", code=401, html=True),
            "refused, but not by OpenViking itself (401)",
            "a proxy",
        ),
        (Rule(on="health", do="status", code=401), "the key or the identity", "root key"),
        (Rule(on="health", do="status", code=400), "the request was refused (400", "account"),
        (Rule(on="health", do="status", code=429), "too many requests (429", "Wait"),
        (Rule(on="health", do="status", code=503), "the server failed (503", "log of the server"),
        (
            Rule(on="health", do="ok", json={"status": "ok"}),
            "does not say whose key",
            "auth_mode trusted",
        ),
        (
            Rule(
                on="health", do="ok", json={"status": "ok", "version": "0.5.2", "user_id": "root"}
            ),
            "takes us for another user",
            "auth_mode: api_key",
        ),
    ],
)
def test_a_server_that_cannot_be_used(
    check: Check, server: ScriptedServer, rule: Rule, found: str, advice: str
) -> None:
    server.script(rule)
    checked = check(budgets={"health_seconds": 0.3 if rule.do == "hang" else 30})
    assert checked.code == 1
    assert checked.steps["server"].startswith("FAILED: ")
    assert found in checked.steps["server"]
    assert advice in checked.steps["server"]
    assert "Memory is not usable: see 'server'." in checked.shown
    assert checked.steps["storage"].startswith("ok")


def test_a_wrong_key_is_told_by_the_mode(check: Check, server: ScriptedServer) -> None:
    server.store.key = "another"
    checked = check()
    assert checked.code == 1
    assert "401, UNAUTHENTICATED" in checked.steps["server"]
    checked = check(auth_mode="api_key", owner_user_id="alice")
    assert "In api_key mode" in checked.steps["server"]


def test_without_an_answer_version_and_find_are_skipped(
    check: Check, server: ScriptedServer
) -> None:
    server.script(Rule(on="any", do="refuse"))
    checked = check()
    assert checked.steps["version"].startswith("skipped")
    assert checked.steps["find"].startswith("skipped")


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("0.5.2", "ok"),
        ("0.5.17rc1", "ok"),
        ("0.5.1", "FAILED"),
        ("0.6.0", "FAILED"),
        ("1.0.0", "FAILED"),
        ("main-4711", "note"),
        (None, "note"),
    ],
)
def test_the_version_is_compared_with_the_profile(
    check: Check, server: ScriptedServer, version: str | None, state: str
) -> None:
    check()
    user = server.requests[0].request.headers["x-openviking-user"]
    told = {"status": "ok", "version": version, "account_id": "secret-tenant", "user_id": user}
    server.script(Rule(on="health", do="ok", json=told))
    checked = check()
    assert checked.steps["version"].startswith(state)
    assert checked.code == (1 if state == "FAILED" else 0)


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (Rule(on="find", do="status", code=500), "the server failed (500"),
        (Rule(on="find", do="hang"), "no answer in time (0.4 s)"),
        (Rule(on="find", do="ok", json={"status": "ok", "result": 7}), "not OpenViking's"),
        (
            Rule(
                on="find",
                do="status",
                code=500,
                json={
                    "status": "error",
                    "error": {
                        "code": "INTERNAL",
                        "message": KEY,
                        "details": {"upstream_status_code": 401},
                    },
                },
            ),
            "model provider fails",
        ),
    ],
)
def test_a_green_health_check_is_not_enough(
    check: Check, server: ScriptedServer, rule: Rule, found: str
) -> None:
    server.script(rule)
    checked = check(budgets={"warm_seconds": 0.4})
    assert checked.code == 1
    assert checked.steps["server"].startswith("ok")
    assert checked.steps["find"].startswith("FAILED")
    assert found in checked.steps["find"]


def test_tls_that_is_not_trusted_is_told_and_mended(check: Check, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with ScriptedServer(key=KEY, tls=context) as secure:
        checked = check(base_url=secure.url)
        assert checked.code == 1
        assert "TLS failed" in checked.steps["server"]
        assert "tls.ca_file" in checked.steps["server"]
        assert check(base_url=secure.url, tls={"ca_file": str(tmp_path / "ca.pem")}).code == 0


def test_a_name_that_does_not_resolve_is_told(check: Check) -> None:
    checked = check(base_url="https://no-such-host.invalid")
    assert checked.code == 1
    assert "no connection" in checked.steps["server"]


@pytest.mark.parametrize(
    ("changes", "step", "problem"),
    [
        ({"base_url": None}, "config", "base_url: required"),
        ({"base_url": f"http://{KEY}@127.0.0.1"}, "config", "must not carry user-info"),
        ({"retrieval": {"top_k": 0}}, "config", "retrieval.top_k: must be"),
        ({"no_such_key": 1}, "config", "no_such_key: unknown key"),
        ({"tls": {"ca_file": "no-such-file"}}, "config", "tls.ca_file"),
        ({"api_key_env": "NOT_SET_ANYWHERE"}, "key", "NOT_SET_ANYWHERE"),
        ({"api_key_file": "no-such-key-file"}, "key", "cannot be read"),
    ],
)
def test_a_wrong_configuration_ends_with_2(
    check: Check, server: ScriptedServer, changes: dict[str, Any], step: str, problem: str
) -> None:
    checked = check(**changes)
    assert checked.code == 2
    assert checked.steps[step].startswith("FAILED")
    assert problem in checked.steps[step]
    assert list(checked.steps)[-1] in {"config", "key"}
    assert server.requests == []


def test_every_problem_of_a_configuration_is_told_at_once(check: Check) -> None:
    told = check(base_url=None, retrieval={"top_k": 0}).steps["config"]
    assert told.count("->") == 2


def test_a_wrong_file_and_a_missing_key_are_both_told(check: Check) -> None:
    checked = check(tls={"ca_file": "no-such-file"}, api_key_env="NOT_SET_ANYWHERE")
    assert [step.split(":")[0] for step in checked.steps.values()] == ["FAILED", "FAILED"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"a: [", "is not valid YAML (line 1"),
        (b"- a list", "holds no mapping"),
        (b"models: []", "neither memory.backend_config nor"),
        (b"memory: {}", "memory.backend_config is missing"),
        (b"base_url: $NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is not set"),
    ],
)
def test_an_unusable_file_ends_with_2(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    checked = run_on(path)
    assert checked.code == 2
    assert list(checked.steps) == ["config"]
    assert problem in checked.steps["config"]


def test_a_folder_that_cannot_be_made_ends_with_4(check: Check, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "openviking").write_text("in the way")
    checked = check()
    assert checked.code == 4
    assert str(tmp_path / "storage" / "openviking") in checked.steps["storage"]
    assert checked.steps["lock"].startswith("FAILED: could not be tried")
    assert "Memory is not usable: see 'storage'." in checked.shown


def test_the_first_failed_step_decides(check: Check, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "openviking").write_text("in the way")
    checked = check(base_url="http://127.0.0.1:1")
    assert checked.code == 1


@pytest.mark.parametrize(
    ("number", "advice"), [(28, "Make room"), (13, "must belong to"), (5, "Look in the system")]
)
def test_a_full_or_denied_folder_is_told_as_such(
    check: Check, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(watermark_store, "replace_file", refuse)
    checked = check()
    assert checked.code == 4
    assert advice in checked.steps["storage"]


def test_a_lock_that_does_not_lock_ends_with_4(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_file, "_CHILD", "raise SystemExit(0)")
    checked = check()
    assert checked.code == 4
    assert "keeps no other process out" in checked.steps["lock"]
    assert "flock" in checked.steps["lock"]


def test_several_workers_need_a_shared_folder(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GATEWAY_WORKERS", "4")
    checked = check()
    assert checked.code == 0
    assert checked.steps["metrics"].startswith("note: 4 workers")
    assert check(metrics={"enabled": False}).steps["metrics"].startswith("ok: off")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert check().steps["metrics"].startswith("ok: the workers share")


@pytest.mark.parametrize("workers", ["1", "", "many"])
def test_one_worker_needs_nothing(
    check: Check, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("GATEWAY_WORKERS", workers)
    assert check().steps["metrics"].startswith("ok: one worker")


def test_as_a_process_without_a_terminal(server: ScriptedServer, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        f"base_url: {server.url}\naccount: acme\nstorage_path: {tmp_path / 'storage'}\n"
    )
    command = [sys.executable, "-m", "resilient_ov_manager.cli", "check", "--config", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    assert "Memory is usable." in ended.stdout
    server.close()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == ""
