"""A server to run against, and what a scenario may do to it.

Rule: a scenario that needs what a target cannot do is skipped by name, never quietly.
"""

from enum import StrEnum
from typing import Protocol


class Ability(StrEnum):
    """What can be done to a server, beyond the network in front of it."""

    KILL = "kill"
    """SIGKILL and start again."""
    FREEZE = "freeze"
    """SIGSTOP and SIGCONT."""
    EMBEDDER = "embedder"
    """Break the model that searches need, while sessions work."""
    FOREIGN_HITS = "foreign_hits"
    """Make searches answer with another user's memories."""


class Target(Protocol):
    """One server. Used by one thread."""

    @property
    def name(self) -> str:
        """Name for the report."""
        ...

    @property
    def address(self) -> str:
        """``host:port``."""
        ...

    @property
    def key(self) -> str:
        """The root key; never written anywhere."""
        ...

    @property
    def account(self) -> str:
        """The account all traffic belongs to."""
        ...

    @property
    def slow(self) -> bool:
        """Whether extraction and first use take seconds, as on a real server."""
        ...

    def can(self, ability: Ability) -> bool:
        """Tell whether something can be done to it."""
        ...

    def do(self, ability: Ability, *, on: bool) -> None:
        """Begin (``on``) or end something; KILL ends when the server answers again."""
        ...
