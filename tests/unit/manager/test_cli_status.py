import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.status_file import StatusFiles
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.identity import session_hash
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.clock import ManualClock
from resilient_ov_manager.cli import app

SESSION = "df_pymrxlqkoboxrnoykflen2uloq46kny42ur22at7x3qijrydb67q"
FACTS: dict[str, Any] = {
    "healthy": False,
    "since": "2026-01-01T00:00:00Z",
    "why": ["The server cannot be reached."],
    "next": ["Look at the server."],
    "breakers": {
        "host": {"state": "open", "since": "2026-01-01T00:00:01Z"},
        "recall": {"state": "closed", "since": "2026-01-01T00:00:00Z"},
    },
    "holds": [{"group": "host", "kind": "auth_hold", "left_s": 12.5}],
    "switches": {"recall": "forced_open", "append": "normal"},
    "pending": {"writes": 3, "in_doubt": 1, "commits": 2, "oldest_s": 42.0},
    "dropped": {"queue_full": 4, "shutdown": 0},
    "process": {"settings": {"metrics.port": None}},
    "recent": ['{"event":"openviking.degraded"}'],
}


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


@pytest.fixture
def gateway(tmp_path: Path) -> Any:
    """A process that has told its status and holds one session."""
    workers = WorkerPool(threads=1, waiting=8)
    store = FileWatermarkStore(
        tmp_path, dice=SystemDice(), workers=workers, on_lock_missing=lambda: None
    )
    files = StatusFiles(store.place, store.owners, ManualClock())

    def tell(**facts: Any) -> Path:
        store.owner()
        files.offer(waiting=3, facts={**FACTS, **facts})
        files.write_due()
        with store.session(SESSION) as unit:
            unit.open()
            unit.save(
                Watermark(
                    session_id=SESSION,
                    openviking_user="df_x",
                    account="a",
                    server_id="s",
                    server_profile="0.5",
                    server_total=7,
                )
            )
        return tmp_path

    yield tell
    store.close()
    workers.close()


def test_a_sick_process_is_told_with_its_reasons_and_the_next_step(gateway: Any) -> None:
    code, shown = run("status", "--storage", str(gateway()))
    assert code == 1
    for word in (
        "NOT healthy",
        "cannot be reached",
        "Look at the server",
        "3 messages",
        "1 batches in doubt",
        "host open",
        "auth_hold",
        "recall forced_open",
        "4 messages, queue_full",
        "42 s",
    ):
        assert word in shown


def test_a_healthy_process_ends_with_0_and_json_is_for_programs(gateway: Any) -> None:
    place = str(gateway(healthy=True))
    assert run("status", "--storage", place)[0] == 0
    code, shown = run("status", "--storage", place, "--json")
    assert code == 0
    told = json.loads(shown)
    assert told["healthy"] is True
    assert told["processes"][0]["waiting"] == 3
    assert "recent" not in told["processes"][0]


def test_the_evidence_archive_holds_status_config_events_and_the_reason_for_no_metrics(
    gateway: Any, tmp_path: Path
) -> None:
    target = tmp_path / "evidence.zip"
    run("status", "--storage", str(gateway()), "--bundle", str(target))
    with zipfile.ZipFile(target) as archive:
        held = {Path(name).name: archive.read(name).decode() for name in archive.namelist()}
    assert json.loads(held["status.json"])["waiting"] == 3
    assert json.loads(held["config.json"]) == {"metrics.port": None}
    assert held["events.ndjson"] == FACTS["recent"][0] + "\n"
    assert "metrics.port is not set" in held["metrics.txt"]


def test_an_archive_that_cannot_be_written_is_said_in_a_sentence(gateway: Any) -> None:
    code, shown = run("status", "--storage", str(gateway()), "--bundle", "/nowhere/at/all.zip")
    assert code == 4
    assert "No such file" in shown


@pytest.mark.parametrize("name", [SESSION, session_hash(SESSION)])
def test_one_session_is_shown_by_its_id_or_its_label(gateway: Any, name: str) -> None:
    place = str(gateway())
    code, shown = run("status", "--storage", place, "--session", name)
    assert code == 0
    assert SESSION in shown
    code, shown = run("status", "--storage", place, "--session", name, "--json")
    assert json.loads(shown)["messages on the server, as known"] == 7


def test_an_unknown_session_says_how_to_name_it(gateway: Any) -> None:
    code, shown = run("status", "--storage", str(gateway()), "--session", "nobody")
    assert code == 2
    assert "resilient-ov identity" in shown


def test_a_storage_without_a_gateway_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "openviking").mkdir()
    code, shown = run("status", "--storage", str(tmp_path))
    assert code == 1
    assert "No gateway is running" in shown
    assert run("status", "--storage", str(tmp_path / "other"))[0] == 4
    assert run("status")[0] == 2


def test_a_switch_is_written_for_every_process_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "openviking").mkdir()
    place = ("--storage", str(tmp_path))
    code, shown = run("switch", "all", "disabled", "--for", "30m", *place)
    assert code == 0
    assert "for 30m" in shown
    text = (tmp_path / "openviking" / "switches.json").read_text()
    assert json.loads(text)["switches"]["recall"]["mode"] == "disabled"
    code, shown = run("switch", "all", "normal", *place)
    assert code == 0
    code, shown = run("switch", "write", "forced_open", *place)
    assert "switch write normal" in shown


@pytest.mark.parametrize(
    "wrong",
    [
        ("nobody", "disabled"),
        ("all", "off"),
        ("recall", "disabled"),
        ("all", "disabled", "--for", "soon"),
        ("all", "disabled", "--for", "0s"),
    ],
)
def test_a_wrong_switch_is_refused_in_a_sentence(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    (tmp_path / "openviking").mkdir()
    code, shown = run("switch", *wrong, "--storage", str(tmp_path))
    assert code == 2
    assert "Error:" in shown
    assert "Traceback" not in shown


def test_a_switch_file_that_is_torn_is_named_and_kept(tmp_path: Path) -> None:
    place = tmp_path / "openviking"
    place.mkdir()
    (place / "switches.json").write_text("{")
    code, shown = run("switch", "all", "normal", "--storage", str(tmp_path))
    assert code == 2
    assert "remove it" in shown
