"""Directories and files that survive a kill and a power loss.

Rule: everything here blocks on the disk; a failed write leaves the old file and no other.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Some network and user-space file systems have no directory sync; their rename is all there is.
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


def problem_of(error: OSError) -> str:
    """Return the closed word for the operator: ``no_space``, ``denied`` or ``io``."""
    if error.errno in _NO_SPACE:
        return "no_space"
    return "denied" if error.errno in _DENIED else "io"


def make_directory(directory: Path) -> None:
    """Create ``directory`` and what is missing above it, each mode 0700 and durable."""
    missing = [directory]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def create_empty(path: Path) -> None:
    """Create an empty file, mode 0600, and make its name durable; the directory may be missing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_directory(path.parent)
        descriptor = os.open(path, flags, 0o600)
    os.close(descriptor)
    sync_directory(path.parent)


def replace_file(target: Path, temporary: Path, data: bytes, *, durable: bool) -> None:
    """Replace ``target`` by ``data`` in one step, mode 0600; the directory may be missing.

    ``temporary`` lies in the same directory and is nobody else's. ``durable`` = the data and the
    name are on the disk before this returns; without it only a reader's view is atomic.

    Raises:
        OSError: ``target`` is the old one and ``temporary`` is gone; only when the last step, the
            sync of the directory, failed, ``target`` may be the new one and not durable.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileNotFoundError:
        make_directory(target.parent)
        descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            _write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:  # an interrupt too must leave no half file behind
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(target.parent)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
