import pytest

from resilient_ov.domain.exchange import Evidence, Failure, FailureKind, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import Action, classify
from resilient_ov.policy.rules import Degradation, Group, ReplayClass
from tests.unit.policy.failures import (
    answered,
    html,
    reset,
    saturated,
    timed_out,
    unreachable,
)

READS = [
    Operation.HEALTH,
    Operation.SESSION_GET,
    Operation.SEARCH,
    Operation.TASK_STATUS,
    Operation.CONTENT_READ,
    Operation.FS_LIST,
]
REPLAYABLE = [Operation.SESSION_ENSURE, Operation.SESSION_COMMIT]
ALL = list(Operation)


def action(operation: Operation, failure: Failure) -> Action:
    return classify(OPERATIONS[operation], failure).action


def test_every_operation_has_its_row() -> None:
    assert set(OPERATIONS) == set(Operation)
    assert all(OPERATIONS[operation].operation is operation for operation in Operation)


@pytest.mark.parametrize(
    ("operation", "group", "replay", "degradation"),
    [
        (Operation.HEALTH, None, ReplayClass.SAFE, Degradation.REPORTED),
        (Operation.SEARCH, Group.RECALL, ReplayClass.SAFE, Degradation.EMPTY),
        (Operation.MESSAGES_ADD, Group.APPEND, ReplayClass.NEVER, Degradation.DEFERRED),
        (Operation.SESSION_COMMIT, Group.COMMIT, ReplayClass.REPLAYABLE, Degradation.DEFERRED),
        (Operation.SESSION_ENSURE, Group.SESSION, ReplayClass.REPLAYABLE, Degradation.DEFERRED),
        (Operation.SESSION_GET, Group.SESSION, ReplayClass.SAFE, Degradation.DEFERRED),
        (Operation.CONTENT_READ, Group.SESSION, ReplayClass.SAFE, Degradation.DEFERRED),
        (Operation.FS_LIST, Group.SESSION, ReplayClass.SAFE, Degradation.DEFERRED),
        (Operation.TASK_STATUS, Group.SESSION, ReplayClass.SAFE, Degradation.DEFERRED),
    ],
)
def test_row(
    operation: Operation, group: Group | None, replay: ReplayClass, degradation: Degradation
) -> None:
    row = OPERATIONS[operation]
    assert (row.group, row.replay, row.degradation) == (group, replay, degradation)


def test_no_operation_belongs_to_the_host_group() -> None:
    assert Group.HOST not in {row.group for row in OPERATIONS.values()}


def test_routes_are_templates_without_values() -> None:
    for row in OPERATIONS.values():
        for route in row.routes:
            method, path = route.split(" ")
            assert method in {"GET", "POST"}
            assert path.startswith("/")
            assert "?" not in path


@pytest.mark.parametrize("operation", READS + REPLAYABLE)
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_busy_server_is_asked_again_where_nothing_can_be_doubled(
    operation: Operation, status: int
) -> None:
    assert action(operation, answered(status)) is Action.RETRY


@pytest.mark.parametrize("enveloped", [True, False])
@pytest.mark.parametrize("status", [429, 502, 503, 504, 500])
def test_answered_append_is_never_sent_again(status: int, enveloped: bool) -> None:
    failure = answered(status, enveloped=enveloped)
    assert action(Operation.MESSAGES_ADD, failure) is not Action.RETRY


@pytest.mark.parametrize("operation", ALL)
def test_500_is_retried_for_reads_only(operation: Operation) -> None:
    expected = operation in READS
    assert (action(operation, answered(500)) is Action.RETRY) is expected


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 412, 413, 422, 501])
@pytest.mark.parametrize("enveloped", [True, False])
def test_deterministic_answer_is_never_retried(
    operation: Operation, status: int, enveloped: bool
) -> None:
    assert action(operation, answered(status, enveloped=enveloped)) is not Action.RETRY


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_never_retried(operation: Operation, status: int) -> None:
    failure = answered(status, enveloped=False, kind=FailureKind.PROTOCOL)
    assert action(operation, failure) is not Action.RETRY


@pytest.mark.parametrize("operation", ALL)
def test_failed_connect_is_retried_everywhere(operation: Operation) -> None:
    assert action(operation, unreachable()) is Action.RETRY


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("kind", [FailureKind.RESET, FailureKind.TIMEOUT])
def test_what_was_not_sent_is_retried_everywhere(operation: Operation, kind: FailureKind) -> None:
    assert action(operation, Failure(kind=kind, evidence=Evidence.NOT_SENT)) is Action.RETRY


@pytest.mark.parametrize("operation", READS + REPLAYABLE)
@pytest.mark.parametrize("failure", [timed_out(), reset()])
def test_lost_answer_is_retried_where_nothing_can_be_doubled(
    operation: Operation, failure: Failure
) -> None:
    assert action(operation, failure) is Action.RETRY


@pytest.mark.parametrize("failure", [timed_out(), reset(), html(), answered(502)])
def test_lost_answer_of_an_append_is_settled(failure: Failure) -> None:
    assert action(Operation.MESSAGES_ADD, failure) is Action.SETTLE


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("failure", [unreachable(FailureKind.TLS), saturated()])
def test_failed_handshake_and_own_saturation_are_not_retried(
    operation: Operation, failure: Failure
) -> None:
    assert action(operation, failure) is Action.GIVE_UP


@pytest.mark.parametrize("operation", READS + REPLAYABLE)
def test_answer_that_is_not_openvikings_is_not_retried(operation: Operation) -> None:
    assert action(operation, html()) is Action.GIVE_UP


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("code", ["WRITE_CONFLICT", "ABORTED", "CONFLICT"])
def test_conflict_is_retried_once_except_for_an_append(operation: Operation, code: str) -> None:
    decision = classify(OPERATIONS[operation], answered(409, code))
    expected = operation is not Operation.MESSAGES_ADD
    assert (decision.action is Action.RETRY) is expected
    assert decision.retry_once is expected


@pytest.mark.parametrize("operation", ALL)
def test_existing_session_is_what_ensure_wanted(operation: Operation) -> None:
    expected = operation is Operation.SESSION_ENSURE
    found = action(operation, answered(409, "ALREADY_EXISTS"))
    assert (found is Action.ACCEPT) is expected
    assert found is not Action.RETRY


def test_existing_session_is_only_believed_from_the_server_itself() -> None:
    failure = answered(409, "ALREADY_EXISTS", enveloped=False)
    assert action(Operation.SESSION_ENSURE, failure) is Action.GIVE_UP
