"""Secondary adapter (owned persistence): the file through which an operator switches memory.

Rule: ``<storage_path>/openviking/switches.json`` is replaced whole; a file that cannot be
understood changes nothing, so a torn or wrong one is harmless.
"""

import time
from collections.abc import Callable
from pathlib import Path

from resilient_ov.adapters.durable_files import replace_file
from resilient_ov.domain.ports import Clock
from resilient_ov.policy.switches import Switches, format_switches, parse_switches

FILE_NAME = "switches.json"


class SwitchFile:
    """Reads and writes the switches of one place. Every method blocks.

    Not thread-safe: one reader, the background. Writers replace the file and need no lock; the
    last one wins.
    """

    def __init__(
        self, place: Path, clock: Clock, *, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._path = place / FILE_NAME
        self._clock = clock
        self._wall_s = wall_s
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> Switches | None:
        """Return what the file says when it is another file than at the last look, else None.

        A file that was removed says that nothing is switched.

        Raises:
            SwitchError: the file cannot be understood; told once for each such file.
            OSError: it cannot be read; looked at again the next time.

        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            removed, self._seen = self._seen is not None, None
            return Switches({}) if removed else None
        signature = (found.st_ino, found.st_mtime_ns, found.st_size)
        if signature == self._seen:
            return None
        text = self._path.read_text(encoding="utf-8", errors="replace")
        self._seen = signature
        return self.parsed(text)

    def current(self) -> Switches:
        """Return what the file says now; nothing switched when there is none.

        Raises:
            SwitchError: it cannot be understood.
            OSError: it cannot be read.

        """
        try:
            return self.parsed(self._path.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return Switches({})

    def write(self, switches: Switches) -> None:
        """Put a snapshot in force for every process of this place, within a second.

        Raises:
            OSError: nothing changed.

        """
        text = format_switches(switches, now_s=self._clock.monotonic_s(), wall_s=self._wall_s())
        temporary = self._path.with_name(f".{FILE_NAME}.{time.monotonic_ns()}.tmp")
        replace_file(self._path, temporary, text.encode(), durable=True)

    def parsed(self, text: str) -> Switches:
        """Return what a text says."""
        return parse_switches(text, now_s=self._clock.monotonic_s(), wall_s=self._wall_s())
