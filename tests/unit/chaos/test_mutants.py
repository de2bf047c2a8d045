import pytest

from resilient_ov_chaos.agent.mutants import SWITCHES, apply
from resilient_ov_chaos.checkers.catalogue import CHECKERS
from resilient_ov_chaos.faults.catalogue import FAULTS
from resilient_ov_chaos.knobs import QUICK
from resilient_ov_chaos.mutants import MUTANTS, Mutant, blamed_of, problem_of

MUTANT = Mutant(name="breaker", fault="silence", checker="budgets", also=frozenset({"breaker"}))


def test_every_switch_has_a_trouble_and_a_checker_that_there_are() -> None:
    assert set(MUTANTS) == set(SWITCHES)
    for mutant in MUTANTS.values():
        assert mutant.fault in FAULTS
        assert {mutant.checker} | mutant.also <= set(CHECKERS)


def test_the_named_checker_and_its_consequences_may_be_red() -> None:
    assert problem_of(MUTANT, ("budgets",)) is None
    assert problem_of(MUTANT, ("breaker", "budgets")) is None


@pytest.mark.parametrize(
    ("red", "told"),
    [
        ((), "budgets did not go red (red: none)"),
        (("breaker",), "budgets did not go red (red: breaker)"),
        (("budgets", "order"), "red for another reason as well: order"),
    ],
)
def test_anything_else_is_an_error_of_the_suite(red: tuple[str, ...], told: str) -> None:
    assert problem_of(MUTANT, red) == told


def test_blamed_are_those_that_must_not_be_red_or_that_nothing_was_proved() -> None:
    assert blamed_of(MUTANT, ("budgets", "breaker")) == frozenset()
    assert blamed_of(MUTANT, ("budgets", "order")) == {"order"}
    assert blamed_of(MUTANT, ("breaker",)) == {"evidence"}


def test_a_mutant_changes_the_pace_of_its_trouble() -> None:
    mutant = MUTANTS["retry_budget"]
    knobs = mutant.of().knobs(QUICK)
    assert knobs.fault_s == QUICK.fault_s * mutant.windows
    breaker = knobs.config()["breaker"]
    assert isinstance(breaker, dict)
    assert breaker["minimum_calls"] == 10000
    assert breaker["open_seconds"] == QUICK.open_s


def test_no_switch_and_no_such_switch() -> None:
    apply(None)
    with pytest.raises(ValueError, match="no such mutant: luck; there are: breaker"):
        apply("luck")
