"""`resilient-ov demo` as a person runs it, and the parts of it that need a real process."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from resilient_ov.settings import ServerProfile
from resilient_ov_manager.demo import child
from resilient_ov_manager.demo.child import ChildServer
from resilient_ov_manager.demo.conversation import ALICE, BOB
from resilient_ov_manager.demo.host import Host, build_manager
from resilient_ov_manager.demo.names import ACCOUNT, POLICY, Names, configuration
from resilient_ov_manager.demo.reading_back import Reader
from resilient_ov_manager.host_config import parse_config
from resilient_ov_manager.terminal import CommandError, ExitCode

KEY = "demo-key-4711"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("options", [[], ["--profile", "namespace"]], ids=["default", "namespace"])
def test_the_demo_shows_everything_and_leaves_nothing(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "temporary").mkdir()
    environ = {
        **os.environ,
        "TMPDIR": str(tmp_path / "temporary"),
        "COLUMNS": "100",
        "OPENVIKING_API_KEY": "not-the-demos",
        "http_proxy": "http://127.0.0.1:9",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "resilient_ov_manager.cli", "demo", *options],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    shown = ended.stdout
    assert ended.returncode == 0, shown + ended.stderr
    assert ended.stderr == ""
    assert "14 of 14 checks hold" in shown
    assert "FAIL" not in shown
    assert f"profile {options[-1] if options else '0.5'}" in " ".join(shown.split())
    assert "kill -9" in shown
    for title in (
        "1. Two users, two agents", "2. A new thread remembers", "3. Nobody sees another's",
        "4. The server is killed", "5. The server comes back", "6. Back to normal",
    ):  # fmt: skip
        assert title in shown
    for call in ("aget_context", "asearch", "aadd", "add_nowait"):
        assert call in shown
    for outcome in ("degraded_unavailable", "degraded_refused", "pending"):
        assert outcome in shown
    assert "User prefers concise technical explanations." in shown
    assert "我喜欢用中文讨论论文" in shown
    assert "openviking.degraded" in shown
    assert "\x1b" not in shown
    assert list((tmp_path / "temporary").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]


@pytest.mark.parametrize("profile", ServerProfile)
def test_what_is_read_back_is_what_the_server_holds(tmp_path: Path, profile: ServerProfile) -> None:
    with ChildServer(tmp_path, KEY, profile) as server, asyncio.Runner() as runner:
        server.start()
        if profile is ServerProfile.NAMESPACE:
            server.make_account(ACCOUNT, POLICY)
        (tmp_path / "key").write_text(KEY)
        raw = configuration(server.url, tmp_path / "key", tmp_path / "gateway", profile)
        manager = build_manager(raw)
        reader = Reader(server.url, KEY, Names(parse_config(raw)))
        try:
            assert (reader.total(ALICE), reader.messages(ALICE)) == (0, [])
            host = Host(manager, runner)
            for last in (1, 2):
                host.add(ALICE, [m for turn in ALICE.before[:last] for m in turn.messages])
            kept = [words for turn in ALICE.before[:2] for words in turn.kept]
            assert reader.messages(ALICE) == kept
            assert reader.total(ALICE) == len(kept)
            assert reader.messages(BOB) == []
            assert host.leave(5.0)
        finally:
            manager.close()
            reader.close()


def test_a_killed_child_comes_back_on_its_port(tmp_path: Path) -> None:
    with ChildServer(tmp_path, KEY) as server:
        server.start()
        url, pid = server.url, server.pid
        server.kill()
        server.kill()
        assert server.pid is None
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health", trust_env=False)
        server.start()
        assert server.url == url
        assert server.pid != pid
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        server.kill()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health", trust_env=False)


def test_a_child_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("in the way")
    server = ChildServer(tmp_path, KEY)
    with server, pytest.raises(CommandError, match=r"did not start: .*cannot be used") as caught:
        server.start()
    assert caught.value.code is ExitCode.NOT_USABLE


def test_a_child_that_stays_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_START_S", 0.0)
    with (
        ChildServer(tmp_path, KEY) as server,
        pytest.raises(CommandError, match="no answer within 0 s"),
    ):
        server.start()


@pytest.mark.parametrize(
    ("code", "why"), [("raise SystemExit(3)", "without a word"), ("import no_such", "no_such")]
)
def test_a_child_that_ends_tells_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    interpreter = tmp_path / "interpreter"
    interpreter.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}'\n")
    interpreter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with ChildServer(tmp_path, KEY) as server, pytest.raises(CommandError, match=why):
        server.start()


def test_a_child_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChildServer(tmp_path, KEY) as server:
        server.start()
        monkeypatch.setattr(child, "_STOP_S", 0.0)
    assert server.pid is None
