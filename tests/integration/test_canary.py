"""The synthetic probe: it goes the whole way, tells which step fails, and leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from resilient_ov import events
from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov.settings.server import ServerProfile
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.canary import CANARY_USER, Canary
from resilient_ov_manager.cli import app
from resilient_ov_manager.host_config import settings_from_config
from resilient_ov_manager.live_server import LiveServer
from tests.integration.namespace_world import As

KEY = "canary-test-key"
STEPS = ["write", "commit", "extract", "recall"]


class Heard:
    """Keeps what the sink was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def emit(self, event: events.Event) -> None:
        assert isinstance(event, events.CanaryFinished)
        self.told.append((event.step.value, event.outcome.value))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TEST_KEY", KEY)


def raw(url: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "base_url": url,
        "account": "acme",
        "api_key_env": "CANARY_TEST_KEY",
        "storage_path": str(folder / "storage"),
        "budgets": {"add_seconds": 10, "search_seconds": 10, "health_seconds": 5},
        **more,
    }


def rounds(url: str, folder: Path, *, extraction_s: float = 30.0, **more: Any) -> Heard:
    """Make one round; the clock of the waits jumps, the server's does not."""
    heard = Heard()
    settings = settings_from_config(raw(url, folder, **more))
    skipped_s = [0.0]

    def sleep(seconds: float) -> None:
        time.sleep(0.01)
        skipped_s[0] += seconds

    with LiveServer(settings) as server:
        canary = Canary(
            settings,
            server,
            heard,
            extraction_s=extraction_s,
            now=lambda: time.monotonic() + skipped_s[0],
            sleep=sleep,
        )
        shown = [(sang.step.value, sang.outcome.value) for sang in canary.round()]
    assert shown == heard.told
    return heard


@pytest.mark.parametrize("profile", ServerProfile)
def test_on_a_well_server_every_step_is_ok(tmp_path: Path, profile: ServerProfile) -> None:
    made = EmbeddedSettings(data_dir=tmp_path / "server", root_key=KEY, profile=profile)
    with EmbeddedServer(made) as server:
        heard = rounds(server.url, tmp_path, server_profile=profile.value)
    assert heard.told == [(step, "ok") for step in STEPS]


def test_a_round_leaves_nothing_behind(tmp_path: Path) -> None:
    made = EmbeddedSettings(data_dir=tmp_path / "server", root_key=KEY)
    with EmbeddedServer(made) as server, httpx.Client(base_url=server.url) as http:
        rounds(server.url, tmp_path)
        user = openviking_user(scope("acme", CANARY_USER, None))
        canary = As(http, "acme", user, key=KEY)
        assert canary.result("GET", "/sessions") == []
        assert canary.found() == set()


def test_an_extraction_that_takes_too_long_is_late(tmp_path: Path) -> None:
    made = EmbeddedSettings(data_dir=tmp_path / "server", root_key=KEY, extraction_delay_s=60.0)
    with EmbeddedServer(made) as server:
        heard = rounds(server.url, tmp_path, extraction_s=2.0)
    assert heard.told[2:] == [("extract", "late"), ("recall", "late")]


def test_a_server_that_is_away_fails_the_first_step_and_ends_the_round(tmp_path: Path) -> None:
    assert rounds("http://127.0.0.1:1", tmp_path).told == [("write", "failed")]


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer(key=KEY) as made:
        yield made


def test_an_embedder_that_is_away_fails_the_recall_only(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    scripted.script(Rule(on="find", do="status", code=500))
    told = rounds(scripted.url, tmp_path).told
    assert told[:2] == [("write", "ok"), ("commit", "ok")]
    assert told[-1] == ("recall", "failed")


def test_an_index_that_stays_empty_is_late(scripted: ScriptedServer, tmp_path: Path) -> None:
    nothing = {"status": "ok", "result": {"memories": [], "resources": [], "skills": []}}
    scripted.script(Rule(on="find", do="ok", json=nothing))
    assert rounds(scripted.url, tmp_path).told == [
        *((step, "ok") for step in STEPS[:3]),
        ("recall", "late"),
    ]


def test_a_commit_that_fails_ends_the_round(scripted: ScriptedServer, tmp_path: Path) -> None:
    scripted.script(Rule(on="commit", do="status", code=503))
    assert rounds(scripted.url, tmp_path).told == [("write", "ok"), ("commit", "failed")]


def test_the_loop_shows_rounds_and_metrics_until_it_is_stopped(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = EmbeddedSettings(data_dir=tmp_path / "server", root_key=KEY)
    config = tmp_path / "config.yaml"
    with EmbeddedServer(made) as server:
        config.write_text(yaml.safe_dump(raw(server.url, tmp_path)))
        command = [
            *(sys.executable, "-m", "resilient_ov_manager.cli", "check", "--config", str(config)),
            *("--loop", "1", "--metrics-port", str(port)),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            line = process.stdout.readline()
            page = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    assert first == f"metrics: http://127.0.0.1:{port}/metrics\n"
    wanted = "; ".join(rf"{step} ok \d+\.\d s" for step in STEPS)
    assert re.fullmatch(rf"\d\d:\d\d:\d\d  {wanted}\n", line)
    for step in STEPS:
        found = re.search(
            rf'openviking_canary_runs_total{{outcome="ok",step="{step}"}} (\S+)', page
        )
        assert found is not None
        assert float(found[1]) >= 1.0
    seen = re.search(r"^openviking_canary_last_success_timestamp_seconds (\S+)", page, re.MULTILINE)
    assert seen is not None
    assert abs(float(seen[1]) - time.time()) < 120


@pytest.mark.parametrize(
    ("changes", "arguments", "problem"),
    [
        ({}, ("--metrics-port", "9000"), "Add --loop"),
        ({}, ("--loop", "0"), "--loop"),
        ({}, ("--loop", "5", "--metrics-port", "0"), "--metrics-port"),
        (
            {"auth_mode": "api_key", "owner_user_id": "x", "account": None},
            ("--loop", "5"),
            "writes as a user of its own",
        ),
        ({"retrieval": {"top_k": 0}}, ("--loop", "5"), "retrieval.top_k"),
    ],
)
def test_a_wrong_input_is_told(
    tmp_path: Path, changes: dict[str, Any], arguments: tuple[str, ...], problem: str
) -> None:
    config = tmp_path / "config.yaml"
    content = {k: v for k, v in raw("http://127.0.0.1:1", tmp_path, **changes).items() if v}
    config.write_text(yaml.safe_dump(content))
    result = CliRunner().invoke(app, ("check", "--config", str(config), *arguments))
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())


def test_a_taken_port_ends_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(raw("http://127.0.0.1:1", tmp_path)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "resilient_ov_manager.cli", "check"),
                *("--config", str(config), "--loop", "5", "--metrics-port", port),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert ended.returncode == 2
    assert "choose another --metrics-port" in " ".join(ended.stderr.split())
