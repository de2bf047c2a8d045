"""Shows the state of our breakers as pybreaker objects, so that a host's listeners work.

Rule: pybreaker is told what happened and decides nothing; no call ever goes through it, its
counters and its clock are unused.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pybreaker

from resilient_ov.policy.breaker import BreakerState, Transition
from resilient_ov.policy.refusals import Change
from resilient_ov.policy.rules import Group


class _Guarded(pybreaker.CircuitBreakerListener):
    """A host's listener whose errors are counted and reach nobody.

    Equal to the listener itself, so that it can be found and removed by it.
    """

    def __init__(
        self, listener: pybreaker.CircuitBreakerListener, on_error: Callable[[], None]
    ) -> None:
        self._listener = listener
        self._on_error = on_error

    def __eq__(self, other: object) -> bool:
        own = other._listener if isinstance(other, _Guarded) else other
        return self._listener is own

    __hash__ = None  # type: ignore[assignment]  # equality with another type has no hash

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        try:
            self._listener.state_change(cb, old_state, new_state)
        except Exception:  # noqa: BLE001 - whatever a host's code raises is not memory's failure
            self._on_error()


class MirroredBreaker(pybreaker.CircuitBreaker):
    """The mirror of one group's breaker: add listeners to it and read its state.

    `call`, `calling`, `open`, `close` and `half_open` of a host change the mirror only, until our
    breaker moves again.
    """

    def __init__(self, group: Group, on_listener_error: Callable[[], None]) -> None:
        super().__init__(name=f"openviking.{group.value}")
        self._on_listener_error = on_listener_error

    def add_listener(self, listener: pybreaker.CircuitBreakerListener) -> None:
        """Register a listener; what it raises is counted, not raised."""
        super().add_listener(_Guarded(listener, self._on_listener_error))

    def restart(self) -> None:
        """Be closed, with a lock that nobody holds; the listeners stay and are not told."""
        listeners: tuple[Any, ...] = self.listeners  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        super().__init__(name=self.name, listeners=listeners)


_MOVES: dict[BreakerState, Callable[[MirroredBreaker], object]] = {
    BreakerState.CLOSED: MirroredBreaker.close,
    BreakerState.HALF_OPEN: MirroredBreaker.half_open,
    BreakerState.OPEN: MirroredBreaker.open,
}


class PybreakerMirror:
    """One `MirroredBreaker` per group, moved by the transitions of our own.

    Thread-safe. Listeners run on a thread that reports a transition, one transition at a time,
    outside every lock of the policy; while they run, other threads leave their transitions to
    that one and go on.
    """

    def __init__(self, on_listener_error: Callable[[], None]) -> None:
        self._breakers = {group: MirroredBreaker(group, on_listener_error) for group in Group}
        self._start()

    def breaker(self, group: Group) -> MirroredBreaker:
        """Return the mirror of one group; always the same object."""
        return self._breakers[group]

    def apply(self, changes: Iterable[Change]) -> None:
        """Move the mirrors; changes that are no transitions are passed over.

        A transition that comes after a later one of its group (two threads reported at the same
        moment) is left out: the mirror is then already ahead of it.
        """
        self._pending.extend(change for change in changes if isinstance(change, Transition))
        # Asked again after the lock was left: what came in meanwhile was left to us.
        while self._pending and self._applying.acquire(blocking=False):
            try:
                while self._pending:
                    self._move(self._pending.popleft())
            finally:
                self._applying.release()

    def reset_after_fork(self) -> None:
        """Close every mirror in a forked child, without a word to its listeners, which stay."""
        for breaker in self._breakers.values():
            breaker.restart()
        self._start()

    def _start(self) -> None:
        self._seen = dict.fromkeys(Group, 0)
        self._pending: deque[Transition] = deque()
        self._applying = threading.Lock()

    def _move(self, transition: Transition) -> None:
        if transition.number > self._seen[transition.group]:
            self._seen[transition.group] = transition.number
            _MOVES[transition.to_state](self._breakers[transition.group])
