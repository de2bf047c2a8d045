from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from resilient_ov_chaos.cast import personas
from resilient_ov_chaos.faults.catalogue import FAULTS, SHORT
from resilient_ov_chaos.history import Call, to_line
from resilient_ov_chaos.saved import save_run
from resilient_ov_manager.cli import app
from resilient_ov_manager.terminal import ExitCode
from tests.unit.chaos.story import RUN, Story, msg


def chaos(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("chaos", *arguments), env={"COLUMNS": "200"})


def told(result: Result) -> str:
    """Return an error's sentence."""
    assert result.exit_code == ExitCode.INVALID
    return " ".join(result.output.split())


def test_every_fault_is_named_with_what_is_expected() -> None:
    result = chaos("list")
    assert result.exit_code == 0
    for name in FAULTS:
        assert name in result.output
    assert result.output.count(" yes ") == len(SHORT)


def test_a_scenario_that_there_is_not_is_refused() -> None:
    assert "no such scenario: luck" in told(chaos("run", "--scenario", "luck"))


def test_a_report_is_never_written_over_another(tmp_path: Path) -> None:
    (tmp_path / "chaos-report.md").write_text("the last one")
    assert "is not empty" in told(chaos("run", "--out", str(tmp_path)))


def test_hooks_without_a_server_are_refused(tmp_path: Path) -> None:
    result = chaos("run", "--out", str(tmp_path / "out"), "--hooks", str(tmp_path / "hooks"))
    assert "--target" in told(result)


def test_a_server_without_its_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENVIKING_API_KEY", raising=False)
    result = chaos("run", "--out", str(tmp_path / "out"), "--target", "http://staging:1933")
    assert "OPENVIKING_API_KEY is not set" in told(result)


def test_a_server_at_a_wrong_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENVIKING_API_KEY", "key-5711")
    result = chaos("run", "--out", str(tmp_path / "out"), "--target", "https://staging")
    assert "no TLS" in told(result)


def saved(folder: Path, story: Story) -> str:
    run = story.run()
    (folder / "history.ndjson").write_bytes(b"".join(map(to_line, run.history.records)))
    save_run(run, folder, fault="down", name=RUN)
    return str(folder)


def test_a_saved_scenario_is_judged_again(tmp_path: Path) -> None:
    story = Story().call(Call.ADD, 11.0, presented=[msg(1)])
    result = chaos("judge", saved(tmp_path, story))
    assert result.exit_code == 1
    assert f"red nothing_lost add: not on the server: {msg(1)}" in result.output
    assert result.output.rstrip().endswith("red")


def test_a_folder_that_is_no_scenario_is_refused(tmp_path: Path) -> None:
    assert "is no saved scenario" in told(chaos("judge", str(tmp_path)))


def test_people_are_made_up() -> None:
    assert all(each.user.endswith("@chaos.example") for each in personas(RUN))
