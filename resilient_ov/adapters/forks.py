"""Tells living objects that they woke up in a forked child.

Rule: a reset runs in the child's only thread, before any other Python code of the child; it does
no blocking I/O and takes no lock that existed before the fork.
"""

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """Something that holds threads, locks or descriptors a child must not share."""

    def reset_in_child(self) -> None:
        """Become fresh: forget inherited threads and locks, close inherited descriptors."""
        ...


_aware: WeakSet[ForkAware] = WeakSet()


def reset_after_fork(thing: ForkAware) -> None:
    """Call ``thing.reset_in_child`` in every child forked while ``thing`` is alive."""
    _aware.add(thing)


def _in_child() -> None:
    for thing in list(_aware):
        thing.reset_in_child()


os.register_at_fork(after_in_child=_in_child)
