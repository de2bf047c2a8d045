import pytest

from resilient_ov.events import BreakerState, Group, HoldKind, StateErrorReason, SwitchMode
from resilient_ov_observability.advice import Facts, is_healthy, problems

SICK = {
    "open breaker": {"breakers": {Group.RECALL: BreakerState.OPEN}},
    "half-open breaker": {"breakers": {Group.APPEND: BreakerState.HALF_OPEN}},
    "no way to the host": {"breakers": {Group.HOST: BreakerState.OPEN}},
    "auth hold": {"holds": {(Group.HOST, HoldKind.AUTH): 30.0}},
    "asked to wait": {"holds": {(Group.RECALL, HoldKind.RETRY_AFTER): 9.4}},
    "forced open": {"switches": {Group.RECALL: SwitchMode.FORCED_OPEN}},
    "disabled": {"switches": {Group.RECALL: SwitchMode.DISABLED}},
    "unwritable state": {"persistent": False},
    "failing attempts": {"up": False},
}
WELL = {
    "nothing": {},
    "closed breaker": {"breakers": {Group.RECALL: BreakerState.CLOSED}},
    "normal switch": {"switches": {Group.RECALL: SwitchMode.NORMAL}},
    "shadow": {"switches": {Group.RECALL: SwitchMode.SHADOW}},
    "forced closed": {"switches": {Group.RECALL: SwitchMode.FORCED_CLOSED}},
    "retries off": {"switches": {Group.RECALL: SwitchMode.RETRIES_OFF}},
    "waiting": {"writes": 3},
    "in doubt": {"in_doubt": 1},
    "dropped": {"dropped": 2},
    "state errors": {"state_errors": frozenset(StateErrorReason)},
}


@pytest.mark.parametrize("name", SICK)
def test_what_keeps_memory_from_its_work_is_unhealthy_and_has_words(name):
    facts = Facts(**{"up": True, **SICK[name]})
    assert is_healthy(facts) is False
    (problem,) = problems(facts)
    assert problem.why.endswith(".")
    assert problem.next.endswith((".", "again."))


@pytest.mark.parametrize("name", WELL)
def test_what_does_not_is_healthy(name):
    assert is_healthy(Facts(up=True, **WELL[name])) is True


def test_before_anything_is_known_health_is_unknown():
    assert is_healthy(Facts()) is None


def test_the_worst_comes_first():
    facts = Facts(up=True, writes=3, persistent=False, switches={Group.RECALL: SwitchMode.SHADOW})
    assert [problem.healthy for problem in problems(facts)] == [False, True, True]


def test_groups_under_the_same_switch_are_one_sentence():
    facts = Facts(switches=dict.fromkeys((Group.APPEND, Group.SESSION), SwitchMode.FORCED_OPEN))
    (problem,) = problems(facts)
    assert problem.why.startswith("The switch of append, session stands on forced_open")


def test_an_open_breaker_explains_the_failing_attempts():
    facts = Facts(up=False, breakers={Group.HOST: BreakerState.OPEN})
    assert [problem.why for problem in problems(facts)] == ["The server cannot be reached."]


def test_every_trouble_with_state_but_the_unwritable_has_words():
    facts = Facts(state_errors=frozenset(StateErrorReason))
    assert len(problems(facts)) == len(StateErrorReason) - 1
