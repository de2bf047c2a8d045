"""Secondary adapter (owned persistence): no outbox; what waits is in the process alone.

Rule: nothing blocks and nothing is kept.
"""

from collections.abc import Callable, Collection

from resilient_ov.domain.waiting import NOTHING_KEPT, Kept, OutboxDepth, Parcel


class VolatileOutbox:
    """Implements ``Outbox`` for who wants none: nothing is kept beyond the process."""

    durable = False

    def keep(
        self,
        session_ids: Collection[str],  # noqa: ARG002 - the port's signature
        waiting: Callable[[str], Parcel | None],  # noqa: ARG002 - the port's signature
    ) -> OutboxDepth:
        """Keep nothing."""
        return NOTHING_KEPT

    def adopt(self, take: Callable[[Parcel], Parcel | None]) -> int:  # noqa: ARG002 - the same
        """Find nothing."""
        return 0

    def depth(self) -> OutboxDepth:
        """Return that nothing is kept."""
        return NOTHING_KEPT

    def entries(self) -> tuple[Kept, ...]:
        """Return nothing."""
        return ()

    def erase(self, user: str) -> int:  # noqa: ARG002 - the port's signature
        """Remove nothing."""
        return 0

    def close(self) -> None:
        """Release nothing."""
