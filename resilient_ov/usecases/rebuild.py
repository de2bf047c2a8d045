"""Learns from the server what a session already holds, when our own state cannot tell.

Rule: read newest first, stop as soon as what was presented is recognised; digests only. An
archive never changes, so what was read of it is kept for the next try.
"""

from dataclasses import dataclass

from resilient_ov.domain.exchange import SessionInfo
from resilient_ov.domain.planning import Presentation, recognises
from resilient_ov.usecases.reader import Lines, SessionReader
from resilient_ov.usecases.steps import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What the server holds, oldest first; not whole when it was recognised early."""

    digests: tuple[str, ...]
    newest_archive: int


class Rebuilds:
    """Reads sessions back under their lock; keeps the archives of unfinished tries."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._archives: dict[str, dict[int, Lines]] = {}

    def take(
        self,
        reader: SessionReader,
        session_id: str,
        info: SessionInfo,
        presentation: Presentation,
        window: int,
    ) -> Flow[Rebuilt]:
        """Read until ``window`` digests are there and one of them was presented, or all is read.

        Raises what the reader raises; a further call goes on where this one stopped.
        """
        kept = self._kept(session_id)
        live_messages = info.live_messages
        while True:
            listed = yield from reader.archives()
            digests = yield from self._newest_first(
                reader, kept, listed, live_messages, presentation, window
            )
            again = yield from reader.archives()
            if again == listed:
                break
            live_messages = window  # a commit moved the live messages: read them anew
        self._archives.pop(session_id, None)
        return Rebuilt(digests=digests, newest_archive=max(listed, default=0))

    def _newest_first(
        self,
        reader: SessionReader,
        kept: dict[int, Lines],
        listed: tuple[int, ...],
        live_messages: int,
        presentation: Presentation,
        window: int,
    ) -> Flow[tuple[str, ...]]:
        tail = Lines(max(0, live_messages - window))
        yield from reader.read(None, tail)
        digests = _marked(tail)
        if tail.offset and not recognises(digests, presentation):
            whole = Lines(0)
            yield from reader.read(None, whole)
            digests = _marked(whole)
        for number in sorted(listed, reverse=True):
            if len(digests) >= window and recognises(digests, presentation):
                break
            lines = kept.setdefault(number, Lines(0))
            yield from reader.read(number, lines)
            digests = _marked(lines) + digests
        return digests

    def _kept(self, session_id: str) -> dict[int, Lines]:
        if session_id not in self._archives:
            while len(self._archives) >= self._most:
                self._archives.pop(next(iter(self._archives)))
            self._archives[session_id] = {}
        return self._archives[session_id]


def _marked(lines: Lines) -> tuple[str, ...]:
    return tuple(d for d in lines.digests if d is not None)
