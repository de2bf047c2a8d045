"""What several worker processes of the gateway need that one does not."""

from collections.abc import Mapping

from resilient_ov.settings import Settings
from resilient_ov_manager.preflight.step import State, Step


def metrics_step(settings: Settings, environ: Mapping[str, str]) -> Step:
    """Tell what several workers need to show one metrics page; never a failure."""
    if not settings.metrics.enabled:
        return Step(name="metrics", state=State.OK, found="off (metrics.enabled)")
    told = environ.get("GATEWAY_WORKERS", "").strip()
    workers = int(told) if told.isdecimal() else 1
    if environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return Step(
            name="metrics", state=State.OK, found="the workers share PROMETHEUS_MULTIPROC_DIR"
        )
    if workers > 1:
        return Step(
            name="metrics",
            state=State.NOTE,
            found=f"{workers} workers (GATEWAY_WORKERS) without PROMETHEUS_MULTIPROC_DIR",
            advice=(
                "A scrape then sees one worker only, each time another. Set the variable to an"
                " empty folder of this start, before the workers start",
            ),
        )
    return Step(
        name="metrics",
        state=State.OK,
        found="one worker (more than one needs PROMETHEUS_MULTIPROC_DIR)",
    )
