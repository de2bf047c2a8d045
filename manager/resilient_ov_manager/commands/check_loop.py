"""The loop of `resilient-ov check --loop`: rounds of the synthetic probe, shown and measured.

Rule: an unhealthy server does not end it; only a signal does.
"""

import signal
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from resilient_ov_manager.terminal import CommandError, ExitCode, out

if TYPE_CHECKING:
    from resilient_ov.settings import Settings
    from resilient_ov_manager.canary import Sang
    from resilient_ov_observability.exporter import MetricsExporter

_LONGEST_EXTRACTION_S = 120.0


def check_loop(config: Path, every_s: float, *, host: str, port: int | None) -> None:
    """Probe every ``every_s`` seconds until SIGINT or SIGTERM.

    Raises:
        CommandError: the configuration cannot be used, or the port is taken.

    """
    from prometheus_client import CollectorRegistry

    from resilient_ov.settings import AuthMode
    from resilient_ov_manager.canary import Canary
    from resilient_ov_manager.live_server import LiveServer, settings_of
    from resilient_ov_observability.exporter import MetricsExporter
    from resilient_ov_observability.metrics import MetricsSink

    settings = settings_of(config)
    if settings.auth.mode is AuthMode.API_KEY:
        raise CommandError(
            "--loop writes as a user of its own, and an API key has only its owner's memory."
            " Use auth_mode trusted in the probe's configuration"
        )
    ended = Event()

    def leave(*_: object) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    registry = CollectorRegistry()
    sink = MetricsSink(registry)
    exporter = None if port is None else MetricsExporter(host=host, port=port, registry=registry)
    console = out()
    try:
        if exporter is not None:
            _serve(exporter, host, port)
            console.print(f"metrics: http://{host}:{port}/metrics", soft_wrap=True)
        while not ended.is_set():
            began_s = time.monotonic()
            # A new one each round: the key and the certificates are read again.
            with LiveServer(settings) as server:
                canary = Canary(
                    settings,
                    server,
                    sink,
                    extraction_s=min(every_s, _LONGEST_EXTRACTION_S),
                    sleep=lambda seconds: _wait(ended, seconds),
                )
                told = [_words(sang, settings) for sang in canary.round()]
            console.print(f"{time.strftime('%H:%M:%S')}  {'; '.join(told)}", soft_wrap=True)
            ended.wait(max(0.0, every_s - (time.monotonic() - began_s)))
    finally:
        if exporter is not None:
            exporter.close()


def _wait(ended: Event, seconds: float) -> None:
    ended.wait(seconds)


def _serve(exporter: "MetricsExporter", host: str, port: int | None) -> None:
    """Begin to show metrics; a probe nobody can read is worth nothing, so a taken port ends it."""
    exporter.start()
    until_s = time.monotonic() + 2.0
    while exporter.address is None:
        if time.monotonic() >= until_s:
            exporter.close()
            raise CommandError(
                f"cannot listen on {host} port {port}. Stop what listens there, or choose another"
                " --metrics-port",
                ExitCode.INVALID,
            )
        time.sleep(0.01)


def _words(sang: "Sang", settings: "Settings") -> str:
    from resilient_ov_manager.failure_words import failure_words

    text = f"{sang.step.value} {sang.outcome.value} {sang.took_s:.1f} s"
    if sang.failure is None:
        return text
    found, _ = failure_words(
        sang.failure,
        settings.auth.mode,
        budget_s=settings.budgets.add_s,
        budget_key="budgets.add_seconds",
    )
    return f"{text} ({found})"
