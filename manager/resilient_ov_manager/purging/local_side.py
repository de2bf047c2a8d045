"""What the state of the gateways on this storage knows of one person.

Rule: a state changes under its session's lock only, so a gateway may run meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.status_file import ProcessStatus, StatusFiles
from resilient_ov.adapters.watermark_file import UnreadableStateError, decode
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.identity import server_id
from resilient_ov.domain.ports import NewerStateError, StateUnwritableError
from resilient_ov.domain.purge import is_purged, purged
from resilient_ov.domain.watermark import Watermark
from resilient_ov.settings import Settings
from resilient_ov_manager.state_visit import opened_state
from resilient_ov_manager.terminal import CommandError, ExitCode


@dataclass(frozen=True, slots=True)
class Held:
    """A session of which messages wait, and the owners in whose memory they do."""

    agent: str | None
    owners: tuple[str, ...]


class LocalSide:
    """The state below `<storage_path>/openviking`. A context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._workers = WorkerPool(threads=1, waiting=8, name="resilient-ov-purge")
        self._store = FileWatermarkStore(
            settings.storage_path,
            dice=SystemDice(),
            workers=self._workers,
            on_lock_missing=lambda: None,
        )
        self._folder = self._store.place / "sessions"

    def gateways(self) -> bool:
        """Whether a gateway lives on this storage."""
        return bool(self._living())

    def held(self, user: str) -> Mapping[str, Held]:
        """Return the sessions of this hashed user with messages that wait in living gateways.

        Gateways say so with up to a second's delay.
        """
        found: dict[str, Held] = {}
        for process in self._living():
            for session, (owner, agent) in process.sessions.items():
                if owner == user:
                    others = found[session].owners if session in found else ()
                    found[session] = Held(agent, (*others, process.token))
        return found

    def _living(self) -> list[ProcessStatus]:
        if not self._store.place.is_dir():
            return []
        files = StatusFiles(self._store.place, self._store.owners, SystemClock())
        return [process for process in files.read_all() if process.lives]

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

    def mark(self, session_id: str) -> bool:
        """Keep only the digests of a session, and that its person was erased.

        Returns whether a batch was in doubt, which may still arrive at the server.

        Raises:
            CommandError: the state cannot be written, or a gateway keeps its lock.

        """
        return self._mark(session_id, None, ())

    def have_dropped(self, user: str, session_id: str, held: Held) -> bool:
        """Mark a session, and let its owners drop what waits; else as `mark`."""
        fresh = Watermark(
            session_id=session_id,
            openviking_user=user,
            account=self._settings.auth.scope_account,
            server_id=server_id(self._settings.base_url),
            server_profile=self._settings.server_profile.value,
            agent=held.agent,
        )
        return self._mark(session_id, fresh, held.owners)

    def _mark(self, session_id: str, fresh: Watermark | None, drop_by: tuple[str, ...]) -> bool:
        with self._store.session(session_id) as unit:
            state = opened_state(unit) or fresh
            if state is None or (is_purged(state) and purged(state, drop_by=drop_by) == state):
                return False
            try:
                unit.save(purged(state, drop_by=drop_by))
            except StateUnwritableError as error:
                raise CommandError(str(error), ExitCode.STORAGE) from None
            return state.in_doubt is not None

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
