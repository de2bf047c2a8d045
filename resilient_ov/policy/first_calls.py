"""Forgives the timeout of a first call: the server takes about 2 s to set up a new identity.

No I/O and no clock here; not thread-safe by itself.
"""

_FORGIVEN_IN_A_ROW = 3
_MOST_IDENTITIES = 10_000
"""Identities that are remembered; one that was forgotten is at worst forgiven again."""


class FirstCalls:
    """Identities that were answered once, and how many first timeouts were forgiven in a row."""

    __slots__ = ("_forgiven", "_known")

    def __init__(self) -> None:
        self._known: dict[str | None, None] = {}
        self._forgiven = 0

    def answered(self, identity: str | None) -> None:
        """Note that the server did the work for this identity."""
        self._forgiven = 0
        if identity not in self._known:
            if len(self._known) >= _MOST_IDENTITIES:
                del self._known[next(iter(self._known))]
            self._known[identity] = None

    def forgives(self, identity: str | None) -> bool:
        """Tell whether this timeout says nothing; at most three in a row do."""
        if identity in self._known or self._forgiven >= _FORGIVEN_IN_A_ROW:
            return False
        self._forgiven += 1
        return True
