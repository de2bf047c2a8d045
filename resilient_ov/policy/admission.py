"""Decides who may send: switches, holds, breakers, limits and retry budget in their order.

No I/O, clock or lock here: `permits.Gate` calls it under its lock. Everything is looked at before
anything is taken, so a refusal leaves no trace.
"""

import math
from collections.abc import Callable, Iterator

from resilient_ov.domain.exchange import FailureKind
from resilient_ov.policy.breaker import Breaker, BreakerState
from resilient_ov.policy.budget import RetryBudget
from resilient_ov.policy.bulkhead import Bulkhead
from resilient_ov.policy.classify import Action, AuthSignal, Decision, Sample
from resilient_ov.policy.deadline import evidence_s, little_time_s
from resilient_ov.policy.entry import NO_TICKET, Entry
from resilient_ov.policy.evidence import group_evidence, host_evidence
from resilient_ov.policy.first_calls import FirstCalls
from resilient_ov.policy.holds import AuthHolds, RetryAfterHolds
from resilient_ov.policy.refusals import (
    Change,
    GateSnapshot,
    Refusal,
    RefusalReason,
    RetryBudgetSpent,
    Verdict,
)
from resilient_ov.policy.retry import NoRetry, RetryWait, no_retry, plan_wait
from resilient_ov.policy.rules import OPERATION_GROUPS, Group, ReplayClass
from resilient_ov.policy.switches import Mode, Switches
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings

# Local names of what every request asks for.
_CLOSED = BreakerState.CLOSED
_NEVER = ReplayClass.NEVER
_NORMAL = Mode.NORMAL

LEASE_GRACE_S = 1.0
"""A probe that is not heard of this long after its deadline is given up."""

PROBE_POLL_S = 0.25
"""Who was refused because of a probe hears its result within this time."""

_FAILURES_IN_A_ROW = 3


class Admission:
    """The whole state of the policy of one process; not thread-safe by itself."""

    def __init__(
        self,
        breaker: BreakerSettings,
        limits: LimitSettings,
        retry: RetrySettings,
        fraction: Callable[[], float],
        switches: Switches,
    ) -> None:
        self._breaker_settings = breaker
        self._retry_settings = retry
        self._fraction = fraction
        self.switches = switches
        self._breakers = {group: Breaker(group, breaker, fraction) for group in Group}
        self._host = self._breakers[Group.HOST]
        self._auth = AuthHolds()
        self._retry_after = RetryAfterHolds()
        self._bulkhead = Bulkhead(limits)
        self._budget = RetryBudget()
        self._first_calls = FirstCalls()
        self._failures_in_a_row = 0
        self._answering: bool | None = None

    def enter(
        self, entry: Entry, now_s: float, place: int | None
    ) -> Refusal | RetryBudgetSpent | None:
        """Take what the attempt needs; or say why it may not be sent, and take nothing."""
        if entry.free:
            return None
        group = entry.group
        mode = self.switches.mode(group, now_s) if self.switches.by_group else _NORMAL
        if mode is not _NORMAL and (mode is Mode.FORCED_OPEN or mode is Mode.DISABLED):
            return self._refuse(entry, RefusalReason.SWITCH, self._switch_ends_s(group))
        left_s = entry.call_deadline_s - now_s
        if left_s <= 0 or (entry.rule.replay is _NEVER and left_s < little_time_s(entry.budget_s)):
            return self._refuse(entry, RefusalReason.DEADLINE, now_s)
        watched = mode is not Mode.FORCED_CLOSED
        refusal = self._blocked(entry, now_s, left_s) if watched else None
        if refusal is not None:
            watched = False
        else:
            full = self._bulkhead.refusal(group, place, now_s, sweeper=entry.sweeper)
            if full is not None:
                refusal = Refusal(
                    group=group,
                    reason=RefusalReason.BULKHEAD,
                    retry_at_s=now_s + full.poll_s,
                    place=full.place,
                )
        if refusal is not None:
            if mode is not Mode.SHADOW:
                return refusal
            entry.would_refuse, place = refusal.reason, refusal.place
        if entry.attempt_no == 1:
            self._budget.pay_in()
        elif self._budget.allows():
            self._budget.pay_out()
        else:
            return RetryBudgetSpent()
        self._bulkhead.enter(group, place, sweeper=entry.sweeper)
        if watched:
            self._take_tickets(entry, now_s)
        return None

    def succeeded(self, entry: Entry, now_s: float, took_s: float) -> tuple[Change, ...]:
        """Take back what the attempt held; the server did its work in ``took_s``."""
        if entry.free:
            return ()
        self._bulkhead.leave(entry.group, sweeper=entry.sweeper)
        self._failures_in_a_row = 0
        self._answering = True
        if entry.rule.slow_first:
            self._first_calls.answered(entry.identity)
        if entry.group_ticket == NO_TICKET:
            return ()
        own = self._breakers[entry.group].succeed(entry.group_ticket, now_s, took_s)
        host = self._host.succeed(entry.host_ticket, now_s, 0.0)
        if own is None and host is None and self._auth.quiet:
            return ()
        freed = self._auth.report(entry.auth_ticket, AuthSignal.ACCEPTED, entry.identity, now_s)
        return (*(move for move in (own, host) if move is not None), *freed)

    def failed(self, entry: Entry, decision: Decision, now_s: float, took_s: float) -> Verdict:
        """Take back what the attempt held; say what the failure moved and what follows."""
        changes: list[Change] = []
        if not entry.free:
            self._bulkhead.leave(entry.group, sweeper=entry.sweeper)
            self._note_answering(decision)
            changes += self._told(entry, decision, now_s, took_s)
        plan = self._plan(entry, decision, now_s)
        if isinstance(plan, RetryWait):
            return Verdict(changes=tuple(changes), retry_wait_s=plan.wait_s)
        if decision.hold_group is not None:
            held = self._retry_after.hold(decision.hold_group, now_s, plan.hold_s)
            changes += () if held is None else (held,)
        return Verdict(changes=tuple(changes), retry_wait_s=None)

    def cancelled(self, entry: Entry) -> None:
        """Take back what the attempt held; it told nothing."""
        if entry.free:
            return
        self._bulkhead.leave(entry.group, sweeper=entry.sweeper)
        if entry.group_ticket != NO_TICKET:
            self._breakers[entry.group].ignore(entry.group_ticket)
            self._host.ignore(entry.host_ticket)
            self._auth.report(entry.auth_ticket, AuthSignal.SILENT, entry.identity, 0.0)

    def unused(self, entry: Entry) -> None:
        """Take back what the attempt held; it was never made."""
        self.cancelled(entry)
        if entry.attempt_no > 1 and not entry.free:
            self._budget.refund()

    def clear_auth_holds(self) -> tuple[Change, ...]:
        """Forget what was said of the old key."""
        return tuple(self._auth.clear())

    def switch(self, switches: Switches, now_s: float) -> tuple[Change, ...]:
        """Set the snapshot. A group forced closed starts from a closed breaker."""
        self.switches = switches
        forced = [
            group for group in OPERATION_GROUPS if switches.mode(group, now_s) is Mode.FORCED_CLOSED
        ]
        if len(forced) == len(OPERATION_GROUPS):
            forced.append(Group.HOST)
        moves = [self._breakers[group].reset(now_s) for group in forced]
        return tuple(move for move in moves if move is not None)

    def next_admission_s(self, group: Group, identity: str | None, now_s: float) -> float:
        """Return when asking for the group makes sense: now, or when the last obstacle ends."""
        mode = self.switches.mode(group, now_s)
        if mode is Mode.FORCED_OPEN or mode is Mode.DISABLED:
            return self._switch_ends_s(group)
        if mode is not Mode.NORMAL and mode is not Mode.RETRIES_OFF:
            return now_s
        ends_s = (
            self._auth.blocked_until_s(identity, now_s),
            self._retry_after.blocked_until_s(group, now_s),
            self._breaker_blocks_until_s(self._breakers[group], now_s),
            self._breaker_blocks_until_s(self._host, now_s),
        )
        return max((end_s for end_s in ends_s if end_s is not None), default=now_s)

    def snapshot(self, now_s: float) -> GateSnapshot:
        """Return what is seen now."""
        breakers = {group: breaker.view() for group, breaker in self._breakers.items()}
        sick = self._auth.host_until_s is not None or any(
            view.state is BreakerState.OPEN for view in breakers.values()
        )
        held = {
            group: self._retry_after.blocked_until_s(group, now_s) for group in OPERATION_GROUPS
        }
        return GateSnapshot(
            breakers=breakers,
            auth_hold_until_s=self._auth.host_until_s,
            held_identities=self._auth.held_identities,
            retry_after_until_s={
                group: until_s for group, until_s in held.items() if until_s is not None
            },
            in_flight=dict(self._bulkhead.in_flight),
            modes={group: self.switches.mode(group, now_s) for group in OPERATION_GROUPS},
            up=False if sick else self._answering,
        )

    # -- who may enter ------------------------------------------------------------------------

    def _switch_ends_s(self, group: Group) -> float:
        until_s = self.switches.until_s(group)
        return math.inf if until_s is None else until_s

    def _blocked(self, entry: Entry, now_s: float, left_s: float) -> Refusal | None:
        """Look at the holds and breakers, in this order."""
        group = entry.group
        if not self._auth.quiet:
            until_s = self._auth.blocked_until_s(entry.identity, now_s)
            if until_s is not None:
                return self._refuse(entry, RefusalReason.AUTH_HOLD, until_s)
        if self._retry_after.until_s:
            until_s = self._retry_after.blocked_until_s(group, now_s)
            if until_s is not None:
                return self._refuse(entry, RefusalReason.RETRY_AFTER, until_s)
        own = self._breakers[group]
        if own.state is _CLOSED and self._host.state is _CLOSED:
            return None
        return self._broken(entry, own, RefusalReason.OPEN, now_s, left_s) or self._broken(
            entry, self._host, RefusalReason.HOST_OPEN, now_s, left_s
        )

    def _broken(
        self, entry: Entry, breaker: Breaker, reason: RefusalReason, now_s: float, left_s: float
    ) -> Refusal | None:
        if breaker.state is _CLOSED:
            return None
        until_s = self._breaker_blocks_until_s(breaker, now_s)
        if until_s is not None:
            probing = breaker.state is BreakerState.HALF_OPEN
            reason = RefusalReason.PROBE_IN_FLIGHT if probing else reason
            return self._refuse(entry, reason, until_s)
        # A probe that could not count as evidence would only take the place of one that can.
        if left_s < self._evidence_s(entry):
            return self._refuse(entry, RefusalReason.DEADLINE, now_s)
        return None

    def _breaker_blocks_until_s(self, breaker: Breaker, now_s: float) -> float | None:
        until_s = breaker.blocked_until_s(now_s)
        if until_s is not None and breaker.state is BreakerState.HALF_OPEN:
            return min(until_s, now_s + PROBE_POLL_S)
        return until_s

    def _refuse(self, entry: Entry, reason: RefusalReason, retry_at_s: float) -> Refusal:
        return Refusal(group=entry.group, reason=reason, retry_at_s=retry_at_s)

    def _take_tickets(self, entry: Entry, now_s: float) -> None:
        own, host, auth = self._breakers[entry.group], self._host, self._auth
        lease_until_s = entry.deadline_s + LEASE_GRACE_S
        if own.state is _CLOSED and host.state is _CLOSED:
            entry.group_ticket, entry.host_ticket = own.generation, host.generation
        else:
            entry.group_ticket, own_move = own.enter(now_s, lease_until_s)
            entry.host_ticket, host_move = host.enter(now_s, lease_until_s)
            entry.changes = tuple(move for move in (own_move, host_move) if move is not None)
        entry.auth_ticket = auth.ticket if auth.quiet else auth.enter(entry.identity, lease_until_s)

    # -- what an attempt tells ------------------------------------------------------------------

    def _told(
        self, entry: Entry, decision: Decision, now_s: float, took_s: float
    ) -> Iterator[Change]:
        if entry.group_ticket == NO_TICKET:
            return
        timeout = decision.failure.kind is FailureKind.TIMEOUT
        enough_s = self._evidence_s(entry)
        own = group_evidence(decision, enough_s)
        if (
            timeout
            and own is Sample.FAILURE
            and entry.rule.slow_first
            and self._first_calls.forgives(entry.identity)
        ):
            own = Sample.IGNORE
        host = host_evidence(decision, took_s, enough_s, cut=now_s >= entry.deadline_s)
        for breaker, ticket, sample, seconds in (
            (self._breakers[entry.group], entry.group_ticket, own, took_s),
            (self._host, entry.host_ticket, host, 0.0),
        ):
            moved = breaker.report(sample, ticket, now_s, seconds, timeout=timeout)
            if moved is not None:
                yield moved
        yield from self._auth.report(entry.auth_ticket, decision.auth, entry.identity, now_s)

    def _evidence_s(self, entry: Entry) -> float:
        return evidence_s(
            self._breaker_settings.min_evidence_s, entry.budget_s, self._retry_settings.attempt_s
        )

    def _note_answering(self, decision: Decision) -> None:
        if decision.answered:
            self._failures_in_a_row = 0
            self._answering = True
        elif decision.outcome is not None:
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= _FAILURES_IN_A_ROW:
                self._answering = False

    def _plan(self, entry: Entry, decision: Decision, now_s: float) -> RetryWait | NoRetry:
        settings = self._retry_settings
        attempts = min(settings.max_attempts, entry.rule.max_attempts)
        if self.switches.mode(entry.group, now_s) is Mode.RETRIES_OFF:
            attempts = 1
        if (
            decision.action is not Action.RETRY
            or entry.attempt_no >= attempts
            or (decision.retry_once and entry.attempt_no > 1)
        ):
            return no_retry(decision.retry_after_s)
        return plan_wait(
            attempt_no=entry.attempt_no,
            fraction=self._fraction(),
            settings=settings,
            retry_after_s=decision.retry_after_s,
            left_s=entry.call_deadline_s - now_s,
            needed_s=little_time_s(entry.budget_s),
        )
