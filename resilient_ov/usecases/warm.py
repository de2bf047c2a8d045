"""``warm``: whether memory is usable, as far as one health check and one real read can tell.

Rule: writes nothing. A green health check proves nothing about the embedder, so a real find is
made, as a user that is never written to.
"""

from dataclasses import dataclass

from resilient_ov.domain.exchange import (
    Failure,
    Health,
    Identity,
    Operation,
    Search,
    ServerHealth,
    Success,
)
from resilient_ov.policy.refusals import Refusal
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.steps import Flow

_PROBE_QUERY = "is the memory reachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """What was found; ``failed`` None = usable. ``operation`` names the step that failed."""

    failed: Failure | Refusal | None = None
    operation: Operation | None = None
    version: str | None = None
    user: str | None = None


class Warm:
    """Checks the server. One per process."""

    def __init__(self, *, calls: Calls, score_threshold: float) -> None:
        self._calls = calls
        self._score_threshold = score_threshold

    def warm(
        self,
        context: CallContext,
        health: CallContext,
        identity: Identity,
        *,
        targets: tuple[str, ...],
    ) -> Flow[Warmed]:
        """Check health inside the ``health`` budget, then make one real find.

        ``targets`` empty = no find.
        """
        checked = yield from self._calls.perform(health, Health(identity=identity))
        if not isinstance(checked, Success):
            return Warmed(failed=checked, operation=Operation.HEALTH)
        told = checked.value
        version = told.version if isinstance(told, ServerHealth) else None
        user = told.user if isinstance(told, ServerHealth) else None
        if targets:
            found = yield from self._calls.perform(
                context,
                Search(
                    identity=identity,
                    query=_PROBE_QUERY,
                    targets=targets,
                    limit=1,
                    score_threshold=self._score_threshold,
                ),
            )
            if not isinstance(found, Success):
                return Warmed(failed=found, operation=Operation.SEARCH, version=version, user=user)
        return Warmed(version=version, user=user)
