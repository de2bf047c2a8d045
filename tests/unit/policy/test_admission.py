import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_ov.domain.exchange import Failure, FailureKind, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.breaker import BreakerState, Transition
from resilient_ov.policy.classify import classify
from resilient_ov.policy.holds import HoldChanged, HoldKind
from resilient_ov.policy.permits import Permit
from resilient_ov.policy.refusals import Refusal, RefusalReason, RetryBudgetSpent
from resilient_ov.policy.rules import OPERATION_GROUPS, Group
from resilient_ov.policy.switches import NOTHING_SWITCHED, Mode
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings
from tests.unit.policy.failures import (
    answered,
    reset,
    saturated,
    timed_out,
    unreachable,
)
from tests.unit.policy.rig import Rig

ADD, COMMIT, ENSURE = Operation.MESSAGES_ADD, Operation.SESSION_COMMIT, Operation.SESSION_ENSURE
HEALTH, GET = Operation.HEALTH, Operation.SESSION_GET
GROUPED = [operation for operation in Operation if operation is not HEALTH]

BREAK = answered(503)


def state(rig: Rig, group: Group) -> BreakerState:
    return rig.gate.snapshot(rig.now_s).breakers[group].state


# -- breakers of groups -----------------------------------------------------------------------


def test_sick_commit_does_not_stop_recall_or_appends() -> None:
    rig = Rig()
    rig.fail(BREAK, COMMIT, times=5)
    assert rig.refused(COMMIT) is RefusalReason.OPEN
    assert rig.refused() is None
    assert rig.refused(ADD) is None
    assert rig.refused(ENSURE) is None


def test_outage_of_the_embedder_does_not_block_settlement() -> None:
    rig = Rig()
    rig.fail(answered(500), times=5)
    assert rig.refused() is RefusalReason.OPEN
    assert rig.refused(Operation.CONTENT_READ) is None


def test_refusal_says_when_to_ask_again() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    found = rig.ask()
    assert found == Refusal(group=Group.RECALL, reason=RefusalReason.OPEN, retry_at_s=1005.0)


def test_unreachable_host_is_refused_to_every_group() -> None:
    rig = Rig()
    verdict = rig.fail(unreachable(), times=5)
    (moved,) = verdict.changes
    assert isinstance(moved, Transition)
    assert (moved.group, moved.to_state) == (Group.HOST, BreakerState.OPEN)
    assert {rig.refused(operation) for operation in GROUPED} == {RefusalReason.HOST_OPEN}
    assert state(rig, Group.RECALL) is BreakerState.CLOSED


def test_failures_of_different_groups_add_up_for_the_host() -> None:
    rig = Rig()
    for operation in (Operation.SEARCH, ADD, COMMIT, ENSURE, GET):
        rig.fail(unreachable(), operation)
    assert rig.refused() is RefusalReason.HOST_OPEN


@pytest.mark.parametrize("failure", [answered(503), answered(404), timed_out(), reset()])
def test_answering_host_is_never_opened_by_its_operations(failure: Failure) -> None:
    rig = Rig()
    rig.fail(unreachable(), times=4)
    rig.fail(failure, ADD)
    rig.fail(unreachable())
    assert rig.refused() is None


def test_probe_of_any_group_probes_the_host() -> None:
    rig = Rig()
    rig.fail(unreachable(), times=5)
    rig.now_s += 5.0
    probe = rig.permit(COMMIT)
    (moved,) = probe.changes
    assert isinstance(moved, Transition)
    assert (moved.group, moved.to_state) == (Group.HOST, BreakerState.HALF_OPEN)
    assert rig.refused() is RefusalReason.PROBE_IN_FLIGHT
    changes = probe.succeeded(rig.now_s, 0.1)
    assert [change.group for change in changes] == [Group.HOST]
    assert rig.refused() is None


def test_one_attempt_may_probe_its_group_and_the_host() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.fail(unreachable(), ADD, times=5)
    rig.now_s += 5.0
    probe = rig.permit()
    assert [change.group for change in probe.changes] == [Group.RECALL, Group.HOST]
    changes = probe.succeeded(rig.now_s, 0.1)
    assert [change.group for change in changes] == [Group.RECALL, Group.HOST]


def test_refusal_for_a_probe_asks_to_come_back_soon() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.now_s += 5.0
    rig.permit()
    found = rig.ask()
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.PROBE_IN_FLIGHT
    assert found.retry_at_s == rig.now_s + 0.25


def test_probe_that_ends_in_a_refused_key_leaves_the_breaker_usable() -> None:
    # BR-01
    rig = Rig(breaker=BreakerSettings(consecutive_failures=3, open_s=0.2))
    rig.fail(BREAK, times=3)
    rig.now_s += 0.25
    rig.fail(answered(401))
    assert state(rig, Group.RECALL) is BreakerState.HALF_OPEN
    rig.now_s += 0.25
    rig.succeed()
    assert state(rig, Group.RECALL) is BreakerState.CLOSED


def test_client_errors_open_nothing() -> None:
    # BR-05
    rig = Rig(breaker=BreakerSettings(consecutive_failures=3))
    for number in range(40):
        verdict = rig.fail(answered((400, 404, 413, 422)[number % 4]))
        assert verdict.changes == ()
        assert verdict.retry_wait_s is None
    assert rig.refused() is None


def test_probe_needs_the_time_that_makes_it_evidence() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.now_s += 5.0
    found = rig.ask(left_s=0.2)
    assert isinstance(found, Refusal)
    assert (found.reason, found.retry_at_s) == (RefusalReason.DEADLINE, rig.now_s)
    assert isinstance(rig.ask(left_s=0.25), Permit)


def test_small_budget_can_still_probe() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.now_s += 5.0
    assert isinstance(rig.ask(budget_s=0.1, left_s=0.06), Permit)


def test_lost_probe_is_replaced_a_second_after_its_deadline() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.now_s += 5.0
    rig.permit(budget_s=2.0)
    rig.now_s += 3.0
    assert rig.refused() is RefusalReason.PROBE_IN_FLIGHT
    rig.now_s += 0.001
    assert rig.refused() is None


def test_cancelled_probe_frees_its_place_at_once() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.fail(unreachable(), ADD, times=5)
    rig.now_s += 5.0
    rig.permit().cancel()
    assert rig.refused() is None


# -- evidence ---------------------------------------------------------------------------------


def test_deadline_cut_with_little_time_on_the_wire_proves_nothing() -> None:
    rig = Rig()
    assert rig.fail(timed_out(wire_s=0.24), times=10).changes == ()
    assert rig.fail(timed_out(wire_s=0.25), times=3).changes != ()


def test_half_of_a_small_budget_is_evidence_enough() -> None:
    rig = Rig()
    assert rig.fail(timed_out(wire_s=0.05), times=3, budget_s=0.1).changes != ()


def test_half_of_a_capped_attempt_is_evidence_enough() -> None:
    rig = Rig(retry=RetrySettings(attempt_s=0.1))
    assert rig.permit().deadline_s == rig.now_s + 0.1
    assert rig.fail(timed_out(wire_s=0.06), times=3).changes != ()


def test_connect_that_the_deadline_cut_short_proves_nothing() -> None:
    rig = Rig()
    for _ in range(10):
        permit = rig.permit(budget_s=0.5)
        rig.now_s += 0.5
        decision = classify(OPERATIONS[Operation.SEARCH], unreachable())
        assert permit.failed(decision, rig.now_s, 0.1).changes == ()


def test_black_hole_opens_the_host_like_timeouts() -> None:
    rig = Rig()
    failure = unreachable(FailureKind.TIMEOUT)
    assert rig.fail(failure, times=3, took_s=2.0).changes != ()
    assert rig.refused(ADD) is RefusalReason.HOST_OPEN


def test_first_ensures_may_take_their_time_three_times_in_a_row() -> None:
    rig = Rig()
    for number in range(3):
        assert rig.fail(timed_out(), ENSURE, identity=f"df_{number}").changes == ()
    assert rig.fail(timed_out(), ENSURE, times=3, identity="df_9").changes != ()


def test_ensure_of_a_known_identity_is_not_forgiven() -> None:
    rig = Rig()
    rig.succeed(ENSURE)
    assert rig.fail(timed_out(), ENSURE, times=3).changes != ()


def test_other_failures_of_a_first_ensure_are_not_forgiven() -> None:
    rig = Rig()
    assert rig.fail(BREAK, ENSURE, times=5).changes != ()


# -- order ------------------------------------------------------------------------------------


def test_switch_comes_first() -> None:
    rig = Rig()
    rig.fail(unreachable(), ADD, times=5)
    rig.switch("recall", Mode.FORCED_OPEN)
    found = rig.ask(left_s=0.0)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.SWITCH


def test_own_breaker_comes_before_that_of_the_host() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.fail(unreachable(), ADD, times=5)
    assert rig.refused() is RefusalReason.OPEN
    assert rig.refused(COMMIT) is RefusalReason.HOST_OPEN


def test_holds_come_before_breakers() -> None:
    rig = Rig()
    sick = [rig.permit() for _ in range(5)]
    hinted = rig.permit()
    keys = [rig.permit(ADD) for _ in range(3)]
    search, add = OPERATIONS[Operation.SEARCH], OPERATIONS[ADD]
    for permit in sick:
        permit.failed(classify(search, BREAK), rig.now_s, 1.0)
    assert rig.refused() is RefusalReason.OPEN
    hinted.failed(classify(search, answered(429, retry_after_s=9.0)), rig.now_s, 1.0)
    assert rig.refused() is RefusalReason.RETRY_AFTER
    for permit in keys:
        permit.failed(classify(add, answered(401)), rig.now_s, 1.0)
    assert rig.refused() is RefusalReason.AUTH_HOLD
    rig.gate.clear_auth_holds()
    assert rig.refused() is RefusalReason.RETRY_AFTER
    rig.now_s += 9.0
    assert rig.refused() is None, "the breaker's period is over too"


def test_breakers_come_before_limits() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    rig.fail(BREAK, times=4)
    blocking = rig.permit()
    assert rig.refused() is RefusalReason.BULKHEAD
    blocking.failed(classify(OPERATIONS[Operation.SEARCH], BREAK), rig.now_s, 1.0)
    assert rig.refused() is RefusalReason.OPEN


def test_limit_keeps_a_probe_waiting_and_its_place_free() -> None:
    """A later refusal takes nothing: the breaker stays open and its probe is still to be had."""
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    blocking = rig.permit()
    decision = classify(OPERATIONS[Operation.SEARCH], unreachable())
    for _ in range(5):
        rig.permit(ADD).failed(decision, rig.now_s, 1.0)
    rig.now_s += 5.0
    assert rig.refused() is RefusalReason.BULKHEAD
    assert state(rig, Group.HOST) is BreakerState.OPEN
    blocking.cancel()
    rig.now_s += 0.2  # who was refused has gone by then
    assert rig.permit().changes != ()


def test_admitted_first_attempts_pay_for_retries() -> None:
    rig = Rig()
    for _ in range(10):
        rig.permit(attempt_no=2).cancel()
    rig.succeed(times=9)
    assert rig.ask(attempt_no=2) == RetryBudgetSpent()
    rig.succeed()
    assert isinstance(rig.ask(attempt_no=2), Permit)


def test_spent_retry_budget_takes_no_place_and_no_probe() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    for _ in range(10):
        rig.permit(attempt_no=2).cancel()
    assert rig.ask(attempt_no=2) == RetryBudgetSpent()
    rig.succeed()


# -- deadline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", GROUPED)
def test_nothing_starts_at_the_deadline(operation: Operation) -> None:
    found = Rig().ask(operation, left_s=0.0)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.DEADLINE


@pytest.mark.parametrize(
    ("budget_s", "left_s", "admitted"),
    [(3.0, 0.25, True), (3.0, 0.249, False), (0.2, 0.1, True), (0.2, 0.099, False)],
)
def test_append_is_not_started_with_little_time_left(
    budget_s: float, left_s: float, admitted: bool
) -> None:
    found = Rig().ask(ADD, budget_s=budget_s, left_s=left_s)
    assert isinstance(found, Permit) is admitted


@pytest.mark.parametrize("operation", [Operation.SEARCH, COMMIT, ENSURE, GET])
def test_what_can_be_repeated_is_started_in_the_last_moment(operation: Operation) -> None:
    assert isinstance(Rig().ask(operation, left_s=0.01), Permit)


def test_capped_attempts_do_not_forbid_appends() -> None:
    rig = Rig(retry=RetrySettings(attempt_s=0.05))
    assert isinstance(rig.ask(ADD), Permit)


# -- limits -----------------------------------------------------------------------------------


def test_limit_is_refused_with_a_place_and_kept_by_it() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    inside = rig.permit()
    found = rig.ask()
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.BULKHEAD
    assert found.retry_at_s == pytest.approx(rig.now_s + 0.002)
    inside.succeeded(rig.now_s, 0.1)
    rig.now_s = found.retry_at_s
    assert isinstance(rig.ask(), Refusal), "a newcomer does not pass"
    assert isinstance(rig.ask(place=found.place), Permit)


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancel", "return_unused"])
def test_place_is_free_after_any_end(end: str) -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    for _ in range(3):
        permit = rig.permit()
        if end == "succeeded":
            permit.succeeded(rig.now_s, 0.1)
        elif end == "failed":
            permit.failed(classify(OPERATIONS[Operation.SEARCH], answered(404)), rig.now_s, 0.1)
        else:
            getattr(permit, end)()
    assert rig.gate.snapshot(rig.now_s).in_flight == dict.fromkeys(OPERATION_GROUPS, 0)


def test_sweeper_has_one_request_at_a_time() -> None:
    rig = Rig()
    first = rig.ask(GET, sweeper=True)
    assert isinstance(first, Permit)
    found = rig.ask(COMMIT, sweeper=True)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.BULKHEAD
    first.cancel()
    assert isinstance(rig.ask(COMMIT, sweeper=True), Permit)


# -- what follows a failure -------------------------------------------------------------------


def test_retry_follows_after_the_backoff() -> None:
    assert Rig(fraction=0.5).fail(BREAK).retry_wait_s == 0.025


def test_last_attempt_is_the_last() -> None:
    rig = Rig()
    decision = classify(OPERATIONS[Operation.SEARCH], BREAK)
    assert rig.permit(attempt_no=2).failed(decision, rig.now_s, 0.1).retry_wait_s is None


@pytest.mark.parametrize(("operation", "attempts"), [(Operation.SEARCH, 5), (HEALTH, 2)])
def test_operation_has_its_own_cap(operation: Operation, attempts: int) -> None:
    rig = Rig(retry=RetrySettings(max_attempts=5))
    decision = classify(OPERATIONS[operation], BREAK)
    made = 1
    while True:
        permit = rig.permit(operation, attempt_no=made)
        if permit.failed(decision, rig.now_s, 0.1).retry_wait_s is None:
            break
        made += 1
    assert made == min(attempts, 5)


def test_conflict_is_retried_once_whatever_is_configured() -> None:
    rig = Rig(retry=RetrySettings(max_attempts=5))
    decision = classify(OPERATIONS[COMMIT], answered(409, "CONFLICT"))
    assert rig.permit(COMMIT).failed(decision, rig.now_s, 0.1).retry_wait_s is not None
    second = rig.permit(COMMIT, attempt_no=2)
    assert second.failed(decision, rig.now_s, 0.1).retry_wait_s is None


def test_no_retry_that_the_deadline_would_cut() -> None:
    rig = Rig(fraction=0.0)
    permit = rig.permit(budget_s=2.0)
    rig.now_s += 1.76
    decision = classify(OPERATIONS[Operation.SEARCH], BREAK)
    assert permit.failed(decision, rig.now_s, 1.76).retry_wait_s is None


def test_hint_that_fits_is_waited_and_holds_nobody() -> None:
    rig = Rig()
    assert rig.fail(answered(429, retry_after_s=1.0)).retry_wait_s == 1.0
    assert rig.refused() is None


def test_hint_that_does_not_fit_holds_the_group_of_the_operation() -> None:
    rig = Rig()
    verdict = rig.fail(answered(429, retry_after_s=7.0), COMMIT)
    assert verdict.retry_wait_s is None
    assert verdict.changes == (
        HoldChanged(
            kind=HoldKind.RETRY_AFTER, group=Group.COMMIT, identity=None, until_s=rig.now_s + 7.0
        ),
    )
    assert rig.refused(COMMIT) is RefusalReason.RETRY_AFTER
    assert rig.refused() is None
    assert rig.refused(ADD) is None


def test_hint_to_an_append_holds_appends() -> None:
    rig = Rig()
    assert rig.fail(answered(429, retry_after_s=0.5), ADD).retry_wait_s is None
    assert rig.refused(ADD) is RefusalReason.RETRY_AFTER


def test_hint_of_the_provider_holds_recall_only() -> None:
    rig = Rig()
    rig.fail(answered(429, retry_after_s=7.0, provider_fault=True), ENSURE)
    assert rig.refused() is RefusalReason.RETRY_AFTER
    assert rig.refused(ENSURE) is None


def test_throttled_server_is_left_alone_for_the_time_it_asked() -> None:
    # BR-14: 429 with Retry-After 1 for a second, then fine; a call of 0.5 s every 50 ms for 3 s.
    rig = Rig(breaker=BreakerSettings(consecutive_failures=3, open_s=30.0))
    decision = classify(OPERATIONS[Operation.SEARCH], answered(429, retry_after_s=1.0))
    successes_s: list[float] = []
    refused_s: list[float] = []
    throttled = 0
    for step in range(60):
        rig.now_s = 1000.0 + step * 0.05
        found = rig.ask(budget_s=0.5)
        if not isinstance(found, Permit):
            refused_s.append(rig.now_s - 1000.0)
        elif rig.now_s < 1001.0:
            throttled += 1
            assert found.failed(decision, rig.now_s, 0.01).retry_wait_s is None
        else:
            successes_s.append(rig.now_s - 1000.0)
            found.succeeded(rig.now_s, 0.01)
    assert throttled == 1
    assert 1.0 <= successes_s[0] <= 1.5
    assert max(refused_s) < 1.0
    assert len(successes_s) + len(refused_s) == 59


# -- our key ----------------------------------------------------------------------------------


def test_permanently_refused_key_costs_few_requests() -> None:
    # BR-07: 200 turns against a server that always says 401.
    rig, sent = Rig(), 0
    for _ in range(200):
        rig.now_s += 0.5
        found = rig.ask()
        if isinstance(found, Permit):
            sent += 1
            found.failed(classify(OPERATIONS[Operation.SEARCH], answered(401)), rig.now_s, 0.01)
    assert sent <= 6


def test_hold_of_the_key_ends_with_a_probe_that_is_accepted() -> None:
    rig = Rig()
    rig.fail(answered(401), times=3)
    found = rig.ask()
    assert found == Refusal(
        group=Group.RECALL, reason=RefusalReason.AUTH_HOLD, retry_at_s=rig.now_s + 30.0
    )
    rig.now_s += 30.0
    probe = rig.permit()
    assert rig.refused(ADD) is RefusalReason.AUTH_HOLD
    (changed,) = probe.succeeded(rig.now_s, 0.1)
    assert changed == HoldChanged(kind=HoldKind.AUTH, group=Group.HOST, identity=None, until_s=None)
    assert rig.refused(ADD) is None


def test_forbidden_identity_is_refused_alone() -> None:
    rig = Rig()
    rig.fail(answered(403), identity="df_a")
    assert rig.refused(identity="df_a") is RefusalReason.AUTH_HOLD
    assert rig.refused(ADD, identity="df_a") is RefusalReason.AUTH_HOLD
    assert rig.refused(identity="df_b") is None


def test_cancelled_probe_of_a_hold_frees_its_place() -> None:
    rig = Rig()
    rig.fail(answered(401), times=3)
    rig.now_s += 30.0
    rig.permit().cancel()
    assert rig.refused() is None


def test_changed_key_ends_the_hold() -> None:
    rig = Rig()
    rig.fail(answered(401), times=3)
    assert len(rig.gate.clear_auth_holds()) == 1
    assert rig.refused() is None


# -- health -----------------------------------------------------------------------------------


def test_health_passes_every_gate() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1, write_in_flight=1))
    rig.fail(answered(401), times=3)
    rig.switch("all", Mode.DISABLED)
    permits = [rig.permit(HEALTH) for _ in range(5)]
    assert isinstance(rig.ask(HEALTH, attempt_no=2), Permit)
    for permit in permits:
        permit.succeeded(rig.now_s, 0.1)


def test_health_never_counts() -> None:
    rig = Rig()
    before = rig.gate.snapshot(rig.now_s)
    for failure in (BREAK, unreachable(), answered(401), answered(403), timed_out()):
        assert rig.fail(failure, HEALTH, times=10).changes == ()
    for _ in range(20):
        rig.permit(HEALTH, attempt_no=2).return_unused()
        rig.permit(HEALTH, attempt_no=2).cancel()
    rig.succeed(HEALTH)
    assert rig.gate.snapshot(rig.now_s) == before
    assert isinstance(rig.ask(attempt_no=2), Permit)


# -- switches ---------------------------------------------------------------------------------


def test_forced_open_refuses_its_groups() -> None:
    rig = Rig()
    rig.switch("write", Mode.FORCED_OPEN)
    assert rig.refused(ADD) is RefusalReason.SWITCH
    assert rig.refused(COMMIT) is RefusalReason.SWITCH
    assert rig.refused(ENSURE) is RefusalReason.SWITCH
    assert rig.refused() is None


def test_refusal_by_a_switch_says_when_it_ends() -> None:
    rig = Rig()
    rig.switch("all", Mode.DISABLED)
    found = rig.ask()
    assert isinstance(found, Refusal)
    assert (found.reason, found.retry_at_s) == (RefusalReason.SWITCH, math.inf)
    switches = NOTHING_SWITCHED.switched("recall", Mode.FORCED_OPEN, now_s=rig.now_s, for_s=9.0)
    rig.gate.set_switches(switches, rig.now_s)
    found = rig.ask()
    assert isinstance(found, Refusal)
    assert found.retry_at_s == rig.now_s + 9.0
    rig.now_s += 9.0
    assert rig.refused() is None


def test_forced_closed_ignores_breakers_and_holds() -> None:
    rig = Rig()
    rig.switch("all", Mode.FORCED_CLOSED)
    for failure in (BREAK, unreachable(), answered(401), answered(403), timed_out()):
        rig.fail(failure, times=20)
    rig.fail(answered(429, retry_after_s=50.0))
    assert rig.refused() is None
    snapshot = rig.gate.snapshot(rig.now_s)
    assert {view.state for view in snapshot.breakers.values()} == {BreakerState.CLOSED}


def test_forced_closed_keeps_deadline_limits_and_budget() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    rig.switch("all", Mode.FORCED_CLOSED)
    found = rig.ask(left_s=0.0)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.DEADLINE
    inside = rig.permit()
    assert rig.refused() is RefusalReason.BULKHEAD
    inside.cancel()
    rig.now_s += 0.2  # who was refused has gone by then
    for _ in range(10):
        rig.permit(attempt_no=2).cancel()
    assert rig.ask(attempt_no=2) == RetryBudgetSpent()


def test_forcing_closed_closes_the_breakers_of_its_groups() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.fail(unreachable(), ADD, times=5)
    one = NOTHING_SWITCHED.switched("recall", Mode.FORCED_CLOSED, now_s=rig.now_s)
    assert [change.group for change in rig.gate.set_switches(one, rig.now_s)] == [Group.RECALL]
    every = NOTHING_SWITCHED.switched("all", Mode.FORCED_CLOSED, now_s=rig.now_s)
    assert [change.group for change in rig.gate.set_switches(every, rig.now_s)] == [Group.HOST]


def test_retries_off_allows_one_attempt() -> None:
    rig = Rig()
    rig.switch("recall", Mode.RETRIES_OFF)
    assert rig.fail(BREAK).retry_wait_s is None
    assert rig.fail(BREAK, COMMIT).retry_wait_s is not None
    rig.fail(BREAK, times=4)
    assert rig.refused() is RefusalReason.OPEN


def test_shadow_sends_and_tells_what_it_would_have_refused() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    rig.switch("recall", Mode.SHADOW)
    inside = rig.permit()
    assert rig.permit().would_refuse is RefusalReason.BULKHEAD
    assert inside.would_refuse is None
    rig.fail(BREAK, times=5)
    assert rig.permit().would_refuse is RefusalReason.OPEN


def test_who_is_let_in_by_shadow_does_not_wait_any_more() -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=1))
    rig.switch("recall", Mode.SHADOW)
    permits = [rig.permit(), rig.permit()]
    for permit in permits:
        permit.cancel()
    assert rig.permit().would_refuse is None


def test_shadow_leaves_the_state_as_if_it_had_refused() -> None:
    rig = Rig()
    rig.switch("recall", Mode.SHADOW)
    rig.fail(BREAK, times=5)
    end_s = rig.gate.snapshot(rig.now_s).breakers[Group.RECALL].open_until_s
    assert rig.fail(BREAK, times=20).changes == ()
    rig.succeed()
    rig.permit().cancel()
    assert rig.gate.snapshot(rig.now_s).breakers[Group.RECALL].open_until_s == end_s
    rig.now_s += 5.0
    probe = rig.permit()
    assert probe.would_refuse is None
    assert rig.permit().would_refuse is RefusalReason.PROBE_IN_FLIGHT
    assert probe.succeeded(rig.now_s, 0.1) != ()


def test_shadow_of_one_group_does_not_let_others_pass() -> None:
    rig = Rig()
    rig.switch("recall", Mode.SHADOW)
    rig.fail(unreachable(), times=5)
    assert rig.permit().would_refuse is RefusalReason.HOST_OPEN
    assert rig.refused(ADD) is RefusalReason.HOST_OPEN


# -- when to ask again ------------------------------------------------------------------------


def test_next_admission_is_the_end_of_the_last_obstacle() -> None:
    rig = Rig()
    gate, start_s = rig.gate, rig.now_s
    assert gate.next_admission_s(Group.RECALL, rig.now_s) == start_s
    rig.fail(BREAK, times=5)
    assert gate.next_admission_s(Group.RECALL, rig.now_s) == start_s + 5.0
    assert gate.next_admission_s(Group.APPEND, rig.now_s) == start_s
    rig.fail(answered(429, retry_after_s=20.0), ADD)
    assert gate.next_admission_s(Group.APPEND, rig.now_s) == start_s + 20.0
    rig.fail(answered(403), COMMIT, identity="df_a")
    assert gate.next_admission_s(Group.COMMIT, rig.now_s, identity="df_a") == start_s + 30.0
    assert gate.next_admission_s(Group.COMMIT, rig.now_s, identity="df_b") == start_s
    rig.now_s += 5.0
    rig.permit(identity="df_b")
    assert gate.next_admission_s(Group.RECALL, rig.now_s) == rig.now_s + 0.25


@pytest.mark.parametrize(
    ("mode", "next_s"),
    [
        (Mode.FORCED_OPEN, math.inf),
        (Mode.FORCED_CLOSED, 1000.0),
        (Mode.SHADOW, 1000.0),
        (Mode.RETRIES_OFF, 1005.0),
    ],
)
def test_next_admission_follows_the_switch(mode: Mode, next_s: float) -> None:
    rig = Rig()
    rig.fail(unreachable(), ADD, times=5)
    rig.switch("recall", mode)
    assert rig.gate.next_admission_s(Group.RECALL, rig.now_s) == next_s


# -- what is seen -----------------------------------------------------------------------------


def test_up_is_unknown_before_the_first_attempt() -> None:
    assert Rig().gate.snapshot(0.0).up is None


def test_up_follows_the_attempts() -> None:
    rig = Rig()

    def up() -> bool | None:
        return rig.gate.snapshot(rig.now_s).up

    rig.fail(BREAK, times=2)
    assert up() is None
    rig.fail(BREAK)
    assert up() is False
    rig.fail(answered(404))
    assert up() is True
    rig.fail(unreachable(), times=2)
    assert up() is True, "two failures are not three"
    rig.fail(saturated(), times=5)
    assert up() is True, "our own saturation is no attempt"
    rig.fail(unreachable())
    assert up() is False
    rig.succeed(ADD)
    assert up() is True


def test_up_is_false_while_a_breaker_is_open_or_the_key_is_held() -> None:
    rig = Rig()
    rig.fail(BREAK, times=5)
    rig.succeed(ADD)
    assert rig.gate.snapshot(rig.now_s).up is False
    rig = Rig()
    rig.fail(answered(401), times=3)
    assert rig.gate.snapshot(rig.now_s).up is False


def test_snapshot_shows_everything_that_stands() -> None:
    rig = Rig()
    rig.permit()
    rig.permit(ADD)
    rig.fail(answered(429, retry_after_s=7.0), COMMIT)
    rig.fail(answered(403), identity="df_b")
    rig.fail(BREAK, ENSURE, times=5)
    rig.switch("commit", Mode.SHADOW)
    snapshot = rig.gate.snapshot(rig.now_s)
    assert snapshot.breakers.keys() == set(Group)
    assert snapshot.breakers[Group.SESSION].open_until_s == rig.now_s + 5.0
    assert (snapshot.held_identities, snapshot.auth_hold_until_s) == (1, None)
    assert snapshot.retry_after_until_s == {Group.COMMIT: rig.now_s + 7.0}
    assert snapshot.in_flight[Group.RECALL] == snapshot.in_flight[Group.APPEND] == 1
    assert snapshot.modes[Group.COMMIT] is Mode.SHADOW
    assert snapshot.modes[Group.RECALL] is Mode.NORMAL


# -- promises over many calls -----------------------------------------------------------------


def attempts_in_an_outage(rig: Rig, calls: int) -> int:
    decision = classify(OPERATIONS[Operation.SEARCH], unreachable())
    attempts = 0
    for _ in range(calls):
        rig.now_s += 0.001
        attempt_no = 1
        while isinstance(permit := rig.ask(attempt_no=attempt_no), Permit):
            attempts += 1
            if permit.failed(decision, rig.now_s, 0.001).retry_wait_s is None:
                break
            attempt_no += 1
    return attempts


def test_total_outage_stays_inside_the_retry_budget() -> None:
    rig = Rig(retry=RetrySettings(max_attempts=3))
    rig.switch("all", Mode.FORCED_CLOSED)
    assert attempts_in_an_outage(rig, 10_000) <= 1.10 * 10_000 + 10


def test_total_outage_with_breakers_costs_a_handful_of_attempts() -> None:
    rig = Rig(retry=RetrySettings(max_attempts=3))
    assert attempts_in_an_outage(rig, 10_000) <= 100


_failures = st.sampled_from(
    [
        BREAK,
        answered(404),
        answered(401),
        timed_out(),
        unreachable(),
        answered(429, retry_after_s=1),
    ]
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(GROUPED),
            st.none() | _failures,
            st.sampled_from(["report", "cancel", "unused", "keep"]),
            st.floats(0, 4.0),
        ),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_places_are_never_lost(
    steps: list[tuple[Operation, Failure | None, str, float]],
) -> None:
    rig = Rig(limits=LimitSettings(read_in_flight=3, write_in_flight=3))
    kept: list[Permit] = []
    for operation, failure, end, seconds in steps:
        rig.now_s += seconds
        permit = rig.ask(operation)
        if not isinstance(permit, Permit):
            continue
        if end == "keep":
            kept.append(permit)
        elif end == "cancel":
            permit.cancel()
        elif end == "unused":
            permit.return_unused()
        elif failure is None:
            permit.succeeded(rig.now_s, 0.1)
        else:
            permit.failed(classify(OPERATIONS[operation], failure), rig.now_s, 1.0)
    assert sum(rig.gate.snapshot(rig.now_s).in_flight.values()) == len(kept)
    for permit in kept:
        permit.cancel()
    assert not any(rig.gate.snapshot(rig.now_s).in_flight.values())
