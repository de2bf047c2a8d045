"""A gate on a hand-driven clock, with one verb per thing a call does."""

from resilient_ov.domain.exchange import Failure, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import classify
from resilient_ov.policy.permits import Gate, Permit
from resilient_ov.policy.refusals import Refusal, RefusalReason, RetryBudgetSpent, Verdict
from resilient_ov.policy.switches import NOTHING_SWITCHED, Mode
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings


class Rig:
    def __init__(
        self,
        *,
        breaker: BreakerSettings | None = None,
        limits: LimitSettings | None = None,
        retry: RetrySettings | None = None,
        fraction: float = 0.0,
    ) -> None:
        self.now_s = 1000.0
        self.gate = Gate(
            breaker=breaker or BreakerSettings(),
            limits=limits or LimitSettings(),
            retry=retry or RetrySettings(),
            fraction=lambda: fraction,
        )

    def ask(
        self,
        operation: Operation = Operation.SEARCH,
        *,
        budget_s: float = 2.0,
        left_s: float | None = None,
        identity: str = "df_a",
        attempt_no: int = 1,
        sweeper: bool = False,
        place: int | None = None,
    ) -> Permit | Refusal | RetryBudgetSpent:
        return self.gate.admit(
            OPERATIONS[operation],
            now_s=self.now_s,
            deadline_s=self.now_s + (budget_s if left_s is None else left_s),
            budget_s=budget_s,
            identity=identity,
            attempt_no=attempt_no,
            sweeper=sweeper,
            place=place,
        )

    def permit(
        self,
        operation: Operation = Operation.SEARCH,
        *,
        budget_s: float = 2.0,
        identity: str = "df_a",
        attempt_no: int = 1,
    ) -> Permit:
        found = self.ask(operation, budget_s=budget_s, identity=identity, attempt_no=attempt_no)
        assert isinstance(found, Permit), found
        return found

    def refused(
        self, operation: Operation = Operation.SEARCH, *, identity: str = "df_a"
    ) -> RefusalReason | None:
        """Ask without sending; None = it would have been admitted."""
        found = self.ask(operation, identity=identity)
        if isinstance(found, Permit):
            found.return_unused()
            return None
        assert isinstance(found, Refusal)
        return found.reason

    def fail(
        self,
        failure: Failure,
        operation: Operation = Operation.SEARCH,
        *,
        times: int = 1,
        took_s: float = 1.0,
        identity: str = "df_a",
        budget_s: float = 2.0,
    ) -> Verdict:
        """Let calls of one attempt end in that failure."""
        verdict: Verdict | None = None
        for _ in range(times):
            permit = self.permit(operation, identity=identity, budget_s=budget_s)
            decision = classify(OPERATIONS[operation], failure)
            verdict = permit.failed(decision, self.now_s, took_s)
        assert verdict is not None
        return verdict

    def succeed(
        self, operation: Operation = Operation.SEARCH, *, times: int = 1, identity: str = "df_a"
    ) -> None:
        for _ in range(times):
            self.permit(operation, identity=identity).succeeded(self.now_s, 0.01)

    def switch(self, name: str, mode: Mode) -> None:
        switches = NOTHING_SWITCHED.switched(name, mode, now_s=self.now_s)
        self.gate.set_switches(switches, self.now_s)
