"""The gate: asks the whole policy for a permit, and hears how each attempt went.

The only lock of the policy lives here. It is held for microseconds, never across an attempt, a
wait or a caller's code.
"""

import threading
from collections.abc import Callable

from resilient_ov.policy.admission import Admission
from resilient_ov.policy.classify import Decision
from resilient_ov.policy.entry import Entry
from resilient_ov.policy.refusals import (
    Change,
    GateSnapshot,
    Refusal,
    RetryBudgetSpent,
    Verdict,
)
from resilient_ov.policy.rules import Group, OperationRule
from resilient_ov.policy.switches import NOTHING_SWITCHED, Switches
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings


class _Core:
    """The state of one process and its lock. ``left_behind`` = it belongs to a parent process."""

    __slots__ = ("admission", "left_behind", "lock")

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.lock = threading.Lock()
        self.left_behind = False


class Permit(Entry):
    """One attempt that may be sent.

    Exactly one of `succeeded`, `failed`, `cancel` and `return_unused` counts: the first. Later
    ones do nothing, so `cancel` may stand in a ``finally``. Any thread may report. In a forked
    child a permit of the parent does nothing.
    """

    __slots__ = ("core", "unreported")

    core: _Core
    unreported: bool

    def succeeded(self, now_s: float, took_s: float) -> tuple[Change, ...]:
        """Report a clean success that took ``took_s`` from sending to the whole answer."""
        core = self.core
        if core.left_behind:
            return ()
        core.lock.__enter__()  # not `with`, see Gate.admit
        try:
            if not self.unreported:
                return ()
            self.unreported = False
            return core.admission.succeeded(self, now_s, took_s)
        finally:
            core.lock.release()

    def failed(self, decision: Decision, now_s: float, took_s: float) -> Verdict:
        """Report a failure; the verdict says whether and after which wait to ask for another.

        Raises nothing; a second report gives the verdict that the call ends.
        """
        core = self.core
        if core.left_behind:
            return _THE_END
        with core.lock:
            if not self.unreported:
                return _THE_END
            self.unreported = False
            return core.admission.failed(self, decision, now_s, took_s)

    def cancel(self) -> None:
        """Report that the attempt was broken off and tells nothing; frees a probe's place."""
        core = self.core
        if core.left_behind:
            return
        with core.lock:
            if self.unreported:
                self.unreported = False
                core.admission.cancelled(self)

    def return_unused(self) -> None:
        """Report that the attempt was never made; also gives back the retry it had paid."""
        core = self.core
        if core.left_behind:
            return
        with core.lock:
            if self.unreported:
                self.unreported = False
                core.admission.unused(self)


_THE_END = Verdict(changes=(), retry_wait_s=None)


class Gate:
    """The policy of one process: all breakers, holds, limits, the retry budget and the switches.

    Thread-safe; made once and shared. ``fraction`` draws a random number in [0, 1) and must
    neither block nor raise. Never blocks, never waits, knows no clock.
    """

    def __init__(
        self,
        *,
        breaker: BreakerSettings,
        limits: LimitSettings,
        retry: RetrySettings,
        fraction: Callable[[], float],
        switches: Switches = NOTHING_SWITCHED,
    ) -> None:
        self._breaker = breaker
        self._limits = limits
        self._retry = retry
        self._fraction = fraction
        self._core = self._new_core(switches)

    def admit(
        self,
        rule: OperationRule,
        *,
        now_s: float,
        deadline_s: float,
        budget_s: float,
        identity: str | None = None,
        attempt_no: int = 1,
        sweeper: bool = False,
        place: int | None = None,
    ) -> Permit | Refusal | RetryBudgetSpent:
        """Ask to send one attempt.

        Args:
            rule: the operation's row. One without a group is always admitted and never counts.
            now_s: monotonic.
            deadline_s: end of the whole call (monotonic); the permit's own ``deadline_s`` is the
                end of the attempt.
            budget_s: length of the whole call, for what depends on its share.
            identity: hashed user, for holds of one identity.
            attempt_no: 1 for the first; a later one needs a retry from the budget.
            sweeper: the background sweeper asks.
            place: from the last refusal of this attempt, if that was BULKHEAD.

        Returns:
            A permit; or a refusal after which nothing is held. RetryBudgetSpent is possible for
            ``attempt_no`` > 1 only.
        """
        attempt_s = self._retry.attempt_s
        permit = Permit(
            rule,
            identity,
            deadline_s if attempt_s is None else min(deadline_s, now_s + attempt_s),
            deadline_s,
            budget_s,
            attempt_no,
            sweeper,
        )
        core = permit.core = self._core
        permit.unreported = True
        # This and `succeeded` are on the path of every request, and on CPython 3.12 `with lock`
        # costs three times as much as these two calls. `acquire` would cost the same, but guards
        # against blocking on an event loop forbid it wherever it might wait; here it waits for
        # microseconds at most.
        core.lock.__enter__()
        try:
            return core.admission.enter(permit, now_s, place) or permit
        finally:
            core.lock.release()

    def next_admission_s(self, group: Group, now_s: float, *, identity: str | None = None) -> float:
        """Return when (monotonic) asking for a group makes sense.

        ``now_s``, or the end of the last obstacle; infinite under a switch without an end. Limits
        are not looked at.
        """
        core = self._core
        with core.lock:
            return core.admission.next_admission_s(group, identity, now_s)

    @property
    def switches(self) -> Switches:
        """The snapshot that is in force."""
        return self._core.admission.switches

    def set_switches(self, switches: Switches, now_s: float) -> tuple[Change, ...]:
        """Put a snapshot in force at once; groups forced closed start from a closed breaker."""
        core = self._core
        with core.lock:
            return core.admission.switch(switches, now_s)

    def clear_auth_holds(self) -> tuple[Change, ...]:
        """Let held calls go, because the key changed."""
        core = self._core
        with core.lock:
            return core.admission.clear_auth_holds()

    def snapshot(self, now_s: float) -> GateSnapshot:
        """Return what metrics and status show."""
        core = self._core
        with core.lock:
            return core.admission.snapshot(now_s)

    def reset_after_fork(self) -> None:
        """Start anew in a forked child, with the switches as they are.

        The parent's lock may be held for ever there by a thread that does not exist, so it is
        not touched. To be called in the child before any other thread runs.
        """
        self._core.left_behind = True
        self._core = self._new_core(self._core.admission.switches)

    def _new_core(self, switches: Switches) -> _Core:
        return _Core(Admission(self._breaker, self._limits, self._retry, self._fraction, switches))
