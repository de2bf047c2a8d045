import pytest

from resilient_ov.events import AttemptOutcome, BreakerState, Group
from resilient_ov_observability.uptime import Uptime

FAILED = [
    AttemptOutcome.SERVER_ERROR,
    AttemptOutcome.CONNECT,
    AttemptOutcome.TLS,
    AttemptOutcome.TIMEOUT,
    AttemptOutcome.RESET,
    AttemptOutcome.PROTOCOL,
]
ANSWERED = [AttemptOutcome.CLIENT_ERROR, AttemptOutcome.RATE_LIMITED, AttemptOutcome.AUTH]


def test_nothing_is_known_before_the_first_attempt():
    assert Uptime().up is None


def test_a_success_means_up_and_is_told_once():
    uptime = Uptime()
    assert uptime.succeeded()
    assert not uptime.succeeded()
    assert uptime.up is True


@pytest.mark.parametrize("outcome", ANSWERED)
def test_an_answer_without_5xx_means_up(outcome):
    uptime = Uptime()
    assert uptime.attempted(outcome)
    assert uptime.up is True


@pytest.mark.parametrize("outcome", FAILED)
def test_the_third_failure_in_a_row_means_down(outcome):
    uptime = Uptime()
    uptime.succeeded()
    assert [uptime.attempted(outcome) for _ in range(4)] == [False, False, True, False]
    assert uptime.up is False


def test_two_failures_leave_it_unknown():
    uptime = Uptime()
    uptime.attempted(AttemptOutcome.TIMEOUT)
    uptime.attempted(AttemptOutcome.TIMEOUT)
    assert uptime.up is None


def test_an_answer_between_failures_starts_the_count_again():
    uptime = Uptime()
    for _ in range(5):
        uptime.attempted(AttemptOutcome.TIMEOUT)
        uptime.attempted(AttemptOutcome.TIMEOUT)
        uptime.succeeded()
    assert uptime.up is True


def test_cancellation_says_nothing():
    uptime = Uptime()
    uptime.attempted(AttemptOutcome.TIMEOUT)
    uptime.attempted(AttemptOutcome.CANCELLED)
    uptime.attempted(AttemptOutcome.TIMEOUT)
    uptime.attempted(AttemptOutcome.TIMEOUT)
    assert uptime.up is False


def test_an_open_breaker_means_down_whatever_the_attempts_of_others_say():
    uptime = Uptime()
    uptime.succeeded()
    assert uptime.breaker(Group.RECALL, BreakerState.OPEN)
    assert not uptime.attempted(AttemptOutcome.OK)
    assert uptime.up is False


def test_half_open_alone_does_not_mean_up():
    uptime = Uptime()
    uptime.attempted(AttemptOutcome.TIMEOUT)
    uptime.breaker(Group.HOST, BreakerState.OPEN)
    uptime.breaker(Group.HOST, BreakerState.HALF_OPEN)
    assert uptime.up is False


@pytest.mark.parametrize("probe_first", [True, False])
def test_up_again_when_the_breaker_closed_after_a_good_probe(probe_first):
    uptime = Uptime()
    uptime.breaker(Group.RECALL, BreakerState.OPEN)
    uptime.breaker(Group.RECALL, BreakerState.HALF_OPEN)
    if probe_first:
        uptime.succeeded()
    uptime.breaker(Group.RECALL, BreakerState.CLOSED)
    uptime.succeeded()
    assert uptime.up is True


def test_an_auth_hold_means_down_until_it_ends():
    uptime = Uptime()
    uptime.attempted(AttemptOutcome.AUTH)
    assert uptime.auth_hold(Group.HOST, stands=True)
    assert uptime.up is False
    assert uptime.auth_hold(Group.HOST, stands=False)
    assert uptime.up is True
