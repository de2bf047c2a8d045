import threading
from typing import Any

import pybreaker
import pytest

from resilient_ov.adapters.pybreaker_state import PybreakerMirror
from resilient_ov.policy.breaker import BreakerState, Cause, Transition
from resilient_ov.policy.holds import HoldChanged, HoldKind
from resilient_ov.policy.rules import Group

CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN


def move(number: int, to_state: BreakerState, group: Group = Group.RECALL) -> Transition:
    return Transition(
        group=group,
        number=number,
        from_state=CLOSED,
        to_state=to_state,
        cause=Cause.FAILURE_RATE,
        at_s=0.0,
        open_until_s=None,
    )


class Listener(pybreaker.CircuitBreakerListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str | None, str, str]] = []

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        self.heard.append((cb.name, old_state.name, new_state.name))


class Raising(pybreaker.CircuitBreakerListener):
    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        raise ValueError("a host's own fault")


class Mirror(PybreakerMirror):
    def __init__(self) -> None:
        self.errors = 0
        super().__init__(self._count)

    def _count(self) -> None:
        self.errors += 1


def test_every_group_has_a_closed_breaker_of_its_own() -> None:
    mirror = Mirror()
    names = {mirror.breaker(group).name for group in Group}
    assert names == {f"openviking.{group.value}" for group in Group}
    assert {mirror.breaker(group).current_state for group in Group} == {"closed"}
    assert mirror.breaker(Group.HOST) is mirror.breaker(Group.HOST)


def test_listener_hears_each_transition_of_its_group() -> None:
    mirror, listener = Mirror(), Listener()
    mirror.breaker(Group.RECALL).add_listeners(listener)
    mirror.apply([move(1, OPEN), move(1, OPEN, Group.APPEND)])
    mirror.apply([move(2, HALF_OPEN)])
    mirror.apply([move(3, CLOSED)])
    name = "openviking.recall"
    assert listener.heard == [
        (name, "closed", "open"),
        (name, "open", "half-open"),
        (name, "half-open", "closed"),
    ]
    assert mirror.breaker(Group.APPEND).current_state == "open"


def test_changes_that_are_no_transitions_are_passed_over() -> None:
    mirror = Mirror()
    mirror.apply([HoldChanged(kind=HoldKind.AUTH, group=Group.HOST, identity=None, until_s=30.0)])
    assert mirror.breaker(Group.HOST).current_state == "closed"


def test_late_transition_does_not_turn_the_state_back() -> None:
    mirror, listener = Mirror(), Listener()
    mirror.breaker(Group.RECALL).add_listener(listener)
    mirror.apply([move(2, OPEN), move(1, CLOSED), move(2, CLOSED)])
    assert mirror.breaker(Group.RECALL).current_state == "open"
    assert len(listener.heard) == 1


def test_raising_listener_is_counted_and_stops_nobody() -> None:
    mirror, listener = Mirror(), Listener()
    mirror.breaker(Group.RECALL).add_listeners(Raising(), listener)
    mirror.apply([move(1, OPEN), move(2, CLOSED)])
    assert mirror.errors == 2
    assert len(listener.heard) == 2
    assert mirror.breaker(Group.RECALL).current_state == "closed"


def test_listener_is_found_and_removed_by_itself() -> None:
    mirror, listener, other = Mirror(), Listener(), Listener()
    breaker = mirror.breaker(Group.RECALL)
    breaker.add_listeners(listener, other)
    found: list[object] = list(breaker.listeners)
    assert listener in found
    assert found[0] == found[0]
    assert found[0] != found[1]
    breaker.remove_listener(listener)
    assert listener not in list[object](breaker.listeners)
    mirror.apply([move(1, OPEN)])
    assert (len(listener.heard), len(other.heard)) == (0, 1)


def test_transition_reported_by_a_listener_follows_the_one_it_hears() -> None:
    mirror, listener = Mirror(), Listener()

    class Reporting(pybreaker.CircuitBreakerListener):
        def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
            if new_state.name == "open":
                mirror.apply([move(2, HALF_OPEN)])

    mirror.breaker(Group.RECALL).add_listeners(Reporting(), listener)
    mirror.apply([move(1, OPEN)])
    assert [new for _, _, new in listener.heard] == ["open", "half-open"]


def test_other_threads_do_not_wait_for_a_slow_listener() -> None:
    mirror = Mirror()
    inside, leave = threading.Event(), threading.Event()

    class Slow(pybreaker.CircuitBreakerListener):
        def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
            inside.set()
            assert leave.wait(10)

    mirror.breaker(Group.RECALL).add_listener(Slow())
    slow = threading.Thread(target=mirror.apply, args=([move(1, OPEN)],))
    slow.start()
    assert inside.wait(10)
    mirror.apply([move(1, OPEN, Group.COMMIT)])
    assert mirror.breaker(Group.COMMIT).current_state == "closed", "left to the slow thread"
    leave.set()
    slow.join(10)
    assert mirror.breaker(Group.COMMIT).current_state == "open"


def test_interrupted_listener_leaves_the_mirror_usable() -> None:
    mirror = Mirror()

    class Interrupting(pybreaker.CircuitBreakerListener):
        def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
            raise KeyboardInterrupt

    interrupting = Interrupting()
    breaker = mirror.breaker(Group.RECALL)
    breaker.add_listener(interrupting)
    with pytest.raises(KeyboardInterrupt):
        mirror.apply([move(1, OPEN)])
    breaker.remove_listener(interrupting)
    mirror.apply([move(2, HALF_OPEN)])
    assert breaker.current_state == "half-open"


def test_child_is_closed_without_a_word_and_keeps_its_listeners() -> None:
    mirror, listener = Mirror(), Listener()
    breaker = mirror.breaker(Group.RECALL)
    breaker.add_listener(listener)
    mirror.apply([move(5, OPEN)])
    listener.heard.clear()
    mirror.reset_after_fork()
    assert mirror.breaker(Group.RECALL) is breaker
    assert breaker.current_state == "closed"
    assert listener.heard == []
    mirror.apply([move(1, OPEN)])
    assert listener.heard == [("openviking.recall", "closed", "open")]
