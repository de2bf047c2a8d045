from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resilient_ov.policy.budget import RESERVE, RetryBudget


def spend_all(budget: RetryBudget) -> int:
    spent = 0
    while budget.allows():
        budget.pay_out()
        spent += 1
    return spent


def test_reserve_is_there_before_any_call() -> None:
    assert spend_all(RetryBudget()) == RESERVE


def test_ten_calls_pay_for_one_retry() -> None:
    budget = RetryBudget()
    spend_all(budget)
    for _ in range(9):
        budget.pay_in()
    assert not budget.allows()
    budget.pay_in()
    assert budget.allows()


def test_good_hours_do_not_pay_for_a_storm() -> None:
    budget = RetryBudget()
    for _ in range(10_000):
        budget.pay_in()
    assert spend_all(budget) == RESERVE


def test_total_outage_of_ten_thousand_calls_stays_in_the_budget() -> None:
    budget, attempts = RetryBudget(), 0
    for _ in range(10_000):
        budget.pay_in()
        attempts += 1
        for _ in range(2):
            if budget.allows():
                budget.pay_out()
                attempts += 1
    assert attempts <= 1.10 * 10_000 + 10
    assert attempts >= 1.09 * 10_000


class Budget(RuleBasedStateMachine):
    """Oracle: exact tenths, and the promise over the whole life."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = RetryBudget()
        self.tenths = 100
        self.calls = self.retries = 0

    @rule(count=st.integers(1, 30))
    def calls_come(self, count: int) -> None:
        for _ in range(count):
            self.budget.pay_in()
            self.calls += 1
            self.tenths = min(100, self.tenths + 1)

    @precondition(lambda self: self.budget.allows())
    @rule()
    def retry(self) -> None:
        self.budget.pay_out()
        self.retries += 1
        self.tenths -= 10

    @precondition(lambda self: self.retries > 0)
    @rule()
    def retry_was_never_made(self) -> None:
        self.budget.refund()
        self.retries -= 1
        self.tenths = min(100, self.tenths + 10)

    @invariant()
    def allows_exactly_what_is_paid(self) -> None:
        assert self.budget.allows() == (self.tenths >= 10)

    @invariant()
    def keeps_the_promise(self) -> None:
        assert self.calls + self.retries <= 1.10 * self.calls + 10


TestBudget = Budget.TestCase
TestBudget.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
