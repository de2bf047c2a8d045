"""One attempt at the gate: what was asked, and the tickets it holds.

No I/O here.
"""

from resilient_ov.policy.refusals import Change, RefusalReason
from resilient_ov.policy.rules import Group, OperationRule

NO_TICKET = -1
"""The attempt is not watched: what it tells changes no breaker and no hold."""


class Entry:
    """One attempt at the gate: what was asked, and the tickets it holds."""

    __slots__ = (
        "attempt_no",
        "auth_ticket",
        "budget_s",
        "call_deadline_s",
        "changes",
        "deadline_s",
        "free",
        "group",
        "group_ticket",
        "host_ticket",
        "identity",
        "rule",
        "sweeper",
        "would_refuse",
    )

    def __init__(
        self,
        rule: OperationRule,
        identity: str | None,
        deadline_s: float,
        call_deadline_s: float,
        budget_s: float,
        attempt_no: int,
        sweeper: bool,  # noqa: FBT001 - positional, as all here: one is made for every attempt
    ) -> None:
        self.rule = rule
        self.free = rule.group is None
        """It passes every gate and counts nowhere."""
        self.group = rule.group or Group.HOST
        self.identity = identity
        self.deadline_s = deadline_s
        """When the attempt ends (monotonic): the call's deadline, or its own cap."""
        self.call_deadline_s = call_deadline_s
        self.budget_s = budget_s
        self.attempt_no = attempt_no
        self.sweeper = sweeper
        self.changes: tuple[Change, ...] = ()
        """What admitting it moved."""
        self.would_refuse: RefusalReason | None = None
        """Why it would have been refused were its group not in shadow."""
        self.group_ticket = self.host_ticket = self.auth_ticket = NO_TICKET
