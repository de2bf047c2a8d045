"""`resilient-ov serve`: starts, says what it is, ends cleanly; wrong inputs get a sentence."""

import errno
import importlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from resilient_ov_manager import terminal
from resilient_ov_manager.cli import app

KEY = "serve-key-4711"
VARIABLE = "OPENVIKING_ROOT_KEY"
COMMAND = [sys.executable, "-m", "resilient_ov_manager.cli", "serve"]
Start = Callable[..., subprocess.Popen[str]]


def damaged(folder: Path) -> None:
    folder.mkdir()
    (folder / "embedded.sqlite3").write_text("certainly no database at all" * 40)


@pytest.fixture
def port() -> int:
    return free_port()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv(VARIABLE, KEY)
    # In this process the command must not touch the handlers of the test run.
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.fixture
def start(port: int) -> Iterator[Start]:
    """Start the command as a process and wait until it answers."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, f"--port={port}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        end_s = time.monotonic() + 30
        while time.monotonic() < end_s and process.poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                return process
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(process.communicate())

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ("serve", *arguments))
    assert result.stdout == ""
    return result.exit_code, result.stderr


def user_request(port: int, key: str | None) -> dict[str, Any]:
    headers = {"X-OpenViking-Account": "acme", "X-OpenViking-User": "alice"}
    if key is not None:
        headers["X-API-Key"] = key
    answer = httpx.get(f"http://127.0.0.1:{port}/health", headers=headers, trust_env=False)
    return {**answer.json(), "status": answer.status_code}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_says_what_it_is_and_ends_cleanly(
    start: Start, port: int, number: signal.Signals
) -> None:
    process = start("--data=kept")
    told = user_request(port, KEY)
    assert (told["user_id"], told["auth_mode"]) == ("alice", "trusted")
    process.send_signal(number)
    shown, notes = process.communicate(timeout=20)
    assert process.returncode == 0
    assert shown == ""
    assert "NOT FOR PRODUCTION" in notes
    assert f"http://127.0.0.1:{port}" in notes
    assert str(Path("kept").resolve()) in notes
    assert KEY not in notes
    assert "Traceback" not in notes
    assert "Exception" not in notes
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_killed_server_starts_again_on_its_port_and_data(start: Start, port: int) -> None:
    process = start("--data=kept")
    headers = {
        "X-API-Key": KEY, "X-OpenViking-Account": "acme", "X-OpenViking-User": "alice",
    }  # fmt: skip
    base = f"http://127.0.0.1:{port}/api/v1/sessions"
    with httpx.Client(headers=headers, trust_env=False) as client:
        client.get(f"{base}/s1", params={"auto_create": "true"}).raise_for_status()
        message = {"role": "user", "content": "kept"}
        client.post(f"{base}/s1/messages", json=message).raise_for_status()
        process.kill()
        process.wait()
        start("--data=kept")
        found = client.get(f"{base}/s1").raise_for_status().json()["result"]
    assert found["total_message_count"] == 1


def test_dev_needs_no_key(start: Start, port: int) -> None:
    start("--auth=dev")
    assert user_request(port, None)["status"] == 200
    assert (Path("openviking-data") / "embedded.sqlite3").exists()


def test_api_key_knows_the_root_key_of_its_variable(
    start: Start, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", f"  {KEY}-2\n")
    start("--auth=api_key", "--root-key-env=OTHER_KEY")
    assert user_request(port, f"{KEY}-2")["status"] == 200
    assert user_request(port, KEY)["status"] == 401


def test_a_taken_address_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        code, told = run("--port", str(taken))
    assert code == 2
    assert f"cannot listen on 127.0.0.1 port {taken} (Address already in use)" in told
    assert "--port" in told


def test_a_folder_in_use_is_told(start: Start) -> None:
    start("--data=kept")
    code, told = run(f"--port={free_port()}", "--data=kept")
    assert code == 4
    assert "--data kept: another embedded server uses it" in told


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (lambda path: path.write_text("a file"), "File exists"),
        (damaged, "not a database"),
    ],
)
def test_an_unusable_folder_is_told(
    port: int, prepare: Callable[[Path], Any], problem: str
) -> None:
    prepare(Path("data"))
    code, told = run(f"--port={port}", "--data=data")
    assert code == 4
    assert problem in told
    assert "Name a folder that can be written" in told


@pytest.mark.parametrize(
    ("arguments", "key", "problem"),
    [
        ((), None, f"the environment variable {VARIABLE} is not set"),
        ((), " ", f"the environment variable {VARIABLE} is not set"),
        ((), "two words", "holds white space"),
        ((), "schlüssel", "not printable ASCII"),
        (("--root-key-env=sk-canary-4711",), KEY, "(name not shown) is not set"),
        (("--auth=dev", f"--root-key-env={VARIABLE}"), KEY, "auth dev checks no key"),
        (("--auth=dev", "--host=0.0.0.0"), None, "everybody is root"),
        (("--auth=dev", "--host=::"), None, "everybody is root"),
        (("--auth=none",), KEY, "'none' is not one of"),
        (("--profile=0.4",), KEY, "'0.4' is not one of"),
        (("--host=no-such-host.invalid",), KEY, "cannot listen on no-such-host.invalid"),
        (("--port=0",), KEY, "--port"),
        (("--port=70000",), KEY, "--port"),
    ],
)
def test_a_wrong_input_is_told(
    arguments: tuple[str, ...], key: str | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is None:
        monkeypatch.delenv(VARIABLE)
    else:
        monkeypatch.setenv(VARIABLE, key)
    code, told = run(*arguments)
    assert code == 2
    assert problem in " ".join(told.split())
    assert "canary" not in told
    assert key is None or not key.strip() or key not in told


def test_a_folder_of_another_profile_is_told(start: Start) -> None:
    process = start("--data=kept", "--profile=namespace")
    process.terminate()
    assert "profile namespace" in process.communicate(timeout=20)[1]
    code, told = run(f"--port={free_port()}", "--data=kept")
    assert code == 4
    assert "--data kept: it was made with profile namespace" in told


def test_without_the_extra_it_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, told = run()
    assert code == 2
    assert "pip install 'resilient-ov[server]'" in told
    assert "uvicorn" in told


def test_an_ipv6_address_is_written_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    module = importlib.import_module("resilient_ov.embedded.serve")
    monkeypatch.setattr(module, "serve", lambda **options: calls.append(options))
    code, told = run("--host=::1", "--port=39333", "--auth=dev")
    assert code == 0, told
    assert "http://[::1]:39333" in told
    assert calls[0]["root_key"] is None


def test_an_address_the_machine_does_not_have_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bind = socket.socket.bind

    def bind_only_ipv4(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        bind(self, address)

    monkeypatch.setattr(socket.socket, "bind", bind_only_ipv4)
    served: list[dict[str, Any]] = []
    module = importlib.import_module("resilient_ov.embedded.serve")
    monkeypatch.setattr(module, "serve", lambda **options: served.append(options))
    code, told = run("--host=::1", f"--port={free_port()}", "--auth=dev")
    assert (code, len(served)) == (0, 1), told


def test_the_extra_is_asked_for_by_name() -> None:
    terminal.require_extra("server", "json")
    with pytest.raises(terminal.CommandError, match=r"needs no_such_a and no_such_b.*\[x\]"):
        terminal.require_extra("x", "no_such_a", "json", "no_such_b")
