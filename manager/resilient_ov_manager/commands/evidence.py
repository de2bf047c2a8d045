"""The evidence archive of `resilient-ov status --bundle`: what a ticket needs and nothing else.

Everything in it passed the allow-list when it was told: hashes, closed words, numbers.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resilient_ov_manager.commands.status import told_of
from resilient_ov_manager.terminal import CommandError, ExitCode

if TYPE_CHECKING:
    from resilient_ov.adapters.status_file import ProcessStatus

_METRICS_TIMEOUT_S = 3.0


def write_bundle(target: Path, processes: "Sequence[ProcessStatus]") -> None:
    """Write status, configuration, metrics page and newest log lines of each process.

    Raises:
        CommandError: the archive cannot be written.

    """
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for process in processes:
                told = told_of(process)
                settings = told.get("process", {}).pop("settings", {})
                place = f"process-{process.token[:8]}"
                archive.writestr(f"{place}/status.json", json.dumps(told, indent=2))
                archive.writestr(f"{place}/config.json", json.dumps(settings, indent=2))
                lines: list[str] = process.facts.get("recent") or []  # type: ignore[assignment]
                archive.writestr(f"{place}/events.ndjson", "".join(f"{line}\n" for line in lines))
                archive.writestr(f"{place}/metrics.txt", _metrics(settings))
    except OSError as error:
        raise CommandError(f"{target}: {error.strerror}", ExitCode.STORAGE) from None


def _metrics(settings: dict[str, Any]) -> str:
    import httpx

    port = settings.get("metrics.port")
    if port is None:
        return "# metrics.port is not set: the host shows the metrics page itself\n"
    host = settings.get("metrics.host") or "127.0.0.1"
    try:
        with httpx.Client(trust_env=False, timeout=_METRICS_TIMEOUT_S) as client:
            return client.get(f"http://{host}:{port}/metrics").text
    except httpx.HTTPError as error:
        return f"# the metrics page did not answer: {type(error).__name__}\n"
