import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resilient_ov.policy.classify import AuthSignal
from resilient_ov.policy.holds import AuthHolds, HoldChanged, HoldKind, RetryAfterHolds
from resilient_ov.policy.rules import Group

OK, NO_KEY, FORBIDDEN, SILENT = (
    AuthSignal.ACCEPTED,
    AuthSignal.UNAUTHENTICATED,
    AuthSignal.FORBIDDEN,
    AuthSignal.SILENT,
)
A, B = "df_a", "df_b"


def host(until_s: float | None) -> HoldChanged:
    return HoldChanged(kind=HoldKind.AUTH, group=Group.HOST, identity=None, until_s=until_s)


def alone(identity: str, until_s: float | None) -> HoldChanged:
    return HoldChanged(kind=HoldKind.AUTH, group=Group.HOST, identity=identity, until_s=until_s)


def attempt(
    holds: AuthHolds, signal: AuthSignal, identity: str = A, now_s: float = 0.0
) -> list[HoldChanged]:
    assert holds.blocked_until_s(identity, now_s) is None
    ticket = holds.enter(identity, now_s + 3.0)
    return holds.report(ticket, signal, identity, now_s)


# -- our key ----------------------------------------------------------------------------------


def test_three_refused_keys_in_a_row_hold_everybody() -> None:
    holds = AuthHolds()
    assert attempt(holds, NO_KEY) == []
    assert attempt(holds, NO_KEY, B) == []
    assert attempt(holds, NO_KEY, now_s=1.0) == [host(31.0)]
    assert holds.blocked_until_s(A, 30.9) == 31.0
    assert holds.blocked_until_s("df_new", 30.9) == 31.0
    assert holds.host_until_s == 31.0


def test_accepted_key_breaks_the_row() -> None:
    holds = AuthHolds()
    for signal in (NO_KEY, NO_KEY, OK, NO_KEY, NO_KEY):
        assert attempt(holds, signal) == []
    assert holds.blocked_until_s(A, 0.0) is None


def test_silent_answer_does_not_break_the_row() -> None:
    holds = AuthHolds()
    for signal in (NO_KEY, NO_KEY, SILENT):
        attempt(holds, signal)
    assert attempt(holds, NO_KEY) == [host(30.0)]


def test_forbidden_identity_is_held_alone() -> None:
    holds = AuthHolds()
    assert attempt(holds, FORBIDDEN) == [alone(A, 30.0)]
    assert holds.blocked_until_s(A, 1.0) == 30.0
    assert holds.blocked_until_s(B, 1.0) is None
    assert (holds.held_identities, holds.host_until_s) == (1, None)


def test_two_forbidden_identities_in_a_row_hold_everybody() -> None:
    holds = AuthHolds()
    attempt(holds, FORBIDDEN, A)
    assert attempt(holds, FORBIDDEN, B) == [alone(B, 30.0), host(30.0)]
    assert holds.blocked_until_s("df_new", 1.0) == 30.0


def test_accepted_identity_between_two_forbidden_ones_holds_nobody_else() -> None:
    holds = AuthHolds()
    attempt(holds, FORBIDDEN, A)
    attempt(holds, OK, "df_good")
    attempt(holds, FORBIDDEN, B)
    assert holds.blocked_until_s("df_good", 1.0) is None


def test_one_probe_at_the_end_of_a_hold() -> None:
    holds = AuthHolds()
    for _ in range(3):
        attempt(holds, NO_KEY)
    holds.enter(A, 33.0)
    assert holds.blocked_until_s(B, 30.0) == 33.0
    assert holds.blocked_until_s(B, 33.001) is None


def test_accepted_probe_frees_everybody() -> None:
    holds = AuthHolds()
    for _ in range(3):
        attempt(holds, NO_KEY)
    assert attempt(holds, OK, now_s=30.0) == [host(None)]
    assert holds.quiet
    assert holds.blocked_until_s(B, 30.0) is None


def test_refused_probe_doubles_the_hold_up_to_five_minutes() -> None:
    holds = AuthHolds()
    periods_s: list[float] = []
    for _ in range(3):
        attempt(holds, NO_KEY)
    for _ in range(5):
        now_s = holds.host_until_s or 0.0
        (changed,) = attempt(holds, NO_KEY, now_s=now_s)
        periods_s.append((changed.until_s or 0.0) - now_s)
    assert periods_s == [60.0, 120.0, 240.0, 300.0, 300.0]


def test_forbidden_probe_prolongs_both_its_holds() -> None:
    holds = AuthHolds()
    attempt(holds, FORBIDDEN, A)
    attempt(holds, FORBIDDEN, B)
    assert attempt(holds, FORBIDDEN, A, now_s=30.0) == [host(90.0), alone(A, 90.0)]


def test_accepted_probe_ends_both_its_holds() -> None:
    holds = AuthHolds()
    attempt(holds, FORBIDDEN, A)
    attempt(holds, FORBIDDEN, B)
    assert attempt(holds, OK, A, now_s=30.0) == [host(None), alone(A, None)]
    assert holds.blocked_until_s(B, 29.0) == 30.0


def test_silent_probe_frees_its_place() -> None:
    holds = AuthHolds()
    for _ in range(3):
        attempt(holds, NO_KEY)
    assert attempt(holds, SILENT, now_s=30.0) == []
    assert holds.blocked_until_s(B, 30.0) is None
    assert not holds.quiet


def test_late_probe_changes_nothing() -> None:
    holds = AuthHolds()
    for _ in range(3):
        attempt(holds, NO_KEY)
    ticket = holds.enter(A, 33.0)
    assert holds.report(ticket, OK, A, 33.001) == []
    assert holds.host_until_s == 30.0


def test_answers_to_what_was_sent_before_the_hold_do_not_move_it() -> None:
    holds = AuthHolds()
    old = [holds.enter(A, 3.0) for _ in range(5)]
    for _ in range(3):
        attempt(holds, NO_KEY)
    assert holds.report(old[0], OK, A, 1.0) == []
    assert holds.report(old[1], NO_KEY, A, 1.0) == []
    assert holds.report(old[2], FORBIDDEN, A, 1.0) == []
    assert holds.host_until_s == 30.0


def test_changed_key_lets_everybody_go() -> None:
    holds = AuthHolds()
    attempt(holds, FORBIDDEN, A)
    attempt(holds, FORBIDDEN, B)
    old = holds.ticket
    assert holds.clear() == [alone(A, None), alone(B, None), host(None)]
    assert holds.quiet
    assert holds.blocked_until_s(A, 0.0) is None
    for _ in range(3):
        assert holds.report(old, NO_KEY, A, 0.0) == [], "said of the old key"
    assert holds.clear() == []


def test_changed_key_starts_the_row_anew() -> None:
    holds = AuthHolds()
    attempt(holds, NO_KEY)
    attempt(holds, NO_KEY)
    holds.clear()
    assert attempt(holds, NO_KEY) == []


def test_remembers_a_bounded_number_of_identities() -> None:
    holds = AuthHolds()
    for number in range(1_001):
        attempt(holds, OK, "df_good")
        attempt(holds, FORBIDDEN, f"df_{number}")
    assert holds.held_identities == 1_000
    assert holds.blocked_until_s("df_0", 1.0) is None
    assert holds.blocked_until_s("df_1000", 1.0) == 30.0


class AuthMachine(RuleBasedStateMachine):
    """Oracle for the hold of the host and of two users, callers one at a time or overlapping."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = AuthHolds()
        self.now_s = 0.0
        self.refused_in_a_row = 0
        self.forbidden: set[str] = set()
        self.until_s: dict[str, float] = {}
        self.period_s: dict[str, float] = {}

    @rule(seconds=st.floats(0.1, 200.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    def names(self, identity: str) -> list[str]:
        return [name for name in ("host", identity) if name in self.until_s]

    def begin(self, name: str) -> None:
        self.until_s[name] = self.now_s + 30.0
        self.period_s[name] = 30.0

    @rule(
        identity=st.sampled_from([A, B]),
        signal=st.sampled_from([OK, NO_KEY, FORBIDDEN, SILENT]),
    )
    def attempt(self, identity: str, signal: AuthSignal) -> None:
        held = self.names(identity)
        ends_s = [self.until_s[name] for name in held if self.now_s < self.until_s[name]]
        assert self.holds.blocked_until_s(identity, self.now_s) == max(ends_s, default=None)
        if ends_s:
            return
        ticket = self.holds.enter(identity, self.now_s + 3.0)
        if held:
            for other in (A, B):
                if self.names(other) and set(self.names(other)) & set(held):
                    assert self.holds.blocked_until_s(other, self.now_s) is not None
        changes = self.holds.report(ticket, signal, identity, self.now_s)
        if held:
            self.probe_ended(held, signal)
            assert len(changes) == (0 if signal is SILENT else len(held))
        else:
            self.counted(identity, signal)

    def probe_ended(self, held: list[str], signal: AuthSignal) -> None:
        for name in held:
            if signal is OK:
                del self.until_s[name]
            elif signal is not SILENT:
                self.period_s[name] = min(2 * self.period_s[name], 300.0)
                self.until_s[name] = self.now_s + self.period_s[name]

    def counted(self, identity: str, signal: AuthSignal) -> None:
        if signal is OK:
            self.refused_in_a_row, self.forbidden = 0, set()
        elif signal is NO_KEY:
            self.refused_in_a_row += 1
        elif signal is FORBIDDEN:
            self.forbidden.add(identity)
            self.begin(identity)
        if self.refused_in_a_row >= 3 or len(self.forbidden) >= 2:
            self.refused_in_a_row, self.forbidden = 0, set()
            self.begin("host")

    @precondition(lambda self: self.until_s)
    @rule()
    def key_changes(self) -> None:
        assert len(self.holds.clear()) == len(self.until_s)
        self.until_s, self.refused_in_a_row, self.forbidden = {}, 0, set()

    @invariant()
    def says_the_same(self) -> None:
        assert self.holds.host_until_s == self.until_s.get("host")
        assert self.holds.held_identities == len(self.until_s.keys() & {A, B})
        assert self.holds.quiet == (
            not self.until_s and not self.refused_in_a_row and not self.forbidden
        )


TestAuthMachine = AuthMachine.TestCase
TestAuthMachine.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)


# -- Retry-After ------------------------------------------------------------------------------


def test_group_is_held_as_long_as_the_server_asked() -> None:
    holds = RetryAfterHolds()
    assert holds.hold(Group.RECALL, 0.0, 1.0) == HoldChanged(
        kind=HoldKind.RETRY_AFTER, group=Group.RECALL, identity=None, until_s=1.0
    )
    assert holds.blocked_until_s(Group.RECALL, 0.999) == 1.0
    assert holds.blocked_until_s(Group.APPEND, 0.0) is None
    assert holds.blocked_until_s(Group.RECALL, 1.0) is None
    assert holds.blocked_until_s(Group.RECALL, 0.5) is None, "what is over is forgotten"


@pytest.mark.parametrize("hold_s", [1e10, 61.0])
def test_hold_is_capped_at_a_minute(hold_s: float) -> None:
    holds = RetryAfterHolds()
    holds.hold(Group.COMMIT, 0.0, hold_s)
    assert holds.blocked_until_s(Group.COMMIT, 1.0) == 60.0


def test_longest_hold_stands() -> None:
    holds = RetryAfterHolds()
    holds.hold(Group.COMMIT, 0.0, 10.0)
    assert holds.hold(Group.COMMIT, 1.0, 5.0) is None
    assert holds.blocked_until_s(Group.COMMIT, 1.0) == 10.0
    assert holds.hold(Group.COMMIT, 1.0, 30.0) is not None
    assert holds.blocked_until_s(Group.COMMIT, 1.0) == 31.0


def test_hold_of_no_length_holds_nobody() -> None:
    holds = RetryAfterHolds()
    assert holds.hold(Group.COMMIT, 5.0, 0.0) is None
    assert holds.blocked_until_s(Group.COMMIT, 5.0) is None
