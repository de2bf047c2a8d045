import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.domain.exchange import Evidence, Failure, FailureKind, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import (
    Action,
    AttemptOutcome,
    AuthSignal,
    DegradeReason,
    RetryReason,
    Sample,
    classify,
)
from resilient_ov.policy.rules import Group
from tests.unit.policy.failures import (
    answered,
    html,
    reset,
    saturated,
    timed_out,
    unreachable,
)

SEARCH = OPERATIONS[Operation.SEARCH]
ADD = OPERATIONS[Operation.MESSAGES_ADD]
ENSURE = OPERATIONS[Operation.SESSION_ENSURE]
COMMIT = OPERATIONS[Operation.SESSION_COMMIT]
READ = OPERATIONS[Operation.CONTENT_READ]


@pytest.mark.parametrize(
    ("failure", "not_applied"),
    [
        (answered(400), True),
        (answered(401), True),
        (answered(403), True),
        (answered(404), True),
        (answered(409), True),
        (answered(413), True),
        (answered(422), True),
        (answered(429), True),
        (answered(501), True),
        (answered(503), True),
        (answered(500), False),
        (answered(502), False),
        (answered(504), False),
        (answered(413, enveloped=False), True),
        (answered(400, enveloped=False), False),
        (answered(429, enveloped=False), False),
        (answered(501, enveloped=False), False),
        (answered(503, enveloped=False), False),
        (answered(302, enveloped=False, kind=FailureKind.PROTOCOL), False),
        (html(), False),
        (timed_out(), False),
        (reset(), False),
        (unreachable(), True),
        (unreachable(FailureKind.TLS), True),
        (saturated(), True),
        (Failure(kind=FailureKind.RESET, evidence=Evidence.NOT_SENT), True),
        # A status line came, the rest did not: nobody knows.
        (Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, status=400), False),
        (Failure(kind=FailureKind.PROTOCOL, evidence=Evidence.ANSWERED), False),
    ],
)
def test_evidence_of_an_append(failure: Failure, not_applied: bool) -> None:
    decision = classify(ADD, failure)
    assert decision.not_applied is not_applied
    assert (decision.action is Action.SETTLE) is not not_applied


@pytest.mark.parametrize(
    ("failure", "group_sample", "host_sample"),
    [
        (answered(400), Sample.IGNORE, Sample.SUCCESS),
        (answered(401), Sample.IGNORE, Sample.SUCCESS),
        (answered(403), Sample.IGNORE, Sample.SUCCESS),
        (answered(404), Sample.IGNORE, Sample.SUCCESS),
        (answered(413), Sample.IGNORE, Sample.SUCCESS),
        (answered(422), Sample.IGNORE, Sample.SUCCESS),
        (answered(429), Sample.IGNORE, Sample.SUCCESS),
        (answered(405), Sample.IGNORE, Sample.SUCCESS),
        (answered(410), Sample.IGNORE, Sample.SUCCESS),
        (answered(404, enveloped=False), Sample.IGNORE, Sample.SUCCESS),
        (answered(501), Sample.IGNORE, Sample.SUCCESS),
        (answered(501, enveloped=False), Sample.FAILURE, Sample.SUCCESS),
        (answered(500), Sample.FAILURE, Sample.SUCCESS),
        (answered(502, enveloped=False), Sample.FAILURE, Sample.SUCCESS),
        (answered(503), Sample.FAILURE, Sample.SUCCESS),
        (html(), Sample.FAILURE, Sample.SUCCESS),
        (
            Failure(kind=FailureKind.PROTOCOL, evidence=Evidence.UNKNOWN),
            Sample.FAILURE,
            Sample.SUCCESS,
        ),
        (timed_out(), Sample.FAILURE, Sample.SUCCESS),
        (reset(), Sample.FAILURE, Sample.SUCCESS),
        (unreachable(), Sample.IGNORE, Sample.FAILURE),
        (unreachable(FailureKind.TLS), Sample.IGNORE, Sample.FAILURE),
        (unreachable(FailureKind.TIMEOUT), Sample.IGNORE, Sample.FAILURE),
        # The connection was there before: it says nothing against the host.
        (unreachable(FailureKind.RESET), Sample.FAILURE, Sample.SUCCESS),
        (saturated(), Sample.IGNORE, Sample.IGNORE),
        (
            Failure(kind=FailureKind.TLS, evidence=Evidence.NOT_SENT, byte_received=True),
            Sample.IGNORE,
            Sample.SUCCESS,
        ),
    ],
)
def test_whose_fault_it_is(failure: Failure, group_sample: Sample, host_sample: Sample) -> None:
    decision = classify(SEARCH, failure)
    assert (decision.group_sample, decision.host_sample) == (group_sample, host_sample)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_fault_of_the_model_provider_is_an_outage_of_recall(status: int) -> None:
    failure = answered(status, provider_fault=True)
    decision = classify(SEARCH, failure)
    assert decision.group_sample is Sample.FAILURE
    assert decision.reason is DegradeReason.UNAVAILABLE
    assert decision.auth is AuthSignal.SILENT
    assert classify(ENSURE, failure).group_sample is Sample.IGNORE


def test_refused_key_of_the_provider_counts_as_a_server_error_and_is_not_retried() -> None:
    decision = classify(SEARCH, answered(401, provider_fault=True))
    assert decision.outcome is AttemptOutcome.SERVER_ERROR
    assert decision.action is Action.GIVE_UP


@pytest.mark.parametrize("rule", [SEARCH, ENSURE, COMMIT])
def test_rate_limit_of_the_provider_holds_recall_only(rule: object) -> None:
    failure = answered(429, provider_fault=True, retry_after_s=3.0)
    assert classify(rule, failure).hold_group is Group.RECALL  # type: ignore[arg-type]


def test_own_rate_limit_holds_the_group_of_the_operation() -> None:
    decision = classify(COMMIT, answered(429, retry_after_s=3.0))
    assert decision.hold_group is Group.COMMIT
    assert decision.retry_after_s == 3.0


@pytest.mark.parametrize(
    ("status", "heard"), [(429, True), (503, True), (502, True), (404, False), (401, False)]
)
def test_only_busy_answers_may_ask_to_wait(status: int, heard: bool) -> None:
    decision = classify(SEARCH, answered(status, retry_after_s=3.0))
    assert (decision.retry_after_s is not None) is heard


@pytest.mark.parametrize(
    ("failure", "signal"),
    [
        (answered(401), AuthSignal.UNAUTHENTICATED),
        (answered(401, enveloped=False), AuthSignal.UNAUTHENTICATED),
        (answered(403), AuthSignal.FORBIDDEN),
        (answered(404), AuthSignal.ACCEPTED),
        (answered(412), AuthSignal.ACCEPTED),
        (answered(409), AuthSignal.ACCEPTED),
        (answered(409, "ALREADY_EXISTS"), AuthSignal.ACCEPTED),
        (answered(404, enveloped=False), AuthSignal.SILENT),
        (answered(400), AuthSignal.SILENT),
        (answered(503), AuthSignal.SILENT),
        (timed_out(), AuthSignal.SILENT),
        (unreachable(), AuthSignal.SILENT),
    ],
)
def test_what_an_answer_says_of_our_key(failure: Failure, signal: AuthSignal) -> None:
    assert classify(ENSURE, failure).auth is signal


def test_forbidden_path_says_nothing_of_the_identity() -> None:
    assert classify(READ, answered(403)).auth is AuthSignal.SILENT
    assert classify(READ, answered(401)).auth is AuthSignal.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (answered(400), DegradeReason.PROTOCOL),
        (answered(405), DegradeReason.PROTOCOL),
        (answered(501), DegradeReason.PROTOCOL),
        (answered(401), DegradeReason.AUTH),
        (answered(403), DegradeReason.AUTH),
        (answered(429), DegradeReason.UNAVAILABLE),
        (answered(500), DegradeReason.UNAVAILABLE),
        (unreachable(), DegradeReason.UNAVAILABLE),
        (unreachable(FailureKind.TLS), DegradeReason.UNAVAILABLE),
        (reset(), DegradeReason.UNAVAILABLE),
        (timed_out(), DegradeReason.DEADLINE),
        (html(), DegradeReason.PROTOCOL),
        (saturated(), DegradeReason.REFUSED),
    ],
)
def test_degrade_reason(failure: Failure, reason: DegradeReason) -> None:
    assert classify(SEARCH, failure).reason is reason


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (answered(400), AttemptOutcome.CLIENT_ERROR),
        (answered(405), AttemptOutcome.PROTOCOL),
        (answered(401), AttemptOutcome.AUTH),
        (answered(429), AttemptOutcome.RATE_LIMITED),
        (answered(500), AttemptOutcome.SERVER_ERROR),
        (unreachable(), AttemptOutcome.CONNECT),
        (unreachable(FailureKind.TLS), AttemptOutcome.TLS),
        (timed_out(), AttemptOutcome.TIMEOUT),
        (reset(), AttemptOutcome.RESET),
        (html(), AttemptOutcome.PROTOCOL),
        (saturated(), None),
    ],
)
def test_attempt_outcome(failure: Failure, outcome: AttemptOutcome | None) -> None:
    assert classify(SEARCH, failure).outcome is outcome


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (unreachable(), RetryReason.CONNECT),
        (timed_out(), RetryReason.TIMEOUT),
        (reset(), RetryReason.RESET),
        (answered(503), RetryReason.SERVER_ERROR),
        (answered(429), RetryReason.RATE_LIMITED),
        (answered(409, "CONFLICT"), RetryReason.CONFLICT),
        (answered(404), None),
    ],
)
def test_retry_reason(failure: Failure, reason: RetryReason | None) -> None:
    assert classify(SEARCH, failure).retry_reason is reason


def test_accepted_conflict_counts_as_success_of_the_group() -> None:
    decision = classify(ENSURE, answered(409, "ALREADY_EXISTS"))
    assert decision.group_sample is Sample.SUCCESS


@pytest.mark.parametrize(
    ("failure", "answered_well"),
    [(answered(404), True), (answered(503), False), (timed_out(), False), (html(), True)],
)
def test_answered_without_5xx(failure: Failure, answered_well: bool) -> None:
    assert classify(SEARCH, failure).answered is answered_well


_failures = st.builds(
    Failure,
    kind=st.sampled_from(FailureKind),
    evidence=st.sampled_from(Evidence),
    status=st.none() | st.integers(100, 599),
    code=st.none() | st.sampled_from(["CONFLICT", "ALREADY_EXISTS", "NOT_FOUND"]),
    enveloped=st.booleans(),
    provider_fault=st.booleans(),
    retry_after_s=st.none() | st.floats(0, 1e6),
    byte_received=st.booleans(),
)


@given(_failures, st.sampled_from(Operation))
def test_every_failure_has_a_consistent_decision(failure: Failure, operation: Operation) -> None:
    rule = OPERATIONS[operation]
    decision = classify(rule, failure)
    assert (decision.retry_reason is not None) == (decision.action is Action.RETRY)
    if rule is ADD and decision.action is Action.RETRY:
        assert failure.evidence is Evidence.NOT_SENT
    if rule is ADD and not decision.not_applied:
        assert decision.action is Action.SETTLE
    if rule is not ADD:
        assert decision.action is not Action.SETTLE
    if failure.evidence is Evidence.NOT_SENT:
        assert decision.not_applied
    own_4xx = failure.kind in (FailureKind.CLIENT_ERROR, FailureKind.AUTH)
    if own_4xx and not failure.provider_fault and failure.status not in (405, 410, 501):
        assert decision.group_sample is not Sample.FAILURE
