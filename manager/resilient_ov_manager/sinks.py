"""Where the backend's events go: the sinks of the observability package, and the key's source.

Rule: a sink that cannot be made (its library is missing or broken) is left out; memory works.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from resilient_ov import events
from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.composition import Surroundings
from resilient_ov.settings import Settings


class Sinks:
    """Builds what surrounds a backend."""

    def __init__(
        self,
        settings: Settings,
        *,
        trace_context_manager: Callable[[str], AbstractContextManager[Any]] | None,
        metrics_registry: Any,
    ) -> None:
        self._settings = settings
        self._trace_context_manager = trace_context_manager
        self._metrics_registry = metrics_registry
        self._key = ApiKeySource(settings.auth)
        self._key.refresh()

    def surroundings(self) -> Surroundings:
        """Return the sink, the key and the transports of one process."""
        return Surroundings(
            sink=events.NullSink(), key=self._current_key, refresh_key=self._refresh_key
        )

    def close(self) -> None:
        """Release what the sinks hold; idempotent."""

    def _current_key(self) -> str | None:
        key = self._key.current()
        return None if key is None else key.reveal()

    def _refresh_key(self) -> bool:
        return self._key.refresh(force=True)
