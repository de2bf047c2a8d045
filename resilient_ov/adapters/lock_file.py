"""Lock files: taken without waiting, told apart from a removed namesake, released explicitly.

Rule: a lock lives in the open file, so it ends with the process however that dies. A file is
removed only by its holder, and whoever takes a lock checks that the name still means his file;
so lock files exist only while they are held, or after a kill until the next visit.

The third-party lock classes are not used here on purpose: while one of them is being taken, a
``fork`` of the host waits for the disk for up to 30 s and then ends the child (filelock 4.3), or
a lock silently becomes a marker file that a killed process leaves behind for ever.
"""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from resilient_ov.adapters.durable_files import make_directory
from resilient_ov.adapters.forked import renew_after_fork

_HELD = frozenset({errno.EAGAIN, errno.EACCES})
_MISSING = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_TRIES = 16
_FLAGS = os.O_RDWR | os.O_NOFOLLOW
_CHILD = """
import fcntl, os, sys
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
"""
_CHILD_REFUSED = 3
_CHILD_S = 10.0


class LockFile:
    """A lock file that was taken; ``exclusive`` False = only opened, because locks are missing.

    A forked child closes its copy of the descriptor and never unlocks: the lock stays the
    parent's. There is no finalizer, so garbage collection releases nothing.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.exclusive = False
        self._descriptor: int | None = descriptor
        renew_after_fork(self)

    def lock(self) -> bool:
        """Lock it without waiting; False = another holds it. Raises ``OSError``."""
        if self._descriptor is None:
            return False
        self.exclusive = _flock(self._descriptor, fcntl.LOCK_EX)
        return self.exclusive

    def is_current(self) -> bool:
        """Tell whether the name still means this file and not a later one, or none."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def note(self) -> bytes:
        """Return what the previous holder wrote and left behind; empty after a clean release."""
        return b"" if self._descriptor is None else os.pread(self._descriptor, 64, 0)

    def write_note(self, note: bytes) -> None:
        """Leave ``note`` (<= 64 bytes) for whoever takes the file after a kill."""
        if self._descriptor is not None:
            os.pwrite(self._descriptor, note, 0)

    def release(self) -> None:
        """Remove the name if it is ours, unlock and close; idempotent. Blocks, never raises."""
        if self.is_current():
            # A file that cannot be removed is harmless: the next holder takes it as it is.
            with suppress(OSError):
                os.unlink(self.path)
        self._close(unlock=True)

    def abandon(self) -> None:
        """Close without removing the name."""
        self._close(unlock=True)

    def renew(self) -> None:
        """Close the inherited descriptor; called by ``forked``."""
        self._close(unlock=False)

    def _close(self, *, unlock: bool) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        # Closing alone would not unlock while a child that is just being forked has a copy.
        if unlock and self.exclusive:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        self.exclusive = False
        with suppress(OSError):
            os.close(descriptor)


class LockFiles:
    """Takes lock files; ``on_missing`` is called once when the place turns out to have no locks."""

    def __init__(self, on_missing: Callable[[], None]) -> None:
        self._on_missing = on_missing
        self.missing = False

    def take(self, path: Path) -> LockFile | None:
        """Take the lock of ``path`` without waiting; None = held by another. Raises ``OSError``.

        The file and its directory are made when they are missing.
        """
        for _ in range(_TRIES):
            try:
                descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
            except FileNotFoundError:
                make_directory(path.parent)
                continue
            file = LockFile(path, descriptor)
            try:
                if not file.lock():
                    file.abandon()
                    return None
            except OSError as error:
                if error.errno in _MISSING:
                    self._report_missing()
                    return file
                file.abandon()
                raise
            if file.is_current():
                return file
            file.abandon()
        return None

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody holds the lock of ``path``; True also when that cannot be told."""
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            # Shared, so that two who ask at once do not take each other for the holder.
            return not _flock(descriptor, fcntl.LOCK_SH)
        except OSError:
            return True
        finally:
            os.close(descriptor)

    def _report_missing(self) -> None:
        if not self.missing:
            self.missing = True
            self._on_missing()


def lock_works(directory: Path) -> bool:
    """Tell whether a lock taken here keeps another process out (takes some 20 ms, blocks).

    Raises:
        OSError: the file or the child process could not be made.
    """
    path = directory / f"check-{os.urandom(8).hex()}.lock"
    make_directory(directory)
    file = LockFile(path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        try:
            file.lock()
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise
        command = [sys.executable, "-I", "-S", "-c", _CHILD, str(path)]
        ended = subprocess.run(  # noqa: S603 - our own interpreter and text
            command, timeout=_CHILD_S, check=False, capture_output=True
        )
        return ended.returncode == _CHILD_REFUSED
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(OSError):
            os.unlink(path)
        file.abandon()


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True
