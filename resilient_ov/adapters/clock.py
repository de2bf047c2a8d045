"""Secondary adapter (anti-corruption layer): the time and the randomness of this machine.

Rule: the only place of the product that reads a clock or rolls dice.
"""

import random
import secrets
import time
from datetime import UTC, datetime

_DICE = random.SystemRandom()


class SystemClock:
    """Implements ``Clock``; ``monotonic_s`` does not follow steps of the wall clock."""

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary instant; only differences mean something."""
        return time.monotonic()

    def utc_iso(self) -> str:
        """Return the wall clock as ``2026-11-30T14:58:26.451Z``."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemDice:
    """Implements ``Dice`` from the operating system's generator.

    It keeps no state in the process, so a forked child cannot repeat its parent's numbers.
    """

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return _DICE.random()

    def token(self) -> str:
        """Return 32 fresh hexadecimal characters."""
        return secrets.token_hex(16)
