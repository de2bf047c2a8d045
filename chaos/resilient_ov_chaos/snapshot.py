"""Keeps what an operator would look at or hand over in the middle of a run, to be searched later.

Rule: files of the product vanish while they are copied; what is gone is left out.
"""

import io
import shutil
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Final

import typer

from resilient_ov_manager.commands.status import status

SEEN: Final = "seen"
"""Folder of a scenario's snapshots."""
BUNDLE: Final = "bundle.zip"


def snapshot(folder: Path, moment: str) -> None:
    """Keep the state files, the status page and the evidence archive of this moment.

    Raises:
        OSError: they cannot be kept.

    """
    kept = folder / SEEN / moment
    kept.mkdir(parents=True)
    storage = folder / "storage"
    for file in sorted(storage.rglob("*")):
        if file.is_file():
            copy = kept / "state" / file.relative_to(storage)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(file, copy)
    shown = io.StringIO()
    if not (storage / "openviking").is_dir():
        return
    with redirect_stdout(shown):
        _status(storage)
        _status(storage, as_json=True)
        _status(storage, bundle=kept / BUNDLE)
    (kept / "status.txt").write_text(shown.getvalue(), encoding="utf-8")


def _status(storage: Path, *, bundle: Path | None = None, as_json: bool = False) -> None:
    # Its exit code speaks of the product's health, which is not asked here.
    with suppress(typer.Exit):
        status(storage=storage, config=None, session=None, bundle=bundle, as_json=as_json)
