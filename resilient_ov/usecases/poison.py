"""Counts refusals that will come again, per session.

Rule: two further tries, apart by a doubling wait; at the third refusal the caller gives up.
"""

from resilient_ov.domain.ports import Clock

_MAX_TRIES = 3
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 600.0


class Poison:
    """One per kind of request and process; used under each session's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: dict[str, int] = {}

    def again(self, session_id: str) -> float | None:
        """Count a refusal; return when (monotonic) to try again, None = give up."""
        tries = self._tries.get(session_id, 0) + 1
        if tries >= _MAX_TRIES:
            self._tries.pop(session_id, None)
            return None
        self._tries[session_id] = tries
        return self._clock.monotonic_s() + min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (tries - 1))

    def cured(self, session_id: str) -> None:
        """Forget what was counted: the server took it."""
        self._tries.pop(session_id, None)
