"""The DeerFlow memory manager on top of resilient_ov.

Rule: its names load late. The manager's base class is the host's, which takes up to a minute to
import, and the command line and the configuration need none of it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resilient_ov_manager.manager import OpenVikingMemoryManager

    MANAGER_CLASS = OpenVikingMemoryManager

__all__ = ["MANAGER_CLASS", "OpenVikingMemoryManager"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from resilient_ov_manager.manager import OpenVikingMemoryManager

    return OpenVikingMemoryManager
