"""What is known to be stored of one session, and how each fact about the server changes it.

Rule: pure values; every transition returns a new watermark and none forgets a digest that is
known to be on the server unless the bounded window pushes it out. No text, ever.

Source: design of the write path, sections 5.2 to 5.4. ``server_total`` counts the messages ever
added to the session on the server; None means that this state was never compared with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from resilient_ov.domain.alignment import interleave

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """How far the owner's looks for a batch in doubt have come.

    Times are the owner's monotonic clock, so they mean nothing to another process: it starts anew.

    Attributes:
        owner: token of the process that takes the looks.
        absent_looks: answered looks in a row that found none of the digests.
        last_absent_end_s: when the newest of them ended.
        unusable_looks: answered looks whose content could not be understood.
    """

    owner: str
    absent_looks: int = 0
    last_absent_end_s: float = 0.0
    unusable_looks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """A batch that may or may not be on the server; written down before its first byte leaves.

    ``digests`` empty = no batch: only a look is owed, because the server holds more than we know.
    ``live_before`` (None = not known) is the line of the live messages where the batch can begin.
    ``explained`` are digests that are known to be stored behind that line.
    """

    id: str
    owner: str
    digests: tuple[str, ...]
    total_before: int
    newest_archive_before: int
    live_before: int | None = None
    explained: tuple[str, ...] = ()
    read_back: ReadBack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The durable state of one session.

    ``submitted`` and ``committed`` are ordered windows of digests, newest last. ``prefix_count``
    and ``prefix_digest`` name the head of the presented list that fell out of the window.
    ``server_live`` None = the number of live messages is not known. ``agent`` is the agent that is
    sent beside the user, None where none is. ``extra`` keeps unknown keys.
    """

    session_id: str
    openviking_user: str
    account: str
    server_id: str
    server_profile: str
    agent: str | None = None
    revision: int = 0
    server_total: int | None = None
    server_live: int | None = None
    submitted: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()
    prefix_count: int = 0
    prefix_digest: str = ""
    in_doubt: InDoubt | None = None
    pending_commit_since: str | None = None
    last_commit_task_id: str | None = None
    last_archive_uri: str | None = None
    newest_archive: int = 0
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def unfinished(self) -> bool:
        """True while there is something to settle or to commit."""
        return self.in_doubt is not None or self.pending_commit_since is not None

    @property
    def known(self) -> tuple[str, ...]:
        """Digests that must not be sent: stored ones and, newest, those in doubt."""
        return self.submitted if self.in_doubt is None else self.submitted + self.in_doubt.digests

    # -- what the server told -------------------------------------------------------------

    def compared(self, *, total: int, live: int) -> "Watermark":
        """Adopt the server's counters; a session that never had a message has no archive."""
        newest = self.newest_archive if total else 0
        return replace(self, server_total=total, server_live=live, newest_archive=newest)

    def moved(self, to: "Watermark") -> "Watermark":
        """Point where a fresh state points: another server, or another contract with it.

        What is known stays, the counters must be compared anew.
        """
        return replace(
            self,
            openviking_user=to.openviking_user,
            agent=to.agent,
            server_id=to.server_id,
            server_profile=to.server_profile,
            server_total=None,
            server_live=None,
        )

    def intend(self, *, doubt_id: str, owner: str, digests: tuple[str, ...]) -> "Watermark":
        """Write down a batch before it is sent.

        Raises:
            ValueError: something is in doubt already; settle that first, nothing may hide it.
        """
        if self.in_doubt is not None:
            raise ValueError("something is in doubt already")
        return replace(
            self,
            in_doubt=InDoubt(
                id=doubt_id,
                owner=owner,
                digests=digests,
                total_before=self.server_total or 0,
                newest_archive_before=self.newest_archive,
                live_before=self.server_live,
            ),
        )

    def stored(self, *, added: int, live: int, window: int, now_utc: str) -> "Watermark":
        """Record that the batch in doubt was answered with success.

        A live count above what we can explain leaves a look owed: somebody else wrote, or a
        batch of ours landed twice. One below it tells of a commit that we did not hear of: from
        then on nobody here knows where a batch begins, until an archive is named again.
        """
        doubt = self._doubt()
        expected = None if self.server_live is None else self.server_live + added
        explained = expected is None or live <= expected
        owed = (
            None
            if explained
            else replace(doubt, digests=(), explained=doubt.digests, read_back=None)
        )
        return replace(
            self._submit(doubt.digests, window, now_utc),
            server_total=(self.server_total or 0) + added,
            server_live=None if expected is None or live < expected else live,
            in_doubt=owed,
        )

    def not_applied(self) -> "Watermark":
        """Record that the batch in doubt certainly had no effect."""
        return replace(self, in_doubt=None)

    def settled(
        self,
        *,
        present: tuple[str, ...],
        total: int,
        live: int,
        newest_archive: int,
        window: int,
        now_utc: str,
    ) -> "Watermark":
        """End the doubt: ``present`` are the digests of the batch that the server holds.

        The others are absent for good and may be sent again. A server with fewer messages than
        before has lost some, and counts its archives anew. Counters that were never compared stay
        so: a look tells what happened to one batch, not what else the server holds. The window
        holds at least what was settled, so that the delivery at hand knows all of it.

        Raises:
            ValueError: nothing is in doubt.
        """
        doubt = self._doubt()
        behind = total < doubt.total_before
        window = max(window, len(present))
        base = self._submit(present, window, now_utc) if present else self
        return replace(
            base,
            in_doubt=None,
            server_total=None if self.server_total is None else total,
            server_live=None if self.server_total is None else live,
            newest_archive=newest_archive if behind else max(self.newest_archive, newest_archive),
        )

    def unknowable(self, window: int) -> "Watermark":
        """End a doubt that cannot be settled: the batch is never sent again.

        The total stays as it was known: comparing anew would read the same files again, which
        cannot be understood, and the session would never be released.
        """
        doubt = self._doubt()
        return replace(
            self,
            submitted=(self.submitted + doubt.digests)[-window:],
            in_doubt=None,
            server_live=None,
        )

    def given_up(self, digests: tuple[str, ...], window: int) -> "Watermark":
        """Know messages that the server will not take, so that no turn sends them again.

        They come to the old end of the window: the newest in it tell how far the thread is stored.
        """
        return replace(self, submitted=(digests + self.submitted)[-window:])

    def looked(self, read_back: ReadBack) -> "Watermark":
        """Remember an unfinished read-back."""
        return replace(self, in_doubt=replace(self._doubt(), read_back=read_back))

    def committed_all(
        self, *, task_id: str | None, archive: int | None, archive_uri: str | None
    ) -> "Watermark":
        """Record an accepted commit, or one that was skipped because nothing was live.

        A skipped one names no archive: if something should have been live, there is one that we
        did not hear of.
        """
        known = archive is not None or self.server_live == 0
        return replace(
            self,
            committed=self.submitted,
            pending_commit_since=None,
            server_live=0 if known else None,
            last_commit_task_id=task_id or self.last_commit_task_id,
            last_archive_uri=archive_uri or self.last_archive_uri,
            newest_archive=self.newest_archive if archive is None else archive,
        )

    def commit_unheard(self) -> "Watermark":
        """Record that a commit may have moved the live messages into an archive."""
        return replace(self, server_live=None)

    def commit_given_up(self) -> "Watermark":
        """Stop asking for a commit that the server will not take."""
        return replace(self, pending_commit_since=None)

    def commit_owed(self, now_utc: str) -> "Watermark":
        """Remember that live messages wait for a commit."""
        return replace(self, pending_commit_since=self.pending_commit_since or now_utc)

    def rebuilt(self, *, digests: tuple[str, ...], window: int, newest_archive: int) -> "Watermark":
        """Adopt what the server holds, its newest (oldest first), as known beside what we knew."""
        return replace(
            self,
            submitted=interleave(self.submitted, digests)[-window:],
            newest_archive=newest_archive,
        )

    def with_prefix(self, count: int, digest: str) -> "Watermark":
        """Adopt the head of the presented list that is known but not in the window."""
        return replace(self, prefix_count=count, prefix_digest=digest)

    def _doubt(self) -> InDoubt:
        if self.in_doubt is None:
            raise ValueError("nothing is in doubt")
        return self.in_doubt

    def _submit(self, digests: tuple[str, ...], window: int, now_utc: str) -> "Watermark":
        return replace(
            self,
            submitted=tuple(dict.fromkeys(self.submitted + digests))[-window:],
            pending_commit_since=self.pending_commit_since or now_utc,
        )
