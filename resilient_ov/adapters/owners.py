"""Who is alive on one place: a random token per process, alive while its lock is held.

Rule: life is a lock, never a process id, a clock or a file's age; containers that share a volume
have equal ids. Where locks are missing every other owner counts as alive: nothing is taken from it.
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.lock_file import LockFile, LockFiles

_TOKEN = re.compile(r"[0-9a-f]{32}")
_TRIES = 3


class Owners:
    """The mark of this process among the owners of one place.

    Safe from any thread; all methods block.
    A forked child takes a new token at first use and leaves the parent's marks alone.
    """

    _token: str
    _mark: LockFile | None
    _lead: LockFile | None

    def __init__(self, directory: Path, files: LockFiles, new_token: Callable[[], str]) -> None:
        self._directory = directory / "owners"
        self._lead_path = directory / "sweeper.lock"
        self._files = files
        self._new_token = new_token
        self._start_anew()
        renew_after_fork(self)

    def token(self) -> str:
        """Return this process's token, after making sure that its life is visible.

        Raises:
            OSError: the mark cannot be made.
        """
        with self._mutex:
            if self._mark is not None and self._mark.is_current():
                return self._token
            if self._mark is not None:
                self._mark.abandon()
                self._mark = None
            token = self._token or self._new_token()
            for _ in range(_TRIES):
                self._mark = self._files.take(self._path(token))
                if self._mark is not None:
                    break
                # Somebody is just asking about the old token, whose mark was removed from outside.
                token = self._new_token()
            else:
                raise OSError("no owner mark could be taken")
            self._token = token
            return token

    def lives(self, token: str) -> bool:
        """Tell whether the owner with ``token`` lives; a word that is no token does not."""
        with self._mutex:
            if self._mark is not None and token == self._token:
                return True
        return is_token(token) and self._files.is_held(self._path(token))

    def lead(self) -> bool:
        """Be, or stay, the one sweeper of this place; False also when the place is unwritable."""
        with self._mutex:
            if self._lead is not None and self._lead.is_current():
                return True
            if self._lead is not None:
                self._lead.abandon()
            try:
                self._lead = self._files.take(self._lead_path)
            except OSError:
                # A place that cannot be written has no sweeper; every save says why.
                self._lead = None
            return self._lead is not None

    def claim_dead(self, token: str) -> LockFile | None:
        """Take what a dead owner left; None while it lives or another claims it.

        The caller releases the lock, which removes the owner's mark. Raises ``OSError``.
        """
        with self._mutex:
            if self._mark is not None and token == self._token:
                return None
        claimed = self._files.take(self._path(token))
        if claimed is not None and not claimed.exclusive:
            claimed.abandon()
            return None
        return claimed

    def marked(self) -> frozenset[str]:
        """Return the tokens that have a mark, living or dead."""
        try:
            names = [path.stem for path in self._directory.iterdir() if path.suffix == ".lock"]
        except FileNotFoundError:
            return frozenset()
        return frozenset(filter(is_token, names))

    def close(self) -> None:
        """End this owner's life and its lead; idempotent."""
        with self._mutex:
            for file in (self._mark, self._lead):
                if file is not None:
                    file.release()
            self._mark = self._lead = None
            self._token = ""

    def renew(self) -> None:
        """Be nobody yet in a forked child; called by ``forked``."""
        self._start_anew()

    def _start_anew(self) -> None:
        self._mutex = threading.Lock()
        self._token = ""
        self._mark = None
        self._lead = None

    def _path(self, token: str) -> Path:
        return self._directory / f"{token}.lock"


def is_token(word: str) -> bool:
    """Tell whether ``word`` has the shape of an owner's token."""
    return _TOKEN.fullmatch(word) is not None
