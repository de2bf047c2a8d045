"""`resilient-ov status`: is memory healthy, since when, what waits, why, and what to do next.

Reads the status files of the running gateways and the state beside them; asks no server and
changes nothing. Everything shown is hashed or a closed word.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out

if TYPE_CHECKING:
    from resilient_ov.adapters.status_file import ProcessStatus


def status(
    storage: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The gateway's storage_path.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="DeerFlow's config.yaml or a bare backend_config."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="One session, by its id or the label in the logs."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write an evidence archive (zip) for a ticket; no secrets, no texts.",
        ),
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as JSON, for programs.")
    ] = False,
) -> None:
    """Say how memory is, process by process, and what to do next.

    Exit codes: 0 = every living process is healthy, 1 = one is not or none lives, 2 = a wrong
    option, 4 = the storage folder.
    """
    from resilient_ov_manager.commands.place import storage_of

    place = storage_of(storage, config)
    if session is not None:
        from resilient_ov_manager.commands.session_state import show_session

        show_session(place, session, as_json=as_json)
        return
    processes = [p for p in _read(place) if p.lives]
    healthy = bool(processes) and all(p.facts.get("healthy") is not False for p in processes)
    if bundle is not None:
        from resilient_ov_manager.commands.evidence import write_bundle

        write_bundle(bundle, processes)
        out().print(f"evidence of {len(processes)} processes written to {bundle}")
    elif as_json:
        told = [told_of(p) for p in processes]
        typer.echo(json.dumps({"healthy": healthy, "processes": told}, indent=2))
    elif not processes:
        out().print("No gateway is running on this storage.", style="yellow")
    else:
        for process in processes:
            _show(process)
    if not healthy:
        raise typer.Exit(ExitCode.NOT_USABLE)


def told_of(process: "ProcessStatus") -> dict[str, Any]:
    """Return what one process said of itself, without its log lines."""
    facts = {name: value for name, value in process.facts.items() if name != "recent"}
    return {
        "pid": process.pid,
        "host": process.host,
        "written_at": process.written_at,
        "waiting": process.waiting,
        **facts,
    }


def _read(place: Path) -> "tuple[ProcessStatus, ...]":
    from resilient_ov.adapters.clock import SystemClock, SystemDice
    from resilient_ov.adapters.status_file import StatusFiles
    from resilient_ov.adapters.watermark_store import FileWatermarkStore
    from resilient_ov.adapters.worker_pool import WorkerPool

    workers = WorkerPool(threads=1, waiting=8)
    store = FileWatermarkStore(
        place.parent, dice=SystemDice(), workers=workers, on_lock_missing=lambda: None
    )
    try:
        return StatusFiles(place, store.owners, SystemClock()).read_all()
    except OSError as error:
        raise CommandError(f"{place}: {error.strerror}", ExitCode.STORAGE) from None
    finally:
        workers.close()


def _show(process: "ProcessStatus") -> None:
    from rich.panel import Panel
    from rich.table import Table

    facts: dict[str, Any] = dict(process.facts)
    words = {True: ("healthy", "green"), False: ("NOT healthy", "red"), None: ("unused", "yellow")}
    word, style = words[facts.get("healthy")]
    table = Table.grid(padding=(0, 2))
    table.add_row("memory", f"[{style}]{word}[/] since {facts.get('since', '?')}")
    for why in facts.get("why", ()):
        table.add_row("why", str(why))
    for step in facts.get("next", ()):
        table.add_row("do next", str(step))
    pending = facts.get("pending", {})
    table.add_row(
        "waiting",
        f"{process.waiting} messages, {pending.get('in_doubt') or 0} batches in doubt,"
        f" {pending.get('commits') or 0} sessions to settle or commit",
    )
    if pending.get("oldest_s"):
        table.add_row("oldest", f"{pending['oldest_s']:.0f} s")
    odd = {g: b for g, b in facts.get("breakers", {}).items() if b.get("state") != "closed"}
    for group, breaker in odd.items():
        table.add_row("breaker", f"{group} {breaker['state']} since {breaker['since']}")
    for hold in facts.get("holds", ()):
        table.add_row("hold", f"{hold['group']} {hold['kind']}, {hold['left_s']:.0f} s left")
    for group, mode in facts.get("switches", {}).items():
        if mode != "normal":
            table.add_row("switch", f"{group} {mode}")
    for reason, count in facts.get("dropped", {}).items():
        if count:
            table.add_row("given up", f"{count} messages, {reason}")
    out().print(
        Panel(
            table,
            title=f"process {process.pid} on {process.host}",
            subtitle=f"as of {process.written_at}",
            title_align="left",
        )
    )
