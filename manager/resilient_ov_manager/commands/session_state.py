"""One session's state, as `status --session` and `state show` print it."""

import json
from pathlib import Path

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out


def state_files(place: Path) -> list[Path]:
    """Return the state files of a gateway's folder, sorted."""
    folder = place / "sessions"
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


def state_file(place: Path, wanted: str) -> Path:
    """Return the file of a session, by its id or the label in the logs.

    Raises:
        CommandError: there is none.

    """
    from resilient_ov.domain.identity import session_hash

    for file in state_files(place):
        if wanted in {file.stem, session_hash(file.stem)}:
            return file
    raise CommandError(
        f"{wanted}: no such session here; `resilient-ov identity --user U --thread T` names it"
    )


def show_session(place: Path, wanted: str, *, as_json: bool) -> None:
    """Print what is known to be stored of a session; hashes and counts only.

    Raises:
        CommandError: there is no such session, or its state cannot be understood.

    """
    from resilient_ov.adapters.watermark_file import UnreadableStateError, decode
    from resilient_ov.domain.identity import session_hash
    from resilient_ov.domain.ports import NewerStateError
    from resilient_ov.domain.purge import is_purged

    file = state_file(place, wanted)
    try:
        state = decode(file.read_bytes(), file.stem)
    except (UnreadableStateError, NewerStateError) as error:
        raise CommandError(f"{file.stem}: {error}", ExitCode.STORAGE) from None
    doubt = state.in_doubt
    told = {
        "session": file.stem,
        "label": session_hash(file.stem),
        "messages on the server, as known": state.server_total,
        "not yet committed there": state.server_live,
        "digests remembered": len(state.submitted),
        "known before those": state.prefix_count,
        "in doubt": None if doubt is None else len(doubt.digests),
        "commit owed since": state.pending_commit_since,
        "last extraction task": state.last_commit_task_id,
        "last archive": state.newest_archive,
        "person erased": is_purged(state),
        "revision": state.revision,
    }
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for name, value in told.items():
        out().print(f"{name:<34}{'-' if value is None else value}", soft_wrap=True)
