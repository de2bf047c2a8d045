import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resilient_ov_manager.cli import app

RESEARCHER = "df_23a14cca9168155c1ac426d7ccb1b32c800dad10"
SESSION = "df_pymrxlqkoboxrnoykflen2uloq46kny42ur22at7x3qijrydb67q"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ("identity", *arguments))
    return result.exit_code, result.stdout, result.stderr


def rows(shown: str) -> dict[str, str]:
    pairs = (line.partition("  ") for line in shown.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return str(path)


def test_the_ids_of_a_thread_are_the_golden_ones() -> None:
    code, shown, told = run(
        "--user", "alice", "--agent", "researcher", "--thread", "thread-1", "--account", "deerflow"
    )
    assert (code, told) == (0, "")
    assert rows(shown) == {
        "OpenViking user": RESEARCHER,
        "session": SESSION,
        "user in logs": RESEARCHER[3:15],
        "session in logs": SESSION[3:15],
        "account in logs": "acct_ea44dcc4",
    }


def test_without_a_thread_there_is_no_session() -> None:
    shown = run("--user", "alice", "--account", "deerflow")[1]
    assert "df_1dda69000a9a7414133f19c3ca5f167397825b4e" in shown
    assert "session" not in shown


def test_neither_the_user_nor_the_account_is_repeated() -> None:
    shown = run("--user", "alice@example.org", "--account", "secret-tenant", "--thread", "t9")[1]
    assert "alice" not in shown
    assert "secret-tenant" not in shown
    assert "t9" not in shown


def test_no_account_is_said_to_be_the_default_one() -> None:
    assert "account 'default'" in run("--user", "alice")[1]


def test_the_account_and_its_alias_come_from_the_configuration(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        "memory:\n  backend_config:\n    base_url: https://ov.example\n    account: deerflow\n"
        "    account_alias: prod\n",
    )
    shown = rows(run("--user", "alice", "--agent", "Researcher", "--config", config)[1])
    assert shown["OpenViking user"] == RESEARCHER
    assert shown["account in logs"] == "prod"


def test_under_api_keys_the_user_is_said_to_come_from_the_key(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        "base_url: https://ov.example\nauth_mode: api_key\nowner_user_id: alice\n",
    )
    assert "from the key" in run("--user", "alice", "--config", config)[1]


def test_on_profile_namespace_the_agent_travels_beside_the_user(tmp_path: Path) -> None:
    config = written(
        tmp_path, "base_url: https://ov.example\naccount: deerflow\nserver_profile: namespace\n"
    )
    shown = rows(run("--user", "alice", "--agent", "researcher", "--config", config)[1])
    assert shown["OpenViking user"] == "df_3d74e0081e9be3777ce0e498619bf014e950184a"
    assert shown["OpenViking agent"] == "researcher"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "Missing option"),
        (("--user", " "), "user_id is missing or blank"),
        (("--user", "a" * 1025), "user_id is longer than 1024"),
        (("--user", "a", "--agent", "not an agent"), "agent_name must be 1 to 64"),
        (("--user", "a", "--agent", "__default__"), "stands for no agent"),
        (("--user", "a", "--thread", ""), "thread_id is missing or blank"),
        (("--user", "a", "--account", "two words"), "--account: must be 1..255"),
        (("--user", "a", "--account", ""), "--account: must be 1..255"),
        (("--user", "a", "--account", "x", "--config", "y"), "give one of them"),
        (("--user", "a", "--config", "no-such-file.yaml"), "cannot be read"),
    ],
)
def test_a_wrong_input_is_told(arguments: tuple[str, ...], problem: str) -> None:
    code, shown, told = run(*arguments)
    assert (code, shown) == (2, "")
    assert problem in " ".join(told.split())
    assert "Traceback" not in told


def test_a_wrong_configuration_is_told_with_its_key(tmp_path: Path) -> None:
    config = written(tmp_path, "base_url: https://ov.example\naccount: a\nretrieval:\n  top_k: 0\n")
    code, _, told = run("--user", "alice", "--config", config)
    assert code == 2
    assert "retrieval.top_k" in told


def test_the_script_prints_whole_hashes_into_a_narrow_pipe() -> None:
    command = [
        sys.executable, "-m", "resilient_ov_manager.cli", "identity", "--user", "alice",
        "--agent", "researcher", "--thread", "thread-1", "--account", "deerflow",
    ]  # fmt: skip
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"COLUMNS": "20"}
    )
    assert {RESEARCHER, SESSION} <= set(ended.stdout.split())
