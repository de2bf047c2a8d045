"""What the state of the gateways on this storage knows of one person.

Rule: a state changes under its session's lock only, so a gateway may run meanwhile.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.status_file import StatusFiles
from resilient_ov.adapters.watermark_file import UnreadableStateError, decode
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import NewerStateError, StateUnwritableError
from resilient_ov.domain.purge import is_purged, purged
from resilient_ov.domain.watermark import Watermark
from resilient_ov_manager.state_visit import opened_state
from resilient_ov_manager.terminal import CommandError, ExitCode


class LocalSide:
    """The state below `<storage_path>/openviking`. A context manager."""

    def __init__(self, storage_path: Path) -> None:
        self._workers = WorkerPool(threads=1, waiting=8, name="resilient-ov-purge")
        self._store = FileWatermarkStore(
            storage_path, dice=SystemDice(), workers=self._workers, on_lock_missing=lambda: None
        )
        self._folder = self._store.place / "sessions"

    def waiting(self) -> int:
        """Return how many messages wait in the living gateways of this storage."""
        if not self._store.place.is_dir():
            return 0
        found = StatusFiles(self._store.place, self._store.owners, SystemClock()).read_all()
        return sum(process.waiting for process in found if process.lives)

    def sessions_of(self, user: str) -> tuple[str, ...]:
        """Return the sessions whose state names this hashed user."""
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        states = ((file.stem, self.state(file.stem)) for file in files)
        return tuple(
            name for name, state in states if state is not None and state.openviking_user == user
        )

    def state(self, session_id: str) -> Watermark | None:
        """Return a state as it is now; None = there is none, or it cannot be understood."""
        try:
            return decode((self._folder / f"{session_id}.json").read_bytes(), session_id)
        except (OSError, UnreadableStateError, NewerStateError):
            return None

    def mark(self, session_id: str) -> None:
        """Keep only the digests of a session, and that its person was erased.

        Raises:
            CommandError: the state cannot be written, or a gateway keeps its lock.

        """
        with self._store.session(session_id) as unit:
            state = opened_state(unit)
            if state is None or (is_purged(state) and purged(state) == state):
                return
            try:
                unit.save(purged(state))
            except StateUnwritableError as error:
                raise CommandError(str(error), ExitCode.STORAGE) from None

    def forget(self, session_id: str) -> None:
        """Remove the state of a session altogether; raises as `mark`."""
        with self._store.session(session_id) as unit:
            opened_state(unit)
            try:
                (self._folder / f"{session_id}.json").unlink(missing_ok=True)
                (self._store.place / "pending" / session_id).unlink(missing_ok=True)
            except OSError as error:
                raise CommandError(
                    f"the state cannot be removed: {error.strerror}", ExitCode.STORAGE
                ) from None

    def close(self) -> None:
        """Release the locks."""
        self._store.close()
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
