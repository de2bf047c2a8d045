import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.policy.retry import (
    MAX_HOLD_S,
    NoRetry,
    RetryWait,
    backoff_s,
    no_retry,
    plan_wait,
)
from resilient_ov.settings import RetrySettings

_fractions = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 5), _fractions, st.floats(0, 60), st.floats(0, 60))
def test_backoff_lies_between_zero_and_the_doubled_cap(
    attempt_no: int, fraction: float, initial_s: float, max_s: float
) -> None:
    settings = RetrySettings(initial_s=initial_s, max_s=max_s)
    cap_s = min(max_s, initial_s * 2 ** (attempt_no - 1))
    assert 0 <= backoff_s(attempt_no, fraction, settings) <= cap_s


@pytest.mark.parametrize(
    ("attempt_no", "cap_s"), [(1, 0.05), (2, 0.1), (3, 0.2), (4, 0.4), (5, 0.8), (6, 1.0)]
)
def test_backoff_doubles_up_to_the_cap(attempt_no: int, cap_s: float) -> None:
    assert backoff_s(attempt_no, 0.5, RetrySettings()) == pytest.approx(cap_s / 2)


def test_retries_of_sixty_clients_are_not_in_step() -> None:
    # BR-12: all fail at the same moment.
    dice = random.Random(1)
    settings = RetrySettings(initial_s=0.1, max_s=0.4)
    delays_s = [backoff_s(1, dice.random(), settings) for _ in range(60)]
    bins = [int(delay_s / 0.01) for delay_s in delays_s]
    assert max(bins.count(one) for one in bins) <= 0.3 * 60
    assert all(0 <= delay_s <= 0.4 for delay_s in delays_s)


def plan(retry_after_s: float | None, left_s: float, fraction: float = 0.5) -> object:
    return plan_wait(
        attempt_no=1,
        fraction=fraction,
        settings=RetrySettings(),
        retry_after_s=retry_after_s,
        left_s=left_s,
        needed_s=0.25,
    )


def test_without_a_hint_the_backoff_is_waited() -> None:
    assert plan(None, 2.0) == RetryWait(wait_s=0.025)


def test_hint_that_fits_is_a_lower_bound() -> None:
    assert plan(1.0, 2.0) == RetryWait(wait_s=1.025)


def test_hint_that_does_not_fit_ends_the_call_and_holds_the_group() -> None:
    assert plan(1.0, 1.2) == NoRetry(hold_s=1.0)


def test_backoff_that_does_not_fit_ends_the_call_and_holds_nobody() -> None:
    assert plan(None, 0.26) == NoRetry(hold_s=0.0)


@pytest.mark.parametrize(
    ("hint_s", "hold_s"), [(1e10, MAX_HOLD_S), (60.0, 60.0), (0.0, 0.0), (None, 0.0)]
)
def test_hold_is_capped(hint_s: float | None, hold_s: float) -> None:
    assert no_retry(hint_s) == NoRetry(hold_s=hold_s)


@given(st.none() | st.floats(0, 1e12), st.floats(0, 120), _fractions)
def test_a_wait_always_leaves_time_for_an_attempt(
    hint_s: float | None, left_s: float, fraction: float
) -> None:
    found = plan(hint_s, left_s, fraction)
    if isinstance(found, RetryWait):
        assert found.wait_s >= (hint_s or 0.0)
        assert found.wait_s + 0.25 <= left_s
