import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_ov.policy.deadline import evidence_s, little_time_s, phase_s, remaining_s

_times = st.floats(0, 1e9)


@given(_times, _times)
def test_remaining_time_is_never_negative(deadline_s: float, now_s: float) -> None:
    assert remaining_s(deadline_s, now_s) == max(0.0, deadline_s - now_s)


@pytest.mark.parametrize(
    ("limit_s", "now_s", "expected_s"), [(2.0, 0.0, 2.0), (2.0, 9.5, 0.5), (2.0, 11.0, 0.0)]
)
def test_phase_ends_with_its_limit_or_the_deadline(
    limit_s: float, now_s: float, expected_s: float
) -> None:
    assert phase_s(limit_s, 10.0, now_s) == expected_s


@pytest.mark.parametrize(("budget_s", "expected_s"), [(3.0, 0.25), (0.5, 0.25), (0.2, 0.1)])
def test_little_time_is_a_quarter_second_or_half_the_budget(
    budget_s: float, expected_s: float
) -> None:
    assert little_time_s(budget_s) == expected_s


@pytest.mark.parametrize(
    ("min_evidence_s", "budget_s", "attempt_s", "expected_s"),
    [
        (0.25, 2.0, None, 0.25),
        (0.25, 0.2, None, 0.1),
        (0.25, 2.0, 0.1, 0.05),
        (0.25, 2.0, 5.0, 0.25),
        (0.0, 2.0, None, 0.0),
    ],
)
def test_evidence_takes_the_least_of_setting_budget_and_attempt(
    min_evidence_s: float, budget_s: float, attempt_s: float | None, expected_s: float
) -> None:
    assert evidence_s(min_evidence_s, budget_s, attempt_s) == expected_s
