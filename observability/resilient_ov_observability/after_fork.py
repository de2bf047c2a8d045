"""Tells objects that they now live in a forked child.

Rule: what runs here takes no lock: the thread that held it does not exist in the child.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something whose locks, threads or sockets do not survive a fork."""

    def renew_after_fork(self) -> None:
        """Make the object usable in the child; takes no inherited lock, never raises."""
        ...


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def renew_in_children(item: Forkable) -> None:
    """Call ``item.renew_after_fork()`` in every child forked from now on."""
    _watched.add(item)


def _renew_all() -> None:
    for item in list(_watched):
        item.renew_after_fork()


os.register_at_fork(after_in_child=_renew_all)
