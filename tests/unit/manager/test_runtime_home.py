from pathlib import Path

import pytest

from resilient_ov_manager.runtime_home import runtime_home, storage_folder


def test_home_of_the_host_is_its_variable_first() -> None:
    environ = {"DEER_FLOW_HOME": "/srv/deer", "DEER_FLOW_PROJECT_ROOT": "/srv/project"}
    assert runtime_home(environ) == Path("/srv/deer")


def test_home_is_below_the_project_folder_next() -> None:
    assert runtime_home({"DEER_FLOW_PROJECT_ROOT": "/srv/project"}) == Path(
        "/srv/project/.deer-flow"
    )


def test_home_is_below_the_current_folder_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert runtime_home({"DEER_FLOW_HOME": ""}) == tmp_path / ".deer-flow"


def test_relative_home_starts_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert runtime_home({"DEER_FLOW_HOME": "deer"}) == tmp_path / "deer"


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        (None, "/srv/deer"),
        ("", "/srv/deer"),
        (".", "/srv/deer"),
        (Path(), "/srv/deer"),
        ("mem", "/srv/deer/mem"),
        ("../mem", "/srv/mem"),
        ("/abs/mem", "/abs/mem"),
        (Path("/abs"), "/abs"),
    ],
)
def test_storage_folder(value: str | Path | None, folder: str) -> None:
    assert storage_folder(value, {"DEER_FLOW_HOME": "/srv/deer"}) == Path(folder)
