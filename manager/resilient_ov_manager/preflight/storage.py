"""Whether the state of the sessions can be kept here: a write as a save does it, and the lock."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import StateUnwritableError
from resilient_ov.settings import Settings
from resilient_ov_manager.preflight.step import State, Step, failed
from resilient_ov_manager.terminal import ExitCode

_WRITING: Final[Mapping[str, str]] = {
    "no_space": "the disk is full or the quota is used up. Make room",
    "denied": "permission denied. The folder must belong to the user that runs DeerFlow",
    "io": "the file system reports an error. Look in the system's log",
}


def storage_steps(settings: Settings) -> Iterator[Step]:
    """Yield whether a state can be saved, and whether a lock keeps another process out."""
    workers = WorkerPool(threads=1, waiting=1, name="resilient-ov-check")
    store = FileWatermarkStore(
        settings.storage_path,
        dice=SystemDice(),
        workers=workers,
        on_lock_missing=lambda: None,
    )
    try:
        yield _writable(store.probe, store.place)
        yield _lockable(store.lock_works)
    finally:
        store.close()
        workers.close()


def _writable(probe: Callable[[], None], place: Path) -> Step:
    try:
        probe()
    except StateUnwritableError as error:
        reason, _, advice = _WRITING[error.problem].partition(". ")
        return failed("storage", f"{place}: {reason}", advice, code=ExitCode.STORAGE)
    return Step(name="storage", state=State.OK, found=f"{place} can be written")


def _lockable(lock_works: Callable[[], bool]) -> Step:
    advice = (
        "Put storage_path on a file system with working flock (local disk, NFSv4): without it"
        " several processes there can store a message twice"
    )
    try:
        works = lock_works()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return failed("lock", f"could not be tried ({reason})", advice, code=ExitCode.STORAGE)
    if not works:
        return failed("lock", "keeps no other process out", advice, code=ExitCode.STORAGE)
    return Step(name="lock", state=State.OK, found="keeps another process out")
