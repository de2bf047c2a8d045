import contextlib
import json
import logging
import subprocess
import sys
import types

import pytest
import structlog

from resilient_ov import events
from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov_observability import line as line_module
from resilient_ov_observability.logs import LogSink
from tests.unit.observability.builders import (
    ORIGIN,
    SESSION_HASH,
    USER_HASH,
    ManualClock,
    breaker,
    degraded,
    failed_operation,
    operation,
)


class Lines(logging.Handler):
    """Keeps what reaches the logger, parsed."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    @property
    def raw(self):
        return [record.getMessage() for record in self.records]

    @property
    def told(self):
        return [(record.levelname, json.loads(record.getMessage())) for record in self.records]

    def named(self, name):
        return [(level, fields) for level, fields in self.told if fields["event"] == name]


@pytest.fixture
def lines():
    handler = Lines()
    logger = logging.getLogger("resilient_ov")
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def sink(clock, lines):
    return LogSink(clock=clock, account_alias="acct_1")


def test_a_success_is_one_debug_line_with_its_facts(sink, lines):
    sink.emit(operation(duration_s=0.0123456, attempts=2, result_count=3))
    ((level, fields),) = lines.told
    assert level == "DEBUG"
    assert fields == {
        "event": "openviking.search",
        "operation": "search",
        "group": "recall",
        "duration_ms": 12.346,
        "success": True,
        "status_code": 200,
        "retry_count": 1,
        "result_count": 3,
        "request_id": "r" * 32,
        "account_alias": "acct_1",
        "user_hash": USER_HASH,
        "session_hash": SESSION_HASH,
        "trace_id": "trace-1",
    }


def test_the_event_comes_first_in_the_line(sink, lines):
    sink.emit(operation())
    assert lines.raw[0].startswith('{"event": "openviking.search", ')


@pytest.mark.parametrize("named", list(Operation))
def test_an_operation_has_an_event_of_its_name(sink, lines, named):
    sink.emit(operation(operation=named))
    assert lines.told[0][1]["event"] == f"openviking.{named}"


@pytest.mark.parametrize("status", ["refused", "cancelled"])
def test_a_refusal_or_cancellation_is_debug(sink, lines, status):
    sink.emit(operation(status=events.OperationStatus(status), reason=events.RefusalReason.OPEN))
    assert lines.told[0][0] == "DEBUG"


def test_a_failure_is_one_warning_per_reason_and_minute_with_what_was_held_back(sink, lines, clock):
    for _ in range(10):
        sink.emit(failed_operation())
    sink.emit(failed_operation(reason=FailureKind.TIMEOUT))
    clock.now_s += 60.0
    sink.emit(failed_operation())
    told = [
        (level, f["reason"], f.get("suppressed")) for level, f in lines.named("openviking.search")
    ]
    assert told == [
        ("WARNING", "server_error", None),
        ("WARNING", "timeout", None),
        ("WARNING", "server_error", 9),
    ]


def test_an_auth_failure_is_an_error(sink, lines):
    sink.emit(failed_operation(reason=FailureKind.AUTH, status_code=401))
    assert lines.told[0][0] == "ERROR"


def test_a_reason_out_of_nowhere_makes_no_new_key(sink, lines):
    for number in range(50):
        sink.emit(failed_operation(reason=f"made up {number}"))
    assert len(lines.told) == 1
    assert "reason" not in lines.told[0][1]


def test_an_outage_is_one_degraded_and_one_recovered(sink, lines, clock):
    for _ in range(50):
        sink.emit(degraded(error_type="OpenVikingUnavailableError"))
        clock.now_s += 1.0
    sink.emit(events.PendingChanged(writes=4, in_doubt=0))
    sink.emit(events.MessagesDropped(reason=events.DropReason.QUEUE_FULL, count=3))
    sink.emit(operation())
    sink.emit(operation())
    ((level, begun),) = lines.named("openviking.degraded")
    assert (level, begun["group"], begun["reason"]) == ("WARNING", "recall", "unavailable")
    assert begun["error_type"] == "OpenVikingUnavailableError"
    assert begun["trace_id"] == "trace-1"
    ((level, ended),) = lines.named("openviking.recovered")
    assert (level, ended["group"], ended["success"]) == ("INFO", "recall", True)
    assert (ended["duration_ms"], ended["pending"], ended["dropped"]) == (50_000.0, 4, 3)
    assert ended["failures"] == 50


def test_dropped_counts_only_what_the_outage_cost(sink, lines):
    sink.emit(events.MessagesDropped(reason=events.DropReason.TOO_LARGE, count=7))
    sink.emit(degraded())
    sink.emit(operation())
    assert lines.named("openviking.recovered")[0][1]["dropped"] == 0


def test_the_success_of_another_group_ends_no_outage_but_the_hosts(sink, lines):
    sink.emit(degraded())
    sink.emit(degraded(group=events.Group.HOST))
    sink.emit(operation(operation=Operation.MESSAGES_ADD, group=events.Group.APPEND))
    assert [f["group"] for _level, f in lines.named("openviking.recovered")] == ["host"]


def test_a_health_check_that_succeeds_ends_the_hosts_outage(sink, lines):
    sink.emit(degraded(group=events.Group.HOST))
    sink.emit(operation(operation=Operation.HEALTH, group=None))
    assert len(lines.named("openviking.recovered")) == 1


def test_an_answer_that_was_under_way_when_the_breaker_opened_is_no_recovery(sink, lines):
    sink.emit(breaker(events.BreakerState.OPEN))
    sink.emit(operation())
    assert lines.named("openviking.recovered") == []
    sink.emit(breaker(events.BreakerState.HALF_OPEN))
    sink.emit(operation())
    assert len(lines.named("openviking.recovered")) == 1


def test_the_hosts_breaker_closing_is_its_recovery(sink, lines):
    sink.emit(breaker(events.BreakerState.OPEN, events.Group.HOST))
    sink.emit(breaker(events.BreakerState.HALF_OPEN, events.Group.HOST))
    sink.emit(breaker(events.BreakerState.CLOSED, events.Group.HOST))
    assert [f["group"] for _level, f in lines.named("openviking.recovered")] == ["host"]


def test_an_outage_by_auth_is_an_error(sink, lines):
    sink.emit(degraded(events.DegradeReason.AUTH))
    assert lines.named("openviking.degraded")[0][0] == "ERROR"


def test_an_auth_hold_is_one_error(sink, lines):
    for hold_s in (30.0, 60.0, 120.0, 0.0):
        sink.emit(
            events.HoldChanged(group=events.Group.HOST, kind=events.HoldKind.AUTH, hold_s=hold_s)
        )
    assert [level for level, _fields in lines.told] == ["ERROR"]
    sink.emit(
        events.HoldChanged(group=events.Group.RECALL, kind=events.HoldKind.RETRY_AFTER, hold_s=5.0)
    )
    assert len(lines.told) == 1


def test_a_scope_error_is_an_error_once_an_hour(sink, lines, clock):
    for _ in range(100):
        sink.emit(degraded(events.DegradeReason.SCOPE, group=None))
        clock.now_s += 60.0
    told = [(level, f["reason"]) for level, f in lines.named("openviking.degraded")]
    assert told == [("ERROR", "scope")] * 2


def test_a_sync_call_on_a_loop_is_one_warning_for_ever(sink, lines, clock):
    for _ in range(10):
        sink.emit(degraded(events.DegradeReason.SYNC_ON_LOOP, group=events.Group.RECALL))
        clock.now_s += 10_000.0
    assert [level for level, _fields in lines.told] == ["WARNING"]
    sink.emit(operation())
    assert lines.named("openviking.recovered") == []


def test_three_hours_of_outage_are_a_few_loud_lines_and_one_error_an_hour(sink, lines, clock):
    for _minute in range(181):
        sink.emit(
            failed_operation(
                status=events.OperationStatus.REFUSED, reason=events.RefusalReason.OPEN
            )
        )
        sink.emit(degraded(events.DegradeReason.REFUSED))
        clock.now_s += 60.0
    told = lines.named("openviking.health")
    assert [level for level, _fields in told] == ["ERROR"] * 3
    first = told[0][1]
    assert first["first_failure_at"] == "2026-01-01T00:16:40Z"
    assert (first["failures"], first["duration_ms"], first["success"]) == (6, 300_000.0, False)
    loud = [level for level, _fields in lines.told if level in ("WARNING", "ERROR")]
    assert len(loud) == 4


def test_a_thousand_refused_calls_are_at_most_five_loud_lines(sink, lines):
    for _ in range(3):
        sink.emit(failed_operation(status_code=503))
        sink.emit(degraded())
    sink.emit(breaker(events.BreakerState.OPEN))
    for _ in range(997):
        sink.emit(
            operation(status=events.OperationStatus.REFUSED, reason=events.RefusalReason.OPEN)
        )
        sink.emit(degraded(events.DegradeReason.REFUSED))
    for _ in range(100):
        sink.emit(operation(operation=Operation.HEALTH, group=None))
    loud = [fields for level, fields in lines.told if level in ("WARNING", "ERROR")]
    assert len(loud) <= 5


EVENTS = [
    (
        events.RetryScheduled(
            operation=Operation.SEARCH, reason=events.RetryReason.RESET, attempt=2, delay_s=0.25
        ),
        "INFO",
        "openviking.retry.scheduled",
        {"reason": "reset", "retry_count": 1, "duration_ms": 250.0},
    ),
    (
        breaker(events.BreakerState.OPEN),
        "WARNING",
        "openviking.breaker.changed",
        {"group": "recall", "reason": "open"},
    ),
    (
        breaker(events.BreakerState.HALF_OPEN),
        "DEBUG",
        "openviking.breaker.changed",
        {"reason": "half_open"},
    ),
    (
        breaker(events.BreakerState.CLOSED),
        "INFO",
        "openviking.breaker.changed",
        {"reason": "closed"},
    ),
    (
        events.BreakerChanged(
            group=events.Group.RECALL,
            from_state=events.BreakerState.HALF_OPEN,
            to_state=events.BreakerState.OPEN,
            open_s=5.0,
        ),
        "DEBUG",
        "openviking.breaker.changed",
        {"reason": "open", "duration_ms": 5_000.0},
    ),
    (
        events.SwitchChanged(
            group=events.Group.APPEND, mode=events.SwitchMode.FORCED_OPEN, for_s=60.0
        ),
        "WARNING",
        "openviking.switch.changed",
        {"group": "append", "reason": "forced_open", "duration_ms": 60_000.0},
    ),
    (
        events.SwitchChanged(group=events.Group.APPEND, mode=events.SwitchMode.NORMAL),
        "INFO",
        "openviking.switch.changed",
        {"reason": "normal"},
    ),
    (
        events.SwitchStanding(
            group=events.Group.APPEND, mode=events.SwitchMode.SHADOW, since_s=3_600.0
        ),
        "WARNING",
        "openviking.switch.standing",
        {"reason": "shadow", "duration_ms": 3_600_000.0},
    ),
    (
        events.CommitFinished(status=events.CommitStatus.GAVE_UP, task_id="t1", origin=ORIGIN),
        "ERROR",
        "openviking.session.commit",
        {"reason": "gave_up", "task_id": "t1", "success": False},
    ),
    (
        events.MessagesDropped(reason=events.DropReason.QUEUE_FULL, count=3, origin=ORIGIN),
        "ERROR",
        "openviking.write.dropped",
        {"reason": "queue_full", "dropped": 3, "session_hash": SESSION_HASH},
    ),
    (
        events.MessagesDropped(reason=events.DropReason.DISABLED, count=3),
        "WARNING",
        "openviking.write.dropped",
        {"reason": "disabled"},
    ),
    (
        events.Reconciled(result=events.ReconciliationResult.PRESENT),
        "INFO",
        "openviking.reconciled",
        {"reason": "present"},
    ),
    (
        events.Reconciled(result=events.ReconciliationResult.UNKNOWABLE),
        "ERROR",
        "openviking.reconciled",
        {"reason": "unknowable"},
    ),
    (
        events.Rebased(reason=events.RebaseReason.EDITED),
        "DEBUG",
        "openviking.state.repaired",
        {"reason": "edited"},
    ),
    (
        events.Rebased(reason=events.RebaseReason.REBUILT),
        "INFO",
        "openviking.state.repaired",
        {"reason": "rebuilt"},
    ),
    (
        events.ExtractionTask(status=events.ExtractionStatus.FAILED, task_id="t"),
        "WARNING",
        "openviking.task.status",
        {"reason": "failed", "success": False, "task_id": "t"},
    ),
    (
        events.ExtractionTask(status=events.ExtractionStatus.COMPLETED),
        "DEBUG",
        "openviking.task.status",
        {"success": True},
    ),
    (
        events.ExtractionTask(status=events.ExtractionStatus.EXPIRED),
        "INFO",
        "openviking.task.status",
        {"reason": "expired"},
    ),
    (
        events.StateError(reason=events.StateErrorReason.UNREADABLE),
        "WARNING",
        "openviking.state.repaired",
        {"reason": "unreadable"},
    ),
    (
        events.StateError(reason=events.StateErrorReason.UNWRITABLE),
        "ERROR",
        "openviking.state.failed",
        {"reason": "unwritable"},
    ),
    (
        events.SearchFinished(results=3, rejected=2),
        "WARNING",
        "openviking.search",
        {"reason": "hits_rejected", "dropped": 2, "result_count": 3},
    ),
    (
        events.SearchFinished(results=3, injection_chars=0),
        "WARNING",
        "openviking.search",
        {"reason": "budget_too_small", "result_count": 3},
    ),
    (
        events.SinkError(sink=events.SinkName.TRACE),
        "WARNING",
        "openviking.sink.failed",
        {"reason": "trace"},
    ),
    (
        events.ConfigLoaded(
            version="0.1.0",
            server_profile="0.5",
            account_alias="a",
            summary=(("auth.api_key", "set"), ("base_url", "http://SECRET")),
        ),
        "INFO",
        "openviking.config.loaded",
        {"version": "0.1.0", "settings": {"auth.api_key": "set"}},
    ),
]


@pytest.mark.parametrize(("event", "level", "name", "fields"), EVENTS)
def test_an_event_reads_as_designed(sink, lines, event, level, name, fields):
    sink.emit(event)
    told_level, told = lines.told[0]
    assert (told_level, told["event"]) == (level, name)
    assert fields.items() <= told.items()


@pytest.mark.parametrize("reason", list(events.StateErrorReason))
def test_every_trouble_with_state_has_words(sink, lines, reason):
    sink.emit(events.StateError(reason=reason))
    assert lines.told[0][1]["reason"] == reason


@pytest.mark.parametrize(
    "event",
    [
        events.PoolHealed(),
        events.StaleRead(),
        events.SearchFinished(results=3),
        events.CommitFinished(status=events.CommitStatus.ACCEPTED),
        events.PendingChanged(writes=1, in_doubt=0),
        events.StatePersistence(persistent=True),
        events.ENTERED[events.Group.RECALL],
    ],
)
def test_what_is_told_elsewhere_is_no_line(sink, lines, event):
    sink.emit(event)
    assert lines.raw == []


def test_state_that_can_be_written_again_is_told_once(sink, lines):
    for persistent in (True, False, False, True, True):
        sink.emit(events.StatePersistence(persistent=persistent))
    ((level, fields),) = lines.told
    assert (level, fields["event"], fields["success"]) == (
        "INFO",
        "openviking.state.repaired",
        True,
    )


def test_held_back_drops_are_added_up(sink, lines, clock):
    for _ in range(3):
        sink.emit(events.MessagesDropped(reason=events.DropReason.REJECTED, count=2))
    clock.now_s += 60.0
    sink.emit(events.MessagesDropped(reason=events.DropReason.REJECTED, count=5))
    assert [(f["dropped"], f.get("suppressed")) for _level, f in lines.told] == [(2, None), (9, 2)]


def test_switches_are_told_each_time(sink, lines):
    for _ in range(3):
        sink.emit(events.SwitchChanged(group=events.Group.RECALL, mode=events.SwitchMode.SHADOW))
    assert len(lines.told) == 3


def test_the_taken_port_is_told_at_info(sink, lines):
    sink.port_in_use()
    assert lines.told == [
        ("INFO", {"event": "openviking.metrics.port_in_use", "account_alias": "acct_1"})
    ]


def test_debug_lines_cost_nothing_when_nobody_listens(sink, lines):
    logging.getLogger("resilient_ov").setLevel(logging.INFO)
    sink.emit(operation())
    assert lines.raw == []


def test_handlers_and_emit_agree(sink, lines):
    sink.handlers()[events.Degraded](degraded())
    assert len(lines.raw) == 1


def test_after_a_fork_nothing_is_held_back_and_no_lock_is_inherited(sink, lines):
    sink.emit(degraded())
    sink.emit(failed_operation())
    sink._lock.acquire()
    sink.renew_after_fork()
    sink.emit(degraded())
    sink.emit(failed_operation())
    assert len(lines.raw) == 4


HOSTILE = [
    "t1\n2026-01-01 CRITICAL root: pwned",
    "x\r\ny",
    "u\u0000v",
    "\u001b[31mred\u2028next\u2029",
    "\u202eright to left",
    '"}\n{"event": "forged',
    "\ud800 lone",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("allow_list", [True, False])
def test_no_value_can_forge_or_break_a_line(sink, lines, monkeypatch, text, allow_list):
    if not allow_list:
        monkeypatch.setattr(line_module.redaction, "clean", dict)
    origin = events.Origin(trace_id=text, user_hash=text, session_hash=text)
    sink.emit(failed_operation(origin=origin, error_type=text, request_id=text, task_id=text))
    (raw,) = lines.raw
    assert raw.isascii()
    assert raw.isprintable()
    assert json.loads(raw)["event"] == "openviking.search"
    assert (text in json.loads(raw).values()) is not allow_list


def noisy(*_arguments, **_keywords):
    raise RuntimeError("the host's processor does not like this")


@pytest.fixture
def host_structlog():
    yield structlog.configure
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "configuration",
    [
        {"processors": [noisy]},
        {
            "processors": [structlog.dev.ConsoleRenderer()],
            "wrapper_class": structlog.make_filtering_bound_logger(50),
        },
        {"logger_factory": structlog.PrintLoggerFactory(), "cache_logger_on_first_use": True},
    ],
)
def test_the_hosts_structlog_configuration_changes_nothing(
    clock, lines, host_structlog, configuration
):
    host_structlog(**configuration)
    LogSink(clock=clock).emit(operation())
    assert lines.told[0][1]["event"] == "openviking.search"


def test_context_variables_of_the_host_do_not_leak_into_our_lines(sink, lines):
    structlog.contextvars.bind_contextvars(prompt="SECRET")
    try:
        sink.emit(operation())
    finally:
        structlog.contextvars.clear_contextvars()
    assert "SECRET" not in lines.raw[0]


def with_and_without(monkeypatch, structlog_module, clock, lines):
    monkeypatch.setattr(line_module, "_structlog", structlog_module)
    LogSink(clock=clock, account_alias="a").emit(operation())
    return lines.raw[-1]


def test_the_line_is_the_same_without_structlog(monkeypatch, clock, lines):
    with_it = with_and_without(monkeypatch, structlog, clock, lines)
    without = with_and_without(monkeypatch, None, clock, lines)
    assert with_it == without


def test_a_structlog_that_cannot_wrap_is_done_without(monkeypatch, clock, lines):
    broken = types.SimpleNamespace(wrap_logger=noisy)
    assert "openviking.search" in with_and_without(monkeypatch, broken, clock, lines)


def test_a_structlog_that_breaks_later_costs_no_line(sink, lines):
    sink._writer._render = noisy
    sink.emit(operation())
    sink.emit(operation())
    assert len(lines.named("openviking.search")) == 2


def test_a_line_of_a_call_is_written_under_the_hosts_trace_id(clock, lines):
    bound = []

    @contextlib.contextmanager
    def host_trace(trace_id):
        bound.append(("in", trace_id, len(lines.raw)))
        yield
        bound.append(("out", trace_id, len(lines.raw)))

    sink = LogSink(clock=clock, host_trace=host_trace)
    sink.emit(operation())
    sink.emit(switched())
    assert bound == [("in", "trace-1", 0), ("out", "trace-1", 1)]
    assert len(lines.raw) == 2


def test_the_hosts_trace_id_is_not_bound_for_a_line_nobody_sees(clock, lines):
    def host_trace(trace_id):
        raise AssertionError

    sink = LogSink(clock=clock, host_trace=host_trace)
    logging.getLogger("resilient_ov").setLevel(logging.ERROR)
    sink.emit(operation())
    sink.emit(failed_operation())


class Hanging(logging.Handler):
    """A host's handler that takes its time."""

    def __init__(self, clock, takes_s):
        super().__init__()
        self.clock, self.takes_s, self.seen = clock, takes_s, 0

    def emit(self, record):
        self.seen += 1
        self.clock.now_s += self.takes_s


@pytest.fixture
def hanging(clock):
    handler = Hanging(clock, takes_s=5.0)
    logging.getLogger("resilient_ov").addHandler(handler)
    yield handler
    logging.getLogger("resilient_ov").removeHandler(handler)


def switched():
    return events.SwitchChanged(group=events.Group.RECALL, mode=events.SwitchMode.SHADOW)


def test_handlers_that_hang_are_counted_and_left_alone_for_a_while(lines, clock, hanging):
    counted = []
    status = types.SimpleNamespace(emit=counted.append)
    sink = LogSink(clock=clock)
    out = events.fan_out({events.SinkName.LOG: sink, events.SinkName.STATUS: status})
    for _ in range(10):
        out.emit(switched())
    assert hanging.seen == 2
    assert counted.count(events.SinkError(sink=events.SinkName.LOG)) == 1
    clock.now_s += 30.0
    out.emit(switched())
    assert hanging.seen == 3


def test_one_long_write_of_a_stopped_process_leaves_nothing_out(sink, lines, clock, hanging):
    for takes_s in (20.0, 0.0, 20.0, 0.0, 0.0):
        hanging.takes_s = takes_s
        sink.emit(switched())
    assert hanging.seen == 5


def test_the_last_lines_are_kept_whatever_the_level(sink, lines):
    logging.getLogger("resilient_ov").setLevel(logging.CRITICAL)
    for _ in range(300):
        sink.emit(operation())
        sink.emit(switched())
    assert lines.raw == []
    assert len(sink.recent()) == 200
    assert json.loads(sink.recent()[0])["event"] == "openviking.switch.changed"


@pytest.mark.parametrize("state", ["missing", "broken"])
def test_logging_works_without_structlog(state, tmp_path):
    if state == "missing":
        breakage = "sys.modules['structlog'] = None"
    else:
        (tmp_path / "structlog.py").write_text("raise RuntimeError('half installed')")
        breakage = f"sys.path.insert(0, {str(tmp_path)!r})"
    code = f"""
import logging, sys
{breakage}
logging.basicConfig(level="DEBUG", stream=sys.stdout, format="%(message)s")
from resilient_ov import events
from resilient_ov_observability.logs import LogSink
class Clock:
    def monotonic_s(self): return 0.0
    def utc_iso(self): return ""
LogSink(clock=Clock()).emit(events.SinkError(sink=events.SinkName.TRACE))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert json.loads(ran.stdout)["event"] == "openviking.sink.failed"
