"""How a delivery ends, and what it has in hand on the way.

Rule: values and one small ledger; nothing here sends or saves.
"""

from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.domain.exchange import Failure
from resilient_ov.domain.planning import Plan, Presentation, trim
from resilient_ov.domain.watermark import InDoubt
from resilient_ov.policy.refusals import Refusal


class DeliveryStatus(StrEnum):
    """How a delivery ended."""

    DONE = "done"
    """Everything presented is stored (or given up and counted), and committed if it was time."""
    HELD = "held"
    """A batch is in doubt: nothing newer is sent before it is settled."""
    REFUSED = "refused"
    """A breaker, hold, switch or limit said no; ``retry_at_s`` tells when that may change."""
    FAILED = "failed"
    """The server said no, or did not answer."""
    LOCKED = "locked"
    """Another visitor kept the session."""
    NO_STATE = "no_state"
    """The state could not be read or saved, so nothing was sent."""
    NEWER_STATE = "newer_state"
    """The state belongs to a newer version: this session is not ours to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The end of one delivery.

    ``left`` = what is not stored; ``committed`` = no commit is owed by it any more (or it is not
    time yet); ``retry_at_s`` = the earliest useful next try, None = back off; ``in_doubt`` = how
    many messages of a batch nobody knows the fate of.
    """

    status: DeliveryStatus
    left: Presentation
    committed: bool = False
    retry_at_s: float | None = None
    cause: Failure | Refusal | None = None
    task_id: str | None = None
    in_doubt: int = 0

    @property
    def finished(self) -> bool:
        """True when nothing of it must be tried again."""
        return self.status in (DeliveryStatus.DONE, DeliveryStatus.NEWER_STATE) and self.committed


NOTHING = Presentation()


class StoppedError(Exception):
    """Ends a delivery early; carries how."""

    def __init__(
        self,
        status: DeliveryStatus,
        cause: Failure | Refusal | None = None,
        retry_at_s: float | None = None,
    ) -> None:
        super().__init__(status.value)
        self.status = status
        self.cause = cause
        self.retry_at_s = retry_at_s


def stopped_by(result: Failure | Refusal) -> StoppedError:
    """Return how a delivery ends by what an operation came to."""
    if isinstance(result, Refusal):
        return StoppedError(DeliveryStatus.REFUSED, result, result.retry_at_s)
    return StoppedError(DeliveryStatus.FAILED, result)


@dataclass(slots=True)
class InHand:
    """What one delivery has in hand; ``digests`` one per presented message once it was planned."""

    presentation: Presentation
    digests: tuple[str, ...] = ()
    waiting: frozenset[str] = frozenset()

    def planned(self, planned: Plan, doubt: InDoubt | None) -> None:
        """Take in what a plan says must be sent."""
        # What is in doubt is not stored yet: its text is kept until it is settled.
        unsettled = doubt.digests if doubt is not None else ()
        self.digests = planned.digests
        self.waiting = frozenset((*(p.digest for p in planned.unknown), *unsettled))

    def stored(self, digests: tuple[str, ...]) -> None:
        """Note what is stored, or given up and counted: its text is no longer needed."""
        self.waiting -= frozenset(digests)

    def left(self) -> Presentation:
        """Return what still has to be stored."""
        if not self.digests:
            return self.presentation
        if not self.waiting.intersection(self.digests):
            return NOTHING
        return trim(self.presentation, self.digests, self.waiting)
