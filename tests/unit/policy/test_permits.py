import asyncio
import threading
from collections.abc import Callable

import pytest

from resilient_ov.domain.exchange import Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.breaker import BreakerState
from resilient_ov.policy.classify import classify
from resilient_ov.policy.permits import Permit
from resilient_ov.policy.rules import Group
from resilient_ov.policy.switches import Mode
from resilient_ov.settings import BreakerSettings, RetrySettings
from tests.unit.policy.failures import answered
from tests.unit.policy.rig import Rig

SEARCH = OPERATIONS[Operation.SEARCH]
BREAK = classify(SEARCH, answered(503))

ENDS: dict[str, Callable[[Permit, float], object]] = {
    "succeeded": lambda permit, now_s: permit.succeeded(now_s, 0.1),
    "failed": lambda permit, now_s: permit.failed(BREAK, now_s, 0.1),
    "cancel": lambda permit, _: permit.cancel(),
    "return_unused": lambda permit, _: permit.return_unused(),
}


@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_only_the_first_report_counts(first: str, second: str) -> None:
    rig = Rig(breaker=BreakerSettings(consecutive_failures=2))
    permit = rig.permit()
    ENDS[first](permit, rig.now_s)
    before = rig.gate.snapshot(rig.now_s)
    for _ in range(3):
        ENDS[second](permit, rig.now_s)
    assert rig.gate.snapshot(rig.now_s) == before
    assert not any(before.in_flight.values())


def test_later_report_says_that_the_call_ends() -> None:
    rig = Rig()
    permit = rig.permit()
    permit.cancel()
    verdict = permit.failed(BREAK, rig.now_s, 0.1)
    assert (verdict.changes, verdict.retry_wait_s) == ((), None)
    assert permit.succeeded(rig.now_s, 0.1) == ()


def test_attempt_that_was_made_keeps_its_retry_and_one_that_was_not_gives_it_back() -> None:
    rig = Rig()
    for _ in range(20):
        rig.permit(attempt_no=2).return_unused()
    for _ in range(10):
        rig.permit(attempt_no=2).cancel()
    assert not isinstance(rig.ask(attempt_no=2), Permit)


def test_permit_carries_the_end_of_the_attempt() -> None:
    rig = Rig()
    assert rig.permit(budget_s=2.0).deadline_s == rig.now_s + 2.0
    rig = Rig(retry=RetrySettings(attempt_s=0.5))
    assert rig.permit(budget_s=2.0).deadline_s == rig.now_s + 0.5
    assert rig.permit(budget_s=0.2).deadline_s == rig.now_s + 0.2


# -- fork -------------------------------------------------------------------------------------


def test_child_starts_with_fresh_breakers_budget_and_limits_but_the_same_switches() -> None:
    rig = Rig()
    for _ in range(10):
        rig.permit(attempt_no=2)
    rig.fail(answered(503), times=5)
    rig.switch("commit", Mode.FORCED_OPEN)
    rig.gate.reset_after_fork()
    snapshot = rig.gate.snapshot(rig.now_s)
    assert snapshot.breakers[Group.RECALL].state is BreakerState.CLOSED
    assert not any(snapshot.in_flight.values())
    assert snapshot.modes[Group.COMMIT] is Mode.FORCED_OPEN
    assert rig.gate.switches.mode(Group.COMMIT, rig.now_s) is Mode.FORCED_OPEN
    assert isinstance(rig.ask(attempt_no=2), Permit)


@pytest.mark.parametrize("end", ENDS)
def test_permit_of_the_parent_does_nothing_in_the_child(end: str) -> None:
    rig = Rig(breaker=BreakerSettings(consecutive_failures=1))
    permit = rig.permit()
    permit.core.lock.acquire()  # as if another thread held it at the fork
    rig.gate.reset_after_fork()
    before = rig.gate.snapshot(rig.now_s)
    ENDS[end](permit, rig.now_s)
    assert rig.gate.snapshot(rig.now_s) == before


# -- many callers -----------------------------------------------------------------------------


def test_half_open_admits_one_probe_among_threads_and_tasks() -> None:
    """16 threads and 16 tasks on two loops ask at once, for 60 half-open periods."""
    rig = Rig(breaker=BreakerSettings(open_s=1.0, max_open_s=1.0))
    rig.fail(answered(503), times=5)
    rounds, callers = 60, 18
    barrier = threading.Barrier(callers)
    admitted: list[list[Permit]] = [[] for _ in range(rounds)]
    ends_s = [rig.now_s + 1.0]
    lost: list[Permit] = []

    def ask(number: int) -> None:
        found = rig.gate.admit(SEARCH, now_s=ends_s[0], deadline_s=ends_s[0] + 2, budget_s=2.0)
        if isinstance(found, Permit):
            admitted[number].append(found)

    def next_round(number: int) -> None:
        """Alternate: the probe fails, is cancelled, or is heard of when another probes."""
        while lost:
            lost.pop().failed(BREAK, ends_s[0], 0.1)
        for permit in admitted[number]:
            if number % 3 == 0:
                permit.failed(BREAK, ends_s[0], 0.1)
            elif number % 3 == 1:
                permit.cancel()
            else:
                lost.append(permit)
        ends_s[0] += 4.0

    def thread() -> None:
        for number in range(rounds):
            barrier.wait()
            ask(number)
            if barrier.wait() == 0:
                next_round(number)
            barrier.wait()

    async def task(number: int) -> None:
        await asyncio.sleep(0)
        ask(number)

    async def tasks() -> None:
        for number in range(rounds):
            barrier.wait()
            await asyncio.gather(*(task(number) for _ in range(8)))
            if barrier.wait() == 0:
                next_round(number)
            barrier.wait()

    threads = [threading.Thread(target=thread) for _ in range(callers - 2)]
    threads += [threading.Thread(target=lambda: asyncio.run(tasks())) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [len(permits) for permits in admitted] == [1] * rounds


def test_concurrent_reports_lose_no_place_and_no_count() -> None:
    rig = Rig()

    def work() -> None:
        for number in range(300):
            permit = rig.ask()
            if isinstance(permit, Permit):
                permit.succeeded(rig.now_s, 0.01) if number % 2 else permit.cancel()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not any(rig.gate.snapshot(rig.now_s).in_flight.values())
