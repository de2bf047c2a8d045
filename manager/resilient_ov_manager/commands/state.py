"""`resilient-ov state`: what the gateways know to be stored, and how to make them look again."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out

app = typer.Typer(
    help="Show or reset what is known to be stored, session by session.", no_args_is_help=True
)

Storage = Annotated[Path | None, typer.Option(metavar="DIR", help="The gateway's storage_path.")]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="DeerFlow's config.yaml or a bare backend_config."),
]


@app.command("show")
def show(
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Its id or the label in the logs; none = counts."),
    ] = None,
    storage: Storage = None,
    config: Config = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as JSON, for programs.")
    ] = False,
) -> None:
    """Show how many sessions are known and in which condition, or one of them.

    Hashes and counts only; no server is asked and nothing changes.

    Exit codes: 0 = shown, 2 = a wrong option or session, 4 = the storage folder.
    """
    from resilient_ov_manager.commands.place import storage_of
    from resilient_ov_manager.commands.session_state import show_session

    place = storage_of(storage, config)
    if session is not None:
        show_session(place, session, as_json=as_json)
        return
    told = _counts(place)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for name, count in told.items():
        out().print(f"{name:<34}{count}")


@app.command("reset")
def reset(
    session: Annotated[str, typer.Argument(help="Its id or the label in the logs.")],
    storage: Storage = None,
    config: Config = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Really reset.")] = False,
) -> None:
    """Forget what is known of a session, so that its next turn reads it from the server.

    For a state that you have a reason to doubt: a server that was restored from a backup, a
    volume that was copied. Nothing is lost and nothing is stored twice: the next turn compares the
    thread with what the server holds. If the server does not have the session any more, that turn
    stores the whole thread again. A gateway may be running.

    Exit codes: 0 = reset; 1 = a batch is in doubt; 2 = --yes is missing, or a wrong option or
    session; 4 = the storage folder.
    """
    from resilient_ov_manager.commands.place import storage_of
    from resilient_ov_manager.commands.session_state import state_file

    place = storage_of(storage, config)
    name = state_file(place, session).stem
    if not yes:
        raise CommandError(f"nothing was reset. To forget what is known of {name}, add --yes")
    _reset(place, name)
    out().print(f"{name} is reset; its next turn reads it from the server.", soft_wrap=True)


def _counts(place: Path) -> dict[str, int]:
    from resilient_ov.adapters.watermark_file import UnreadableStateError, decode
    from resilient_ov.domain.ports import NewerStateError
    from resilient_ov.domain.purge import is_purged
    from resilient_ov_manager.commands.session_state import state_files

    counts = Counter[str]()
    for file in state_files(place):
        try:
            state = decode(file.read_bytes(), file.stem)
        except FileNotFoundError:
            continue
        except UnreadableStateError:
            counts["unreadable"] += 1
            continue
        except NewerStateError:
            counts["newer"] += 1
            continue
        counts["sessions"] += 1
        counts["doubt"] += state.in_doubt is not None
        counts["commit"] += state.pending_commit_since is not None
        counts["compare"] += state.server_total is None
        counts["erased"] += is_purged(state)
    kept_aside = sum(1 for _ in (place / "sessions").glob("*.corrupt-*"))
    return {
        "sessions": counts["sessions"],
        "with a batch in doubt": counts["doubt"],
        "with a commit owed": counts["commit"],
        "to be compared with the server": counts["compare"],
        "of persons that were erased": counts["erased"],
        "unreadable": counts["unreadable"],
        "of a newer version": counts["newer"],
        "unreadable ones kept aside": kept_aside,
    }


def _reset(place: Path, session: str) -> None:
    from resilient_ov.adapters.clock import SystemDice
    from resilient_ov.adapters.watermark_store import FileWatermarkStore
    from resilient_ov.adapters.worker_pool import WorkerPool
    from resilient_ov.domain.ports import StateUnwritableError
    from resilient_ov.domain.purge import forgotten, is_purged
    from resilient_ov_manager.state_visit import opened_state

    workers = WorkerPool(threads=1, waiting=8, name="resilient-ov-reset")
    store = FileWatermarkStore(
        place.parent, dice=SystemDice(), workers=workers, on_lock_missing=lambda: None
    )
    try:
        with store.session(session) as unit:
            state = opened_state(unit)
            if state is None:
                return
            if state.in_doubt is not None:
                raise CommandError(
                    "a batch of this session is in doubt, and forgetting it could store it twice."
                    " It is settled in the background while a gateway runs: try again then",
                    ExitCode.NOT_USABLE,
                )
            if is_purged(state):
                raise CommandError(
                    "the person of this session was erased; forgetting that would store the thread"
                    " again. If that is wanted: resilient-ov purge --forget"
                )
            unit.save(forgotten(state))
    except StateUnwritableError as error:
        raise CommandError(str(error), ExitCode.STORAGE) from None
    finally:
        store.close()
        workers.close()
