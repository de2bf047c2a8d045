"""`resilient-ov check`: tells before the gateway starts whether memory would work.

Meant for an init container, because DeerFlow logs a failed start of memory and goes on.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resilient_ov_manager.terminal import CommandError, out

if TYPE_CHECKING:
    from rich.console import Console

    from resilient_ov_manager.preflight import Step

_STYLES = {"ok": "green", "FAILED": "bold red", "note": "yellow", "skipped": "dim"}


def check(
    config: Annotated[
        Path,
        typer.Option(metavar="FILE", help="DeerFlow's config.yaml, or a bare backend_config."),
    ],
    loop: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1.0,
            max=86_400.0,
            help="Instead, write and recall as user `__canary__` this often, until stopped.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="With --loop: show the metrics of the probe here."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="With --metrics-port: the address to listen on.")
    ] = "127.0.0.1",
) -> None:
    """Check that memory will work: configuration, key, server, search, storage, lock.

    Run it as the user and with the environment of the gateway, before it starts: DeerFlow itself
    logs a failed start of memory and goes on. The server gets one health check and one search of
    a user that is never written to; the storage folder is made if it is missing.

    With --loop it is a probe beside the gateway that never ends by itself: each round writes,
    commits, waits for the extraction and recalls, so that an embedder that is away, a failing
    extraction or an index that stays empty are seen behind a green health check. Each round costs
    one extraction. Alert on openviking_canary_last_success_timestamp_seconds.

    Exit codes; the first step that failed decides:

    - 0: memory is usable
    - 1: the server is not
    - 2: the configuration or the key is wrong
    - 3: the account has another namespace policy than configured
    - 4: the storage folder or its locks cannot be used
    """
    from resilient_ov_manager.preflight import State, preflight

    if loop is not None:
        from resilient_ov_manager.commands.check_loop import check_loop

        check_loop(config, loop, host=metrics_host, port=metrics_port)
        return
    if metrics_port is not None:
        raise CommandError("--metrics-port: a single check has no metrics to show. Add --loop")
    console = out()
    failed: Step | None = None
    for step in preflight(config):
        _tell(console, step)
        if step.state is State.FAILED and failed is None:
            failed = step
    console.print()
    if failed is None:
        console.print("Memory is usable.", style="bold green")
        return
    console.print(f"Memory is not usable: see '{failed.name}'.", style="bold red")
    raise typer.Exit(failed.code)


def _tell(console: "Console", step: "Step") -> None:
    """Print one step; what to do stands below what was found."""
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=(0, 2))
    row.add_column(width=7, style=_STYLES[step.state.value])
    row.add_column(width=7)
    row.add_column(ratio=1, overflow="fold")
    row.add_row(step.state.value, step.name, Text(step.found))
    for line in step.advice:
        row.add_row("", "", Text(f"-> {line}", style="yellow"))
    console.print(row)
