"""Secondary adapter (owned persistence): writes what this process says about itself.

Rule: on change only; blocks, so the background calls it; a place that cannot be written is tried
again later.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from resilient_ov.adapters.status_file import Sessions, StatusFiles


class Board(Protocol):
    """What is known of this process's health; ``revision`` grows with every change."""

    @property
    def revision(self) -> int:
        """Grow with every change."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return it as JSON-clean values."""
        ...


class StatusTeller:
    """Offers the board to the status file when it changed. Not thread-safe: one background."""

    def __init__(
        self,
        board: Board,
        files: StatusFiles,
        waiting: Callable[[], tuple[int, int]],
        sessions: Callable[[], Sessions],
    ) -> None:
        self._board = board
        self._files = files
        self._waiting = waiting
        self._sessions = sessions
        self._told: tuple[int, tuple[int, int], Sessions] | None = None

    def tell(self) -> None:
        """Write the status if it changed and a second has passed since the last write.

        Raises:
            OSError: it could not be written.

        """
        now = (self._board.revision, self._waiting(), self._sessions())
        if now != self._told:
            self._files.offer(waiting=now[1][0], facts=self.facts(), sessions=now[2])
            self._told = now
        self._files.write_due()

    def facts(self) -> Mapping[str, Any]:
        """Return what this process knows of itself now."""
        return self._board.snapshot()

    def close(self) -> None:
        """Remove the file: this process has nothing left that only its memory holds.

        Raises:
            OSError: it could not be removed.

        """
        self._files.close()
