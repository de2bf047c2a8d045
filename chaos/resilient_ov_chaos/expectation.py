"""What a scenario expects: who sees what, within which time; the words of the fault files.

Rule: pure values. A limit is told in the product's own terms (budgets, open periods, settle
times), so that it means the same at every pace.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from resilient_ov_chaos.knobs import Knobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A length of time: so many of the product's own, and some seconds."""

    budgets: float = 0.0
    """Budgets of ``get_context``."""
    writes: float = 0.0
    """Budgets of ``add``."""
    periods: float = 0.0
    """First open periods of a breaker."""
    settles: float = 0.0
    """Settle times."""
    windows: float = 0.0
    """Fault windows."""
    plus_s: float = 0.0

    def seconds(self, knobs: Knobs) -> float:
        """Return it in seconds at a pace."""
        return (
            self.budgets * knobs.get_context_s
            + self.writes * knobs.add_s
            + self.periods * knobs.open_s
            + self.settles * knobs.settle_s
            + self.windows * knobs.fault_s
            + self.plus_s
        )


class Reads(StrEnum):
    """What becomes of reads inside the fault window."""

    SERVED = "served"
    """All of them, as if nothing had happened."""
    LOST = "lost"
    """From the time to degrade on none: the turns go on without memory."""
    SOME = "some"
    """Some of them; none of them late."""


class Leaving(StrEnum):
    """What a process that shuts down inside the window may say."""

    DRAINS = "drains"
    LEAVES = "leaves"
    EITHER = "either"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The hypothesis of one scenario.

    Attributes:
        told: one sentence for people: who sees what.
        told_slow: what is to be added to it for a real server.
        reads: what becomes of recall and search.
        degrade_within: from the begin of the fault to the first turn that went on without memory;
            None = no turn does.
        quick_within: from the begin of the fault to the time from which on reads are answered at
            once, because nothing is sent any more; None = they may take their whole budget.
        opens: breakers that must open.
        stays_closed: breakers that must not open. All others may.
        recover_within: after the server itself serves a search again and the open period or hold
            that stands then has ended.
        deliver_within: from the end of the fault to the last write on the server.
        leaving: what a shutdown inside the window may say.
        connections: fresh connections there must be in the window, or it has proved nothing.
        late_landings: originals may land after their absence was proved; they must be counted.

    """

    told: str
    told_slow: str = ""
    reads: Reads
    degrade_within: Limit | None = None
    quick_within: Limit | None = None
    opens: frozenset[str] = frozenset()
    stays_closed: frozenset[str] = frozenset()
    recover_within: Limit = Limit(plus_s=1.0)
    deliver_within: Limit = Limit(writes=2.0, settles=3.0, periods=2.0, plus_s=3.0)
    leaving: Leaving = Leaving.EITHER
    connections: int = 0
    late_landings: bool = False

    def at_slow_server(self) -> "Expectation":
        """Return what holds where a commit alone takes a second.

        A write's budget then ends in the middle of the requests that follow its batch, which count
        as timeouts, and their breakers may open; reads and the host's stay closed all the same.
        """
        return replace(
            self,
            told=f"{self.told} {self.told_slow}".rstrip(),
            stays_closed=self.stays_closed & {"recall", "host"},
        )


ALL_GROUPS = frozenset({"recall", "append", "commit", "session", "host"})
