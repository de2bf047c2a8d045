"""Takes one look: what the server holds where a batch in doubt can stand.

Rule: a look counts only when it was answered in full; a commit that moves messages while it runs
makes it read the moved part again. Files are read from their first line, not from where the batch
should begin: a restored backup has fewer lines before it, and equal counters do not tell that.
What a slice has read is kept for the next slice of the same look, at most a minute.
"""

from collections import Counter
from dataclasses import dataclass, field

from resilient_ov.domain.ports import Clock
from resilient_ov.domain.settlement import Look
from resilient_ov.domain.watermark import InDoubt
from resilient_ov.usecases.reader import Lines, SessionReader, UnreadableError
from resilient_ov.usecases.steps import Flow

MAX_LOOK_S = 60.0


@dataclass(slots=True)
class Progress:
    """What the slices of one look have read; lives in memory only."""

    doubt_id: str
    began_s: float
    listed: tuple[int, ...] = ()
    archives: dict[int, Lines] = field(default_factory=dict[int, Lines])
    live: Lines | None = None


class Looks:
    """Keeps the progress of looks in slices, one per session. Used under the session's lock."""

    def __init__(self, clock: Clock, most: int = 1000) -> None:
        self._clock = clock
        self._most = most
        self._progress: dict[str, Progress] = {}

    def take(self, reader: SessionReader, session_id: str, doubt: InDoubt) -> Flow[Look]:
        """Look for ``doubt``; raises what the reader raises, keeping progress at a slice's end."""
        progress = self._resume(session_id, doubt)
        look = yield from self._look(reader, doubt, progress)
        self._progress.pop(session_id, None)
        return look

    def forget(self, session_id: str) -> None:
        """Drop the progress: the look was not answered."""
        self._progress.pop(session_id, None)

    def _resume(self, session_id: str, doubt: InDoubt) -> Progress:
        now_s = self._clock.monotonic_s()
        kept = self._progress.get(session_id)
        if kept is None or kept.doubt_id != doubt.id or now_s - kept.began_s > MAX_LOOK_S:
            kept = Progress(doubt_id=doubt.id, began_s=now_s)
            while len(self._progress) >= self._most:
                self._progress.pop(next(iter(self._progress)))
            self._progress[session_id] = kept
        return kept

    def _look(self, reader: SessionReader, doubt: InDoubt, progress: Progress) -> Flow[Look]:
        info = yield from reader.info()
        if info is None:
            return self._answered(progress, total=0, live=0, newest=0, gone=True)
        unchanged = (doubt.total_before, 0, doubt.newest_archive_before)
        if doubt.digests and unchanged == (
            info.total_messages,
            info.live_messages,
            info.commit_count,
        ):
            # Nothing was added since, and nothing is live: absent, without reading a line.
            return self._answered(
                progress, total=info.total_messages, live=0, newest=doubt.newest_archive_before
            )
        # Fewer archives than we know of: a restored backup, whose next archives have old numbers.
        behind = (
            info.total_messages < doubt.total_before
            or info.commit_count < doubt.newest_archive_before
        )
        after = 0 if behind else doubt.newest_archive_before
        begin = 0 if behind or doubt.live_before is None else doubt.live_before
        listed = yield from self._newer_archives(reader, after)
        while True:
            if progress.live is None or progress.listed != listed:
                progress.listed, progress.live = listed, Lines(0)
            live = progress.live
            yield from reader.read(None, live)
            for number in listed:
                yield from reader.read(number, progress.archives.setdefault(number, Lines(0)))
            again = yield from self._newer_archives(reader, after)
            if again == listed:
                break
            listed = again
        return self._answered(
            progress,
            total=info.total_messages,
            live=len(live.digests),
            newest=max((after, *listed)),
            begin=begin,
            exact=not behind and doubt.live_before is not None,
        )

    def _newer_archives(self, reader: SessionReader, after: int) -> Flow[tuple[int, ...]]:
        numbers = yield from reader.archives()
        newer = tuple(n for n in numbers if n > after)
        if newer and newer != tuple(range(newer[0], newer[0] + len(newer))):
            raise UnreadableError
        if newer and after and newer[0] != after + 1:
            raise UnreadableError
        return newer

    def _answered(
        self,
        progress: Progress,
        *,
        total: int,
        live: int,
        newest: int,
        gone: bool = False,
        begin: int = 0,
        exact: bool = True,
    ) -> Look:
        # The first newer archive holds what was live before; everything after it is new.
        files = [lines for _, lines in sorted(progress.archives.items())]
        files += [progress.live] if progress.live else []
        before = Counter(files[0].digests[:begin] if files else ())
        after = Counter(d for lines in files for d in lines.digests)
        after.subtract(before)
        return Look(
            total=total,
            live=live,
            newest_archive=newest,
            began_s=progress.began_s,
            ended_s=self._clock.monotonic_s(),
            before=_marked(before),
            seen=_marked(after),
            foreign_lines=after[None],
            gone=gone,
            exact=exact,
        )


def _marked(counts: Counter[str | None]) -> dict[str, int]:
    return {d: count for d, count in counts.items() if d is not None and count > 0}
