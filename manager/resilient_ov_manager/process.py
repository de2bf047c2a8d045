"""The backend of this process with the sinks of the observability package around it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from resilient_ov.per_process import BackendOfProcess
from resilient_ov.settings import Settings
from resilient_ov_manager.sinks import Sinks


class PerProcess(BackendOfProcess):
    """Gives the backend of the calling process. Safe from any thread and after ``fork``."""

    def __init__(
        self,
        settings: Settings,
        *,
        trace_context_manager: Callable[[str], AbstractContextManager[Any]] | None,
        metrics_registry: Any,
    ) -> None:
        self.sinks = Sinks(
            settings,
            trace_context_manager=trace_context_manager,
            metrics_registry=metrics_registry,
        )
        super().__init__(settings, around=self.sinks.surroundings, close_around=self.sinks.close)
