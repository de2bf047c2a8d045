"""A tape of lines that one process writes and another reads, through shared memory.

Rule: writing makes no system call. A pipe or a file would let go of the interpreter at each
record, and the writer's event loop would wait for it: the watching would be what is seen. What
was written is there for the reader even when the writer was killed in the next instant.
"""

import mmap
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct("<Q")
_BYTES: Final = 64 * 1024 * 1024
_POLL_S: Final = 0.01


class TapeFullError(Exception):
    """The run has written more than a tape holds."""


class TapeWriter:
    """Writes lines; safe from any thread of one process."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._lock = threading.Lock()
        self._at: int = _HEAD.unpack_from(self._memory)[0]

    def write(self, line: bytes) -> None:
        """Write a line.

        Raises:
            TapeFullError: there is no place left.

        """
        with self._lock:
            end = self._at + len(line)
            if end > len(self._memory):
                raise TapeFullError
            self._memory[self._at : end] = line
            # The reader looks at the head only, so it never sees half a line.
            _HEAD.pack_into(self._memory, 0, end)
            self._at = end


class TapeReader(threading.Thread):
    """Reads a tape as it is written and gives each line away, until ``finish``."""

    def __init__(self, path: Path, take: Callable[[bytes], None]) -> None:
        super().__init__(name=f"tape {path.name}", daemon=True)
        with path.open("wb") as file:
            file.truncate(_BYTES)
            file.write(_HEAD.pack(_HEAD.size))
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._path = path
        self._take = take
        self._at = _HEAD.size
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        """Read until the end is told."""
        while not self._over.wait(_POLL_S):
            self._read()
        self._read()

    def finish(self) -> None:
        """Read the rest, after the writer has ended, and throw the tape away."""
        self._over.set()
        self.join()
        self._memory.close()
        self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        end: int = _HEAD.unpack_from(self._memory)[0]
        if end > self._at:
            written = self._memory[self._at : end]
            self._at = end
            for line in written.splitlines(keepends=True):
                self._take(line)
