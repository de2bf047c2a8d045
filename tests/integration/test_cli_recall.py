"""`resilient-ov recall` on a real socket: what is shown, what is cut and why, each wrong input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov.settings.server import AuthMode, ServerProfile
from resilient_ov_manager.cli import app
from tests.integration.namespace_world import As

KEY = "recall-test-key"
MEMORIES = (
    "I prefer concise technical explanations.",
    "I like tea in the morning.",
    "Our project Falcon runs on PostgreSQL 16.",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder = tmp_path_factory.mktemp("recall")
    with EmbeddedServer(EmbeddedSettings(data_dir=folder, root_key=KEY)) as made:
        with httpx.Client(base_url=made.url) as http:
            user = openviking_user(scope("acme", "alice", None))
            alice = As(http, "acme", user, key=KEY)
            for text in MEMORIES:
                alice.say("s1", {"role": "user", "content": text})
            assert alice.commit("s1")["status"] == "completed"
        yield made


@pytest.fixture
def config(server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECALL_TEST_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "120")
    return written(tmp_path, base_url=server.url)


def written(folder: Path, **more: Any) -> Path:
    raw = {
        "account": "acme",
        "api_key_env": "RECALL_TEST_KEY",
        "storage_path": str(folder / "storage"),
        **more,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def run(config: Path, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ("recall", "--config", str(config), "--user", "alice", *arguments)
    )
    return result.exit_code, result.stdout, result.stderr


def shown(config: Path, *arguments: str) -> dict[str, Any]:
    code, text, told = run(config, "--json", *arguments)
    assert (code, told) == (0, "")
    result: dict[str, Any] = json.loads(text)
    return result


def test_each_hit_is_shown_with_its_score_and_what_cuts_it(config: Path) -> None:
    code, text, told = run(config, "how should technical explanations be")
    assert (code, told) == (0, "")
    first, last = text.splitlines()[1], text.splitlines()[-1]
    assert "concise technical explanations" in first
    assert "(injected)" in first
    assert "cut by retrieval.score_threshold" in text
    assert "get_context injects 1 (score_threshold 0.55, top_k 8)" in last


def test_the_fates_are_those_of_a_real_call(config: Path) -> None:
    low = shown(config, "technical explanations", "--threshold", "0", "--top-k", "2")
    assert [hit["fate"] for hit in low["hits"]][:3] == ["injected", "injected", "beyond_top_k"]
    assert [hit["score"] for hit in low["hits"]] == sorted(
        (hit["score"] for hit in low["hits"]), reverse=True
    )
    assert all(hit["uri"].startswith("viking://~/memories/") for hit in low["hits"])


def test_a_sweep_shows_where_the_gap_is(config: Path) -> None:
    points = shown(config, "technical explanations", "--sweep")["sweep"]
    assert [p["score_threshold"] for p in points][:3] == [0.0, 0.05, 0.1]
    above = [p["above"] for p in points]
    assert above == sorted(above, reverse=True)
    assert (above[0], above[-1]) == (3, 0)
    text = run(config, "technical explanations", "--sweep")[1]
    assert "0.55" in text
    assert "<- set" in text


def test_a_category_is_asked_for(config: Path) -> None:
    hits = shown(config, "anything", "--category", "entities")["hits"]
    assert {hit["category"] for hit in hits} == {"entities"}


def test_without_a_query_the_injection_query_is_asked(config: Path) -> None:
    assert len(shown(config)["hits"]) == 3


def test_somebody_else_has_no_memory(config: Path) -> None:
    code, text, _ = run(config, "tea", "--agent", "researcher")
    assert code == 0
    assert text.startswith("The server found nothing for this user, whatever the threshold.")
    assert "users/ folder" in text


def test_the_sweep_is_drawn(config: Path, tmp_path: Path) -> None:
    picture = tmp_path / "sweep.png"
    code, text, _ = run(config, "technical explanations", "--plot", str(picture))
    assert code == 0
    assert f"drawn: {picture}" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_written_into_the_storage(config: Path, tmp_path: Path) -> None:
    run(config, "tea")
    assert not (tmp_path / "storage").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((" ",), "the query is blank"),
        (("x", "--agent", "not an agent"), "agent_name must be"),
        (("x", "--category", "A/B"), "--category: must be of"),
        (("x", "--top-k", "0"), "--top-k"),
        (("x", "--threshold", "2"), "--threshold"),
        (("x", "--plot", "sweep.gif"), "must end with .png or .svg"),
        (("x", "--plot", "no/such/folder.png"), "there is no such folder"),
    ],
)
def test_a_wrong_input_is_told(config: Path, arguments: tuple[str, ...], problem: str) -> None:
    code, text, told = run(config, *arguments)
    assert (code, text) == (2, "")
    assert problem in " ".join(told.split())
    assert "Traceback" not in told


def test_a_wrong_configuration_is_told(tmp_path: Path, config: Path) -> None:
    assert run(tmp_path / "none.yaml", "x")[0] == 2
    broken = written(tmp_path, base_url="http://localhost:1", retrieval={"top_k": 0})
    code, _, told = run(broken, "x")
    assert code == 2
    assert "retrieval.top_k" in told


def test_a_server_that_is_away_is_exit_1_with_advice(tmp_path: Path, config: Path) -> None:
    away = written(tmp_path, base_url="http://127.0.0.1:1")
    code, _, told = run(away, "x")
    assert code == 1
    assert "no connection" in told
    assert "Is the server up" in told


def test_a_refused_key_is_told_without_it(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECALL_TEST_KEY", "wrong-key-4711")
    code, _, told = run(config, "x")
    assert code == 1
    assert "the key or the identity was refused" in told
    assert "4711" not in told


def test_with_a_key_of_one_user_the_server_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EmbeddedSettings(
        data_dir=tmp_path / "server",
        root_key=KEY,
        auth=AuthMode.API_KEY,
        profile=ServerProfile.V0_5,
    )
    with EmbeddedServer(settings) as made, httpx.Client(base_url=made.url) as http:
        account = {"account_id": "acme", "admin_user_id": "owner"}
        key = As(http, key=KEY).result("POST", "/admin/accounts", json=account)["user_key"]
        owner = As(http, key=key)
        owner.say("s1", {"role": "user", "content": MEMORIES[0]})
        owner.commit("s1")
        monkeypatch.setenv("RECALL_TEST_KEY", key)
        config = written(
            tmp_path, base_url=made.url, auth_mode="api_key", owner_user_id="alice", account=None
        )
        assert [hit["fate"] for hit in shown(config, "technical explanations")["hits"]] == [
            "injected"
        ]
        code, _, told = run(config, "x", "--user", "bob")
        assert code == 2
        assert "belongs to another user" in told
