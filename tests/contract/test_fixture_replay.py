"""The embedded server gives the recorded answers of OpenViking 0.5.2.

`replay.toml` says for every recorded exchange how the server is set up for it and how each field
of the answer is compared, or why it is not replayed.
"""

import asyncio
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.contract.replay_compare import FieldClass, Rules, differences, fields
from tests.contract.replay_steps import FIXTURES, load, replaying

_TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "replay.toml").read_text())
_ENTRIES: list[dict[str, Any]] = _TABLE["fixture"]
_REPLAYED = [entry for entry in _ENTRIES if "skip" not in entry]
_SETUPS: dict[str, list[str]] = {entry["name"]: entry["setup"] for entry in _REPLAYED}


def _rules(entry: dict[str, Any]) -> Rules:
    return Rules((entry, _TABLE["defaults"]))


def _recorded_fields(entry: dict[str, Any]) -> dict[str, Any]:
    response = load(entry["name"])["response"]
    return fields(response["status"], response["headers"], response["body"])


async def _replay(entry: dict[str, Any], data_dir: Path) -> dict[str, Any]:
    async with replaying(entry["name"], _SETUPS, data_dir) as replayer:
        response = await replayer.send(entry["name"])
        body = replayer.redacted(response.json())
        return fields(response.status_code, dict(response.headers), body)


@pytest.mark.parametrize("entry", _REPLAYED, ids=lambda entry: entry["name"])
def test_answer_is_as_recorded(entry: dict[str, Any], tmp_path: Path) -> None:
    got = asyncio.run(_replay(entry, tmp_path))
    assert differences(_recorded_fields(entry), got, _rules(entry)) == []


def test_every_recorded_exchange_is_replayed_or_has_a_reason() -> None:
    names = [entry["name"] for entry in _ENTRIES]
    assert sorted(names) == sorted(path.stem for path in FIXTURES.glob("*.json"))
    assert all(entry["skip"].strip() for entry in _ENTRIES if "skip" in entry)


def test_every_pattern_of_a_fixture_matches_a_field() -> None:
    unused = [
        f"{entry['name']}: {pattern}"
        for entry in _REPLAYED
        for field_class in FieldClass
        for pattern in entry.get(field_class.value, [])
        if not any(
            Rules(({field_class.value: [pattern]}, {"by_value": ["*"]})).classify(path)
            is field_class
            for path in _recorded_fields(entry)
        )
    ]
    assert unused == []


def test_counts_by_class_are_pinned(capsys: pytest.CaptureFixture[str]) -> None:
    classes = Counter(
        _rules(entry).classify(path).value
        for entry in _REPLAYED
        for path in _recorded_fields(entry)
    )
    counts = {"replayed": len(_REPLAYED), "skipped": len(_ENTRIES) - len(_REPLAYED)} | classes
    with capsys.disabled():
        print(f"\nfixture replay: {counts}")
    assert counts == _TABLE["counts"]
