"""The steps of `resilient-ov check`, one file for each thing that is looked at."""

from resilient_ov_manager.preflight.run import preflight
from resilient_ov_manager.preflight.step import State, Step

__all__ = ["State", "Step", "preflight"]
