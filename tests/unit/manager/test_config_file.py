import json
import traceback
from pathlib import Path

import pytest

from resilient_ov_manager.config_file import expand_environment, load_config_file
from resilient_ov_manager.host_config import parse_config

DEERFLOW = """
config_version: 7
models:
  - name: m
    api_key: $MODEL_KEY_THAT_IS_NOT_SET
memory:
  enabled: true
  manager_class: resilient_ov_manager:OpenVikingMemoryManager
  backend_config:
    base_url: $OV_URL
    account: deerflow
    retrieval:
      top_k: $TOP_K
    session:
      memory_types: [profile, $KIND]
"""
ENVIRON = {"OV_URL": "https://ov.example", "TOP_K": "5", "KIND": "events", "DEER_FLOW_HOME": "/srv"}


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(path: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ValueError, match="config file") as caught:
        load_config_file(path, environ=ENVIRON if environ is None else environ)
    assert str(path) in str(caught.value)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_config_of_deerflow_gives_its_memory_section_expanded(tmp_path: Path) -> None:
    raw = load_config_file(written(tmp_path, DEERFLOW), environ=ENVIRON)
    assert raw == {
        "base_url": "https://ov.example",
        "account": "deerflow",
        "retrieval": {"top_k": "5"},
        "session": {"memory_types": ["profile", "events"]},
        "storage_path": "/srv",
    }
    assert parse_config(raw, environ={}).retrieval.top_k == 5


def test_bare_section_is_taken_whole(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"base_url": "$OV_URL", "storage_path": "mem"}))
    raw = load_config_file(str(path), environ=ENVIRON)
    assert raw == {"base_url": "https://ov.example", "storage_path": "/srv/mem"}


def test_bare_section_with_only_a_section_of_ours_is_recognised(tmp_path: Path) -> None:
    raw = load_config_file(written(tmp_path, "retry: {max_attempts: 1}"), environ=ENVIRON)
    assert raw["retry"] == {"max_attempts": 1}


@pytest.mark.parametrize(
    ("given", "folder"),
    [("null", "/srv"), ("''", "/srv"), ("mem", "/srv/mem"), ("/abs", "/abs"), ("$WHERE", "/w")],
)
def test_storage_path_is_made_absolute_like_the_host_does(
    tmp_path: Path, given: str, folder: str
) -> None:
    path = written(tmp_path, f"base_url: x\nstorage_path: {given}")
    assert load_config_file(path, environ={**ENVIRON, "WHERE": "/w"})["storage_path"] == folder


def test_storage_path_of_a_wrong_type_is_left_for_the_validation(tmp_path: Path) -> None:
    path = written(tmp_path, "base_url: x\nstorage_path: 3")
    assert load_config_file(path, environ=ENVIRON)["storage_path"] == 3


def test_unset_variable_names_its_key_and_the_variable(tmp_path: Path) -> None:
    text = refused(written(tmp_path, DEERFLOW), {"OV_URL": "x", "KIND": "y"})
    assert "backend_config.retrieval.top_k: environment variable TOP_K is not set" in text
    assert ".env" in text


def test_text_that_begins_with_a_dollar_by_chance_is_not_repeated(tmp_path: Path) -> None:
    text = refused(written(tmp_path, "base_url: $SECRET-pa55"))
    assert "backend_config.base_url: environment variable (name not shown) is not set" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no mapping"),
        ("- base_url: SECRET", "no mapping"),
        ("just SECRET", "no mapping"),
        ("memory:", "memory.backend_config is missing"),
        ("memory: [SECRET]", "memory.backend_config is missing"),
        ("memory: {backend_config: }", "memory.backend_config is missing"),
        ("memory: {backend_config: SECRET}", "memory.backend_config is missing"),
        ("models: [SECRET]", "neither memory.backend_config nor"),
        ("api_key: 'SECRET\nx: 1", "not valid YAML (line 2"),
        ("base_url: @SECRET", "not valid YAML (line 1, column 11)"),
        ("base_url: \x01SECRET", "not valid YAML"),
        (b"base_url: \xff\xfeSECRET", "not UTF-8"),
    ],
)
def test_content_that_is_no_configuration_is_refused_without_repeating_it(
    tmp_path: Path, content: str | bytes, reason: str
) -> None:
    assert reason in refused(written(tmp_path, content))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in refused(tmp_path / "nope.yaml")
    assert "cannot be read (Is a directory" in refused(tmp_path)


def test_environment_of_the_process_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    assert load_config_file(written(tmp_path, DEERFLOW))["base_url"] == "https://ov.example"


class TestExpansion:
    def test_only_whole_texts_are_expanded_at_any_depth(self) -> None:
        value = {"a": ["$A", {"b": "$A"}], "c": "x$A", "d": 5, "e": None, "$A": True, "f": "$E"}
        before = repr(value)
        assert expand_environment(value, {"A": "1", "E": ""}) == {
            "a": ["1", {"b": "1"}],
            "c": "x$A",
            "d": 5,
            "e": None,
            "$A": True,
            "f": "",
        }
        assert repr(value) == before

    def test_expanded_value_is_not_expanded_again(self) -> None:
        assert expand_environment("$A", {"A": "$B"}) == "$B"

    @pytest.mark.parametrize("text", ["$", "$$A", "$B"])
    def test_what_names_no_variable_is_an_error(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"value: environment variable .* is not set"):
            expand_environment(text, {"A": "1"})
