"""Tells long-lived objects that they woke up in a forked child.

Rule: ``renew`` runs before any other code of the child, on its only thread; it takes no lock that
the parent may have held, sends nothing and never raises.
"""

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    """Something that must not go on with its parent's locks, threads or sockets."""

    def renew(self) -> None:
        """Start anew in the child."""
        ...


_known: "weakref.WeakSet[Renewable]" = weakref.WeakSet()


def renew_after_fork(member: Renewable) -> None:
    """Call ``member.renew()`` in every forked child, as long as the member lives."""
    _known.add(member)


def _renew_all() -> None:
    for member in list(_known):
        member.renew()


os.register_at_fork(after_in_child=_renew_all)
