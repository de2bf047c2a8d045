"""`resilient-ov state`: what is known is shown in counts; a reset session reads the server anew."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from resilient_ov.adapters.watermark_file import decode, encode
from resilient_ov.domain.identity import scope, session_hash, session_id
from resilient_ov.domain.purge import purged
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_manager.cli import app

SESSION = session_id(scope("acme", "alice", None), "thread-1")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(key="state-test-key") as made:
        yield made


@pytest.fixture
def manager(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenVikingMemoryManager]:
    monkeypatch.setenv("STATE_TEST_KEY", "state-test-key")
    made = OpenVikingMemoryManager.from_config(
        {
            "base_url": server.url,
            "account": "acme",
            "api_key_env": "STATE_TEST_KEY",
            "storage_path": str(tmp_path),
            "budgets": {"add_seconds": 10},
        }
    )
    add(made, 2)
    yield made
    made.close()


def add(manager: OpenVikingMemoryManager, count: int) -> None:
    thread = [
        SimpleNamespace(
            type="human", content=f"text {n}", id=f"m{n}", additional_kwargs={}, tool_calls=[]
        )
        for n in range(count)
    ]
    manager.add("thread-1", thread, user_id="alice")


def sent(server: ScriptedServer) -> int:
    return sum(len(seen.body["messages"]) for seen in server.requests if "batch" in str(seen.route))


def run(storage: Path, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ("state", *arguments, "--storage", str(storage)))
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def file_of(storage: Path) -> Path:
    return storage / "openviking" / "sessions" / f"{SESSION}.json"


def change(storage: Path, **facts: Any) -> Watermark:
    state = replace(decode(file_of(storage).read_bytes(), SESSION), **facts)
    file_of(storage).write_bytes(encode(state))
    return state


@pytest.mark.usefixtures("manager")
def test_sessions_are_counted_by_condition(tmp_path: Path) -> None:
    folder = file_of(tmp_path).parent
    (folder / "other.json").write_text("{")
    (folder / "newer.json").write_text('{"schema_version": 99}')
    (folder / "x.json.corrupt-0").write_text("")
    code, shown, _ = run(tmp_path, "show", "--json")
    assert code == 0
    assert json.loads(shown) == {
        "sessions": 1,
        "with a batch in doubt": 0,
        "with a commit owed": 0,
        "to be compared with the server": 0,
        "of persons that were erased": 0,
        "unreadable": 1,
        "of a newer version": 1,
        "unreadable ones kept aside": 1,
    }
    assert "with a batch in doubt 0" in run(tmp_path, "show")[1]


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize("name", [SESSION, session_hash(SESSION)])
def test_one_session_is_shown_by_id_or_label(tmp_path: Path, name: str) -> None:
    code, shown, _ = run(tmp_path, "show", name)
    assert code == 0
    assert "messages on the server, as known 2" in shown
    assert "person erased False" in shown


def test_a_reset_session_is_read_from_the_server_and_sends_nothing_twice(
    manager: OpenVikingMemoryManager, server: ScriptedServer, tmp_path: Path
) -> None:
    assert sent(server) == 2
    code, shown, told = run(tmp_path, "reset", SESSION, "--yes")
    assert (code, told) == (0, "")
    assert "its next turn reads it from the server" in shown
    assert run(tmp_path, "show", "--json")[1].count('"to be compared with the server": 1') == 1
    add(manager, 3)
    assert sent(server) == 3
    assert decode(file_of(tmp_path).read_bytes(), SESSION).server_total == 3


def test_without_yes_nothing_is_reset(manager: OpenVikingMemoryManager, tmp_path: Path) -> None:
    before = file_of(tmp_path).read_bytes()
    code, _, told = run(tmp_path, "reset", SESSION)
    assert code == 2
    assert "nothing was reset" in told
    assert file_of(tmp_path).read_bytes() == before
    manager.close()


@pytest.mark.usefixtures("manager")
def test_what_is_in_doubt_is_not_reset(tmp_path: Path) -> None:
    state = decode(file_of(tmp_path).read_bytes(), SESSION)
    doubt = state.intend(doubt_id="d", owner="0" * 32, digests=("a" * 32,)).in_doubt
    change(tmp_path, in_doubt=doubt)
    code, _, told = run(tmp_path, "reset", SESSION, "--yes")
    assert code == 1
    assert "could store it twice" in told


@pytest.mark.usefixtures("manager")
def test_an_erased_person_is_not_forgotten_by_a_reset(tmp_path: Path) -> None:
    state = decode(file_of(tmp_path).read_bytes(), SESSION)
    file_of(tmp_path).write_bytes(encode(purged(state)))
    code, _, told = run(tmp_path, "reset", SESSION, "--yes")
    assert code == 2
    assert "purge --forget" in told


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize("command", [("show",), ("reset", "--yes")])
def test_a_session_that_is_not_there_is_told(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, _, told = run(tmp_path, *command, "df_nothing")
    assert code == 2
    assert "no such session here" in told


def test_a_folder_without_state_is_exit_4(tmp_path: Path) -> None:
    code, _, told = run(tmp_path, "show")
    assert code == 4
    assert "no gateway has kept state here" in told
