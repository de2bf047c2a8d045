import json
import zipfile
from pathlib import Path

import pytest

from resilient_ov_chaos.cast import personas
from resilient_ov_chaos.checkers.catalogue import CHECKERS
from resilient_ov_chaos.faults.catalogue import FAULTS
from resilient_ov_chaos.history import Call, to_line
from resilient_ov_chaos.leftovers_reader import read_leftovers
from resilient_ov_chaos.marks import ANSWER_CANARY
from resilient_ov_chaos.saved import load_run, save_run
from resilient_ov_chaos.snapshot import BUNDLE, SEEN, snapshot
from resilient_ov_chaos.verdict import Status
from tests.unit.chaos.story import RUN, Story, msg


def test_a_scenario_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = Story().call(Call.ADD, 11.0, presented=[msg(1)]).stored(msg(1)).run()
    (tmp_path / "history.ndjson").write_bytes(b"".join(map(to_line, run.history.records)))
    save_run(run, tmp_path, fault="down", name=RUN)
    again = load_run(tmp_path)
    assert again.history.records == run.history.records
    assert again.ledger == run.ledger
    assert again.knobs == run.knobs
    assert again.expectation == FAULTS["down"].expectation
    save_run(run, tmp_path, fault="down", name=RUN, slow=True)
    assert load_run(tmp_path).expectation == FAULTS["down"].expectation.at_slow_server()


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"run\.json"):
        load_run(tmp_path)


def leaks(folder: Path, key: str | None = "key-5711") -> str:
    """Return what the checker of secrets finds in a folder."""
    story = Story()
    left = read_leftovers(folder, run=RUN, key=key, personas=personas(RUN))
    story.texts, story.canaries = dict(left.texts), dict(left.canaries)
    (said,) = CHECKERS["secrets"](story.run())
    return said.text if said.status is Status.RED else str(said.status)


LEAKS = {
    "the key": "key-5711",
    "a text or a thread id": msg(1),
    "user 0": f"alice-{RUN}%40chaos.example",
    "a request's headers": "(b'X-API-Key', b'...')",
    "an answer's header or error text": f"said {ANSWER_CANARY}",
}


@pytest.mark.parametrize("what", LEAKS)
@pytest.mark.parametrize("level", ["INFO resilient_ov", "DEBUG span", "DEBUG metrics", "Traceback"])
def test_a_canary_in_any_line_is_found(tmp_path: Path, what: str, level: str) -> None:
    log = tmp_path / "gateway-0.log"
    log.write_text("INFO resilient_ov all is well\n")
    assert leaks(tmp_path) == "green"
    log.write_text(f"INFO resilient_ov all is well\n{level} oh {LEAKS[what]} no\n")
    assert what in leaks(tmp_path)


@pytest.mark.parametrize("place", ["storage/openviking/status", f"{SEEN}/end/state"])
def test_a_canary_in_any_file_is_found(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"who": "df_1234"}')
    assert leaks(tmp_path) == "green"
    (folder / "b.json").write_text(f'{{"who": "alice-{RUN}"}}')
    assert "user 0" in leaks(tmp_path)


def test_a_canary_inside_the_evidence_archive_is_found(tmp_path: Path) -> None:
    kept = tmp_path / SEEN / "end"
    kept.mkdir(parents=True)
    with zipfile.ZipFile(kept / BUNDLE, "w") as archive:
        archive.writestr("process-1/events.ndjson", f"{msg(1)}\n")
    assert "events.ndjson" in leaks(tmp_path)


def test_a_key_that_is_not_known_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "gateway-0.log").write_text("INFO resilient_ov key-5711\n")
    assert leaks(tmp_path, key=None) == "green"


def test_a_snapshot_holds_state_status_page_and_evidence(tmp_path: Path) -> None:
    state = tmp_path / "storage" / "openviking" / "sessions"
    state.mkdir(parents=True)
    (state / "df_1.json").write_text(json.dumps({"revision": 1}))
    snapshot(tmp_path, "end")
    kept = tmp_path / SEEN / "end"
    assert (kept / "state" / "openviking" / "sessions" / "df_1.json").exists()
    assert "No gateway is running" in (kept / "status.txt").read_text()
    with zipfile.ZipFile(kept / BUNDLE) as archive:
        assert archive.namelist() == []


def test_a_snapshot_before_any_state_is_empty(tmp_path: Path) -> None:
    snapshot(tmp_path, "after-fault")
    assert list((tmp_path / SEEN / "after-fault").iterdir()) == []
