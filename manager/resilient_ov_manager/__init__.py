"""The DeerFlow memory manager on top of resilient_ov."""

from resilient_ov_manager.manager import OpenVikingMemoryManager

MANAGER_CLASS = OpenVikingMemoryManager

__all__ = ["MANAGER_CLASS", "OpenVikingMemoryManager"]
