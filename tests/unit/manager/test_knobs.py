import re

import pytest

from resilient_ov.settings import knob_fields
from resilient_ov_manager.knobs import allowed_text, default_text, knobs_table, main, range_text

KNOBS = {found.key: found for found in knob_fields()}


def rows() -> dict[str, list[str]]:
    cells = [line.strip("| ").split(" | ") for line in knobs_table().splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_table_has_one_row_a_key_and_four_cells_a_row() -> None:
    lines = knobs_table().splitlines()
    assert lines[:2] == ["| key | default | range | meaning |", "|---|---|---|---|"]
    assert list(rows()) == list(KNOBS)
    for line in lines:
        assert len(re.findall(r"\|", line)) == 5, line
        assert line == line.rstrip()


def test_table_shows_defaults_ranges_and_meanings() -> None:
    table = rows()
    assert table["budgets.add_seconds"] == [
        "3",
        "0.5..120",
        "Deadline of `add`, and of each delivery of the writer.",
    ]
    assert table["base_url"][0] == "required"
    assert table["storage_path"][0] == "injected by DeerFlow"
    assert table["retry.attempt_seconds"][:2] == ["null", "null or 0.05..120"]
    assert table["tls.ca_file"][1] == "a readable file, or null"
    assert table["breaker.max_open_seconds"][1] == "breaker.open_seconds..3600"
    assert table["retrieval.score_threshold"][0] == "0.55"
    assert table["shutdown.atexit"][:2] == ["true", "true or false"]
    assert table["server_profile"][:2] == ['"0.5"', "0.5, namespace"]


def test_table_tells_what_is_not_in_this_version() -> None:
    table = rows()
    assert table["outbox.kind"][2].endswith("Not in this version: sqlite, postgresql.")
    assert table["outbox.max_bytes"][2].endswith("Not in this version.")
    assert table["state.dsn_env"][2].endswith("Not in this version.")
    assert "version" not in table["namespace.search_agent_scope"][2]
    assert "version" not in table["retry.max_attempts"][2]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("budgets.add_seconds", "a number, 0.5..120 (seconds)"),
        ("retrieval.top_k", "a whole number, 1..100"),
        ("retry.attempt_seconds", "a number, 0.05..120 (seconds), or null"),
        ("tracing.enabled", "true or false"),
        ("startup_policy", "one of fail_fast, warn"),
        ("failure_policy.read", "one of fail_open, fail_fast, fail_closed (= fail_fast)"),
        ("tls.ca_file", "a readable file, or null"),
        ("metrics.host", "a host name or address"),
        ("limits.max_keepalive", "a whole number, 1..1000, at most limits.max_connections"),
    ],
)
def test_allowed_values_in_words(key: str, text: str) -> None:
    assert allowed_text(KNOBS[key]) == text


def test_no_setting_is_without_words() -> None:
    for found in KNOBS.values():
        assert range_text(found)
        assert allowed_text(found)
        assert default_text(found)


def test_main_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out == knobs_table() + "\n"
