"""Secondary adapter (anti-corruption layer): the time and the randomness of this machine.

Rule: the only place of the product that reads a clock or rolls dice.
"""

import time
from datetime import UTC, datetime
from random import Random

from resilient_ov.adapters.forked import renew_after_fork


class SystemClock:
    """Implements ``Clock``; ``monotonic_s`` does not follow steps of the wall clock."""

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary instant; only differences mean something."""
        return time.monotonic()

    def utc_iso(self) -> str:
        """Return the wall clock as ``2026-11-30T14:58:26.451Z``."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemDice:
    """Implements ``Dice``. The operating system seeds it, and once more in a forked child."""

    def __init__(self) -> None:
        # Asking the operating system for every number would cost a system call per request; these
        # numbers spread load and name things, they keep nothing secret.
        self._random = Random()  # noqa: S311
        renew_after_fork(self)

    def renew(self) -> None:
        """Take a new seed, so that a child does not repeat its parent's numbers."""
        self._random.seed()

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def token(self) -> str:
        """Return 32 fresh hexadecimal characters."""
        return f"{self._random.getrandbits(128):032x}"
