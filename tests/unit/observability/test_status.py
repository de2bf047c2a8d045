import json

import pytest

from resilient_ov import events
from resilient_ov.domain.exchange import Operation
from resilient_ov_observability.status import StatusBoard
from tests.unit.observability.builders import (
    SESSION_HASH,
    ManualClock,
    breaker,
    call,
    degraded,
    failed_attempt,
    failed_operation,
    operation,
)


@pytest.fixture
def clock():
    return ManualClock(0.0)


@pytest.fixture
def board(clock):
    return StatusBoard(clock=clock)


def test_before_anything_happened_health_is_unknown(board):
    shown = board.snapshot()
    assert shown["healthy"] is None
    assert shown["up"] is None
    assert (shown["why"], shown["next"]) == ([], [])
    assert shown["since"] == "2026-01-01T00:00:00Z"


def test_a_success_makes_memory_healthy_since_then(board, clock):
    clock.now_s = 60.0
    board.emit(operation())
    clock.now_s = 90.0
    board.emit(operation())
    clock.now_s = 95.0
    shown = board.snapshot()
    assert (shown["healthy"], shown["since"]) == (True, "2026-01-01T00:01:00Z")
    assert shown["seconds_since_success"] == {"search": 5.0}


def test_an_open_breaker_is_unhealthy_with_why_and_next(board, clock):
    board.emit(operation())
    clock.now_s = 120.0
    board.emit(breaker(events.BreakerState.OPEN))
    shown = board.snapshot()
    assert (shown["healthy"], shown["since"]) == (False, "2026-01-01T00:02:00Z")
    assert shown["breakers"] == {"recall": {"state": "open", "since": "2026-01-01T00:02:00Z"}}
    assert shown["why"] == ["The breaker of recall is open: too many of its requests failed."]
    assert "resilient-ov check" in shown["next"][0]
    board.emit(breaker(events.BreakerState.HALF_OPEN))
    assert board.snapshot()["healthy"] is False
    board.emit(breaker(events.BreakerState.CLOSED))
    board.emit(operation())
    assert board.snapshot()["healthy"] is True


def test_three_failed_attempts_are_unhealthy(board):
    for _ in range(3):
        board.emit(failed_attempt())
    shown = board.snapshot()
    assert (shown["healthy"], shown["up"]) == (False, False)
    assert shown["why"] == ["The last three attempts failed."]


def test_a_hold_runs_out_by_itself(board, clock):
    hold = events.HoldChanged(
        group=events.Group.RECALL, kind=events.HoldKind.RETRY_AFTER, hold_s=9.0
    )
    board.emit(operation())
    board.emit(hold)
    clock.now_s = 4.0
    shown = board.snapshot()
    assert shown["holds"] == [{"group": "recall", "kind": "retry_after", "left_s": 5.0}]
    assert shown["healthy"] is False
    clock.now_s = 9.0
    shown = board.snapshot()
    assert (shown["holds"], shown["healthy"]) == ([], True)


def test_an_auth_hold_ends_when_it_is_told(board):
    board.emit(operation())
    for hold_s, healthy in ((30.0, False), (0.0, True)):
        board.emit(
            events.HoldChanged(group=events.Group.HOST, kind=events.HoldKind.AUTH, hold_s=hold_s)
        )
        assert board.snapshot()["healthy"] is healthy


def test_switches_are_shown_and_explained(board):
    board.emit(operation())
    board.emit(events.SwitchChanged(group=events.Group.RECALL, mode=events.SwitchMode.DISABLED))
    shown = board.snapshot()
    assert shown["switches"] == {"recall": "disabled"}
    assert shown["healthy"] is False
    assert "resilient-ov switch" in shown["next"][0]


def test_what_waits_and_what_is_in_doubt_is_shown(board):
    board.emit(events.PendingChanged(writes=4, in_doubt=1, commits=2, oldest_s=7.5))
    shown = board.snapshot()
    assert shown["pending"] == {"writes": 4, "in_doubt": 1, "commits": 2, "oldest_s": 7.5}
    assert len(shown["why"]) == 2


def test_state_that_cannot_be_written_is_unhealthy(board):
    board.emit(operation())
    board.emit(events.StateError(reason=events.StateErrorReason.UNWRITABLE))
    board.emit(events.StatePersistence(persistent=False))
    shown = board.snapshot()
    assert shown["state"] == {"persistent": False, "errors": {"unwritable": 1}}
    assert shown["healthy"] is False
    board.emit(events.StatePersistence(persistent=True))
    assert board.snapshot()["healthy"] is True


def test_counts_are_kept_by_word(board):
    board.emit(call())
    board.emit(call(outcome=events.CallOutcome.STALE))
    board.emit(degraded())
    board.emit(events.MessagesCounted(result=events.MessageResult.STORED, count=5))
    board.emit(events.MessagesDropped(reason=events.DropReason.QUEUE_FULL, count=3))
    board.emit(events.ExtractionTask(status=events.ExtractionStatus.FAILED))
    board.emit(events.SinkError(sink=events.SinkName.LOG))
    shown = board.snapshot()
    assert shown["calls"] == {"ok": 1, "stale": 1}
    assert shown["degraded"] == {"unavailable": 1}
    assert shown["messages"] == {"stored": 5}
    assert shown["dropped"] == {"queue_full": 3}
    assert shown["extraction_tasks"] == {"failed": 1}
    assert shown["sink_errors"] == {"log": 1}


def test_the_last_failure_is_shown_with_its_age(board, clock):
    board.emit(failed_operation())
    board.emit(operation(status=events.OperationStatus.CANCELLED))
    clock.now_s = 30.0
    assert board.snapshot()["last_failure"] == {
        "operation": "search",
        "reason": "server_error",
        "status_code": 500,
        "error_type": "OpenVikingUnavailableError",
        "request_id": "r" * 32,
        "session_hash": SESSION_HASH,
        "trace_id": "trace-1",
        "seconds_ago": 30.0,
    }


def test_the_process_says_what_it_is(board):
    board.emit(
        events.ConfigLoaded(
            version="0.1.0",
            server_profile="0.5",
            account_alias="acct_1",
            summary=(("auth.api_key", "set"), ("base_url", "http://SECRET")),
        )
    )
    assert board.snapshot()["process"] == {
        "started": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "server_profile": "0.5",
        "account_alias": "acct_1",
        "settings": {"auth.api_key": "set"},
    }


def test_every_event_leaves_the_same_json_clean_shape(board):
    before = board.snapshot()
    for event in (operation(), failed_operation(), breaker(events.BreakerState.OPEN), degraded()):
        board.emit(event)
    after = board.snapshot()
    assert list(before) == list(after)
    assert json.loads(json.dumps(after, allow_nan=False)) == after


def test_the_revision_grows_with_what_is_worth_writing_down(board):
    def grew(event):
        before = board.revision
        board.emit(event)
        return board.revision > before

    assert grew(operation())
    assert not grew(operation())
    assert not grew(call())
    assert not grew(events.PoolHealed())
    assert grew(failed_operation())
    assert grew(events.PendingChanged(writes=1, in_doubt=0))
    assert grew(breaker(events.BreakerState.OPEN))
    assert grew(events.MessagesDropped(reason=events.DropReason.REJECTED, count=1))


def test_words_out_of_nowhere_are_not_shown(board):
    board.emit(degraded("because SECRET"))
    board.emit(call(outcome="SECRET"))
    board.emit(failed_operation(operation="SECRET", reason="SECRET", error_type="SecretError"))
    assert "SECRET" not in json.dumps(board.snapshot())


@pytest.mark.parametrize(
    "event",
    [
        events.BreakerChanged(
            group="SECRET", from_state=events.BreakerState.OPEN, to_state=events.BreakerState.OPEN
        ),
        events.HoldChanged(group=events.Group.HOST, kind="SECRET", hold_s=1.0),
        events.SwitchChanged(group=events.Group.RECALL, mode="SECRET"),
        events.StateError(reason="SECRET"),
    ],
)
def test_a_key_out_of_nowhere_is_refused(board, event):
    with pytest.raises(ValueError, match="is not a valid"):
        board.emit(event)
    assert "SECRET" not in json.dumps(board.snapshot())


def test_after_a_fork_only_configuration_and_switches_are_still_true(board):
    board.emit(events.ConfigLoaded(version="0.1.0", server_profile="0.5", account_alias="acct_1"))
    board.emit(events.SwitchChanged(group=events.Group.RECALL, mode=events.SwitchMode.SHADOW))
    board.emit(events.PendingChanged(writes=4, in_doubt=1))
    board.emit(breaker(events.BreakerState.OPEN))
    board.emit(operation(operation=Operation.HEALTH, group=None))
    board._lock.acquire()
    board.renew_after_fork()
    shown = board.snapshot()
    assert (shown["healthy"], shown["breakers"], shown["pending"]["writes"]) == (None, {}, 0)
    assert shown["switches"] == {"recall": "shadow"}
    assert shown["process"]["version"] == "0.1.0"
    assert shown["seconds_since_success"] == {}


def test_the_handlers_are_what_emit_uses(board):
    assert set(board.handlers()) <= set(events.Event.__args__)
