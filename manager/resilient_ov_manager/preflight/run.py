"""Would memory work here, with this configuration, now. The order of the steps.

Rule: reads and probes only, each thing once. No step shows a key, the address of the server or
an account.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from resilient_ov_manager.preflight.configuration import configuration_steps
from resilient_ov_manager.preflight.server import server_steps
from resilient_ov_manager.preflight.step import Step
from resilient_ov_manager.preflight.storage import storage_steps
from resilient_ov_manager.preflight.workers import metrics_step


def preflight(config: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Step]:
    """Yield the steps as they end; stops after a configuration that cannot be used."""
    settings = yield from configuration_steps(config, environ)
    if settings is None:
        return
    yield from server_steps(settings, environ)
    yield from storage_steps(settings)
    yield metrics_step(settings, environ)
