"""Two reasons to hold calls back that are no breaker: the server asked for it, or refuses our key.

No I/O and no clock here; not thread-safe by itself.
"""

from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.policy.classify import AuthSignal
from resilient_ov.policy.retry import MAX_HOLD_S
from resilient_ov.policy.rules import Group

FIRST_AUTH_HOLD_S = 30.0
LONGEST_AUTH_HOLD_S = 300.0
_UNAUTHENTICATED_IN_A_ROW = 3
_FORBIDDEN_IDENTITIES = 2
_MOST_IDENTITIES = 1_000
"""Held identities that are remembered; the one held longest ago is let go first."""


class HoldKind(StrEnum):
    """Why calls are held."""

    AUTH = "auth_hold"
    RETRY_AFTER = "retry_after"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldChanged:
    """A hold began, was prolonged (``until_s`` set) or ended (None).

    ``group`` is HOST for our key. ``identity`` is set (hashed user) when it alone is held.
    """

    kind: HoldKind
    group: Group
    identity: str | None
    until_s: float | None


class RetryAfterHolds:
    """Groups that the server asked to wait. The longest request of a group stands."""

    __slots__ = ("until_s",)

    def __init__(self) -> None:
        self.until_s: dict[Group, float] = {}
        """Group -> end (monotonic); one that has passed stays until it is looked at."""

    def hold(self, group: Group, now_s: float, hold_s: float) -> HoldChanged | None:
        """Hold a group for ``hold_s``, at most 60 s; None = it was already held that long."""
        until_s = now_s + min(hold_s, MAX_HOLD_S)
        if until_s <= max(now_s, self.until_s.get(group, now_s)):
            return None
        self.until_s[group] = until_s
        return HoldChanged(kind=HoldKind.RETRY_AFTER, group=group, identity=None, until_s=until_s)

    def blocked_until_s(self, group: Group, now_s: float) -> float | None:
        """Return until when the group is held; None = it is not."""
        until_s = self.until_s.get(group)
        if until_s is None:
            return None
        if now_s < until_s:
            return until_s
        del self.until_s[group]
        return None


@dataclass(slots=True)
class _Hold:
    """One standing auth hold. After ``until_s`` one probe at a time passes."""

    until_s: float
    period_s: float = FIRST_AUTH_HOLD_S
    probe_ticket: int | None = None
    lease_until_s: float = 0.0

    def blocked_until_s(self, now_s: float) -> float | None:
        if now_s < self.until_s:
            return self.until_s
        if self.probe_ticket is not None and now_s <= self.lease_until_s:
            return self.lease_until_s
        return None

    def prolong(self, now_s: float) -> None:
        self.period_s = min(2 * self.period_s, LONGEST_AUTH_HOLD_S)
        self.until_s = now_s + self.period_s
        self.probe_ticket = None


class AuthHolds:
    """Stops asking with a key, or as a user, that the server refuses.

    Three own 401 in a row, or 403 of two identities in a row, hold the host; a 403 of one identity
    holds that identity. 30 s at first, doubling to 300 s while probes are refused. In a row = with
    no answer in between that shows that the key was accepted.

    An admitted attempt carries a *ticket*; each change of a hold makes older tickets stale, so
    that answers to what was sent before it do not prolong or end it.
    """

    __slots__ = ("_forbidden", "_host", "_identities", "_unauthenticated", "quiet", "ticket")

    def __init__(self) -> None:
        self.ticket = 0
        self.quiet = True
        """Nobody is held, and an accepted key would be no news."""
        self._unauthenticated = 0
        self._forbidden: set[str | None] = set()
        self._host: _Hold | None = None
        self._identities: dict[str | None, _Hold] = {}

    @property
    def host_until_s(self) -> float | None:
        """End of the hold of the host, also when it has passed and no probe was accepted yet."""
        return None if self._host is None else self._host.until_s

    @property
    def held_identities(self) -> int:
        """How many identities are held alone."""
        return len(self._identities)

    def blocked_until_s(self, identity: str | None, now_s: float) -> float | None:
        """Return until when the identity is refused, at the latest; None = it may enter."""
        ends = [hold.blocked_until_s(now_s) for hold in self._holds(identity)]
        return max((end_s for end_s in ends if end_s is not None), default=None)

    def enter(self, identity: str | None, lease_until_s: float) -> int:
        """Admit one attempt and return its ticket; only when nothing is blocked.

        Where a hold stands it is the probe at its end.
        """
        holds = self._holds(identity)
        if holds:
            self.ticket += 1
            for hold in holds:
                hold.probe_ticket = self.ticket
                hold.lease_until_s = lease_until_s
        return self.ticket

    def report(
        self, ticket: int, signal: AuthSignal, identity: str | None, now_s: float
    ) -> list[HoldChanged]:
        """Note what an answer said of our key; SILENT frees a probe's place."""
        probed = [hold for hold in self._holds(identity) if hold.probe_ticket == ticket]
        changes: list[HoldChanged] = []
        if probed:
            changes = self._probe_result(probed, signal, identity, now_s)
        elif ticket != self.ticket or signal is AuthSignal.SILENT:
            return changes
        elif signal is AuthSignal.ACCEPTED:
            self._unauthenticated = 0
            self._forbidden.clear()
        else:
            changes = self._refused(signal, identity, now_s)
        self.quiet = not (
            self._unauthenticated or self._forbidden or self._host or self._identities
        )
        return changes

    def clear(self) -> list[HoldChanged]:
        """Let everybody go: the key changed."""
        changes = [_changed(identity, None) for identity in self._identities]
        if self._host is not None:
            changes.append(_HOST_FREED)
        self.ticket += 1
        self._unauthenticated = 0
        self._forbidden.clear()
        self._host = None
        self._identities.clear()
        self.quiet = True
        return changes

    def _holds(self, identity: str | None) -> list[_Hold]:
        found = (self._host, self._identities.get(identity))
        return [hold for hold in found if hold is not None]

    def _probe_result(
        self, probed: list[_Hold], signal: AuthSignal, identity: str | None, now_s: float
    ) -> list[HoldChanged]:
        late = now_s > probed[0].lease_until_s
        changes: list[HoldChanged] = []
        for hold in probed:
            hold.probe_ticket = None
            if late or signal is AuthSignal.SILENT:
                continue
            self.ticket += 1
            of_host = hold is self._host
            if signal is not AuthSignal.ACCEPTED:
                hold.prolong(now_s)
                changes.append(_host_held(hold) if of_host else _changed(identity, hold.until_s))
            elif of_host:
                self._host = None
                changes.append(_HOST_FREED)
            else:
                del self._identities[identity]
                changes.append(_changed(identity, None))
        return changes

    def _refused(self, signal: AuthSignal, identity: str | None, now_s: float) -> list[HoldChanged]:
        changes: list[HoldChanged] = []
        if signal is AuthSignal.UNAUTHENTICATED:
            self._unauthenticated += 1
        else:
            self._forbidden.add(identity)
            changes.append(self._hold_identity(identity, now_s))
        if (
            self._unauthenticated >= _UNAUTHENTICATED_IN_A_ROW
            or len(self._forbidden) >= _FORBIDDEN_IDENTITIES
        ):
            self._unauthenticated = 0
            self._forbidden.clear()
            self.ticket += 1
            self._host = _Hold(now_s + FIRST_AUTH_HOLD_S)
            changes.append(_host_held(self._host))
        return changes

    def _hold_identity(self, identity: str | None, now_s: float) -> HoldChanged:
        if len(self._identities) >= _MOST_IDENTITIES:
            del self._identities[next(iter(self._identities))]
        self.ticket += 1
        self._identities[identity] = _Hold(now_s + FIRST_AUTH_HOLD_S)
        return _changed(identity, now_s + FIRST_AUTH_HOLD_S)


def _changed(identity: str | None, until_s: float | None) -> HoldChanged:
    return HoldChanged(kind=HoldKind.AUTH, group=Group.HOST, identity=identity, until_s=until_s)


def _host_held(hold: _Hold) -> HoldChanged:
    return _changed(None, hold.until_s)


_HOST_FREED = _changed(None, None)
