"""Secondary adapter (owned persistence): what each process says about itself, for an operator.

Rule: at most one write a second, never a text or a secret; the file of a dead process is counted
once, by whoever takes its owner lock, and dropped.

``<storage_path>/openviking/status/<token>.json``: ``token, pid, host, written_at, waiting,
sessions, facts``. Process id and host name are for the reader's eyes; nothing is decided by them.
``sessions`` names, in hashes, what waits: ``{session id: [user, agent or null]}``.
"""

import json
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast

from resilient_ov.adapters.durable_files import replace_file
from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.owners import Owners, is_token
from resilient_ov.domain.ports import Clock

_INTERVAL_S = 1.0

Sessions = Mapping[str, tuple[str, str | None]]
"""Session id -> the server's user and agent; hashes."""
_NONE: Sessions = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """What one process said last.

    ``waiting`` = messages that only its memory holds, ``sessions`` = of which they are.
    """

    token: str
    lives: bool
    pid: int
    host: str
    written_at: str
    waiting: int
    facts: Mapping[str, object]
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a process says."""

    waiting: int
    facts: Mapping[str, object]
    sessions: Sessions


class StatusFiles:
    """The status files of one place. Safe from any thread; only ``offer`` never blocks.

    There is no thread of its own: whoever offers asks ``due_in_s`` and calls ``write_due`` then.
    """

    _offered: _Offer | None
    _written: _Offer | None
    _tried_s: float | None
    _file: Path | None

    def __init__(self, place: Path, owners: Owners, clock: Clock) -> None:
        self._directory = place / "status"
        self._owners = owners
        self._clock = clock
        self._start_anew()
        renew_after_fork(self)

    def offer(
        self, *, waiting: int, facts: Mapping[str, object], sessions: Sessions = _NONE
    ) -> None:
        """Say how the process is; ``facts`` is JSON-clean, and nothing is changed afterwards."""
        with self._mutex:
            self._offered = _Offer(waiting, facts, sessions)

    def due_in_s(self) -> float | None:
        """Return the seconds until a write is due, 0.0 = now; None = nothing changed."""
        with self._mutex:
            return self._due_in_s()

    def write_due(self) -> bool:
        """Write what was offered if it changed and a second has passed; False = not due.

        Raises:
            OSError: it could not be written; the next try is due a second later.
        """
        with self._mutex:
            if self._offered is None or self._due_in_s() != 0.0:
                return False
            offered = self._offered
            self._tried_s = self._clock.monotonic_s()
        token = self._owners.token()
        content = {
            "token": token,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "written_at": self._clock.utc_iso(),
            "waiting": offered.waiting,
            "sessions": dict(offered.sessions),
            "facts": offered.facts,
        }
        path = self._path(token)
        # Not synced: a kill loses nothing, and after a power loss no count is better than a stall.
        data = json.dumps(content, separators=(",", ":")).encode()
        replace_file(path, path.with_suffix(".tmp"), data, durable=False)
        with self._mutex:
            self._written = offered
            self._file = path
        return True

    def read_all(self) -> tuple[ProcessStatus, ...]:
        """Return what every process said last, by token; unreadable files are left out."""
        found = (self._read(token) for token in sorted(self._tokens()))
        return tuple(status for status in found if status is not None)

    def bury_dead(self) -> int:
        """Drop the files and marks of dead processes; return how many messages they held.

        A process is counted once, across all processes; an unreadable file counts 0.

        Raises:
            OSError: the place cannot be read or written; what was not dropped is not counted.
        """
        ended = 0
        for token in sorted(self._tokens() | self._owners.marked()):
            claimed = self._owners.claim_dead(token)
            if claimed is None:
                continue
            try:
                ended += self._drop(token)
            finally:
                claimed.release()
        return ended

    def close(self) -> None:
        """Remove this process's file; idempotent. Raises ``OSError`` when that fails."""
        with self._mutex:
            file, self._file = self._file, None
            self._offered = self._written = None
        if file is not None:
            with suppress(FileNotFoundError):
                os.unlink(file)

    def renew(self) -> None:
        """Have said nothing yet in a forked child; called by ``forked``."""
        self._start_anew()

    def _start_anew(self) -> None:
        self._mutex = threading.Lock()
        self._offered = None
        self._written = None
        self._tried_s = None
        self._file = None

    def _due_in_s(self) -> float | None:
        if self._offered is None or self._offered == self._written:
            return None
        if self._tried_s is None:
            return 0.0
        return max(0.0, self._tried_s + _INTERVAL_S - self._clock.monotonic_s())

    def _drop(self, token: str) -> int:
        status = self._read(token)
        with suppress(FileNotFoundError):
            os.unlink(self._path(token).with_suffix(".tmp"))
        with suppress(FileNotFoundError):
            os.unlink(self._path(token))
        return 0 if status is None else status.waiting

    def _tokens(self) -> frozenset[str]:
        try:
            names = [path.stem for path in self._directory.iterdir()]
        except FileNotFoundError:
            return frozenset()
        return frozenset(filter(is_token, names))

    def _read(self, token: str) -> ProcessStatus | None:
        try:
            content = json.loads(self._path(token).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return _status(content, token, lives=self._owners.lives(token))

    def _path(self, token: str) -> Path:
        return self._directory / f"{token}.json"


def _status(content: object, token: str, *, lives: bool) -> ProcessStatus | None:
    if not isinstance(content, dict):
        return None
    fields = cast("Mapping[str, object]", content)
    pid, host, waiting = fields.get("pid"), fields.get("host"), fields.get("waiting")
    written_at, facts = fields.get("written_at"), fields.get("facts")
    if not (isinstance(pid, int) and isinstance(waiting, int) and waiting >= 0):
        return None
    if not (isinstance(host, str) and isinstance(written_at, str) and isinstance(facts, dict)):
        return None
    return ProcessStatus(
        token=token,
        lives=lives,
        pid=pid,
        host=host,
        written_at=written_at,
        waiting=waiting,
        facts=cast("Mapping[str, object]", facts),
        sessions=_sessions(fields.get("sessions")),
    )


def _sessions(told: object) -> Sessions:
    """Return what waits; a version that does not say so has nothing to say."""
    found: dict[str, tuple[str, str | None]] = {}
    for name, owner in cast("Mapping[str, object]", told if isinstance(told, dict) else {}).items():
        match owner:
            case [str() as user, (str() | None) as agent]:
                found[name] = (user, agent)
            case _:
                pass
    return found
