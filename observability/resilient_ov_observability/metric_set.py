"""One set of series per registry, however many managers, sinks or module reloads there are.

No I/O here.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from resilient_ov_observability.catalogue import CATALOGUE
from resilient_ov_observability.local_store import LocalStore
from resilient_ov_observability.optional import optional
from resilient_ov_observability.shared_store import SharedStore
from resilient_ov_observability.store import Plan, SharedGauges, Store

PLAN: Final = Plan(CATALOGUE.values())
# Imported with this module: it takes longer than making a manager may.
_library: Final[Any] = optional("prometheus_client")
_MARK: Final = "_resilient_ov_metric_set"
_making = threading.Lock()


class MetricSet:
    """The series of one registry."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.gauges = SharedGauges(PLAN, store)


def is_multiprocess() -> bool:
    """Tell whether the client library shares its values between processes.

    The library decided by ``PROMETHEUS_MULTIPROC_DIR`` when it was first imported.
    """
    values = optional("prometheus_client.values")
    return values is not None and values.ValueClass is not values.MutexValue


def shared_metric_set(
    registry: Any = None, wall_s: Callable[[], float] = time.time
) -> MetricSet | None:
    """Return the set of a registry (None = the process's own), made when it is first asked for.

    None when the library is missing or broken, or the names are taken by somebody else's metrics.
    The set is kept on the registry itself, so that a reloaded module finds it again.
    """
    if _library is None:
        return None
    with _making:
        try:
            place = _library.REGISTRY if registry is None else registry
            found = getattr(place, _MARK, None)
            if found is None:
                found = MetricSet(_store(place, wall_s))
                setattr(place, _MARK, found)
        except Exception:  # noqa: BLE001 - memory works without metrics
            return None
        return found


def _store(registry: Any, wall_s: Callable[[], float]) -> Store:
    if is_multiprocess():
        return SharedStore(PLAN, registry)
    store = LocalStore(PLAN, wall_s)
    registry.register(store)
    return store
