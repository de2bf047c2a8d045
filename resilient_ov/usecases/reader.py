"""Reads what a session holds on the server, page by page, as digests only.

Rule: a flow that stops is told why by one of three exceptions, so that its caller can tell an
answer that shows nothing from no answer at all. Never the session context: it trims messages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from resilient_ov.domain.batches import marked_digest
from resilient_ov.domain.exchange import (
    Command,
    Failure,
    GetSession,
    Identity,
    ListArchives,
    ReadMessages,
    SessionInfo,
    StoredPage,
    Success,
    Value,
)
from resilient_ov.policy.refusals import Refusal
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.steps import Flow

PAGE_LINES = 50


class NotAnsweredError(Exception):
    """The server did not answer, or not well: nothing is known."""

    def __init__(self, result: Failure | Refusal) -> None:
        super().__init__("not answered")
        self.result = result


class UnreadableError(Exception):
    """The server answered, but what it holds cannot be understood."""


class SliceOverError(Exception):
    """The visit may ask no more for now; what was read is kept for the next one."""


@dataclass(slots=True)
class Lines:
    """Lines of one stored file read so far: a digest, or None for a line that is not ours."""

    offset: int
    digests: list[str | None] = field(default_factory=list[str | None])
    complete: bool = False


class SessionReader:
    """Asks about one session within one call; ``may_go_on`` ends a slice before a request."""

    def __init__(
        self,
        calls: Calls,
        context: CallContext,
        identity: Identity,
        session_id: str,
        may_go_on: Callable[[], bool],
    ) -> None:
        self._calls = calls
        self._context = context
        self._identity = identity
        self._session_id = session_id
        self._may_go_on = may_go_on

    def info(self) -> Flow[SessionInfo | None]:
        """Return the session's counters; None = the server has no such session."""
        try:
            value = yield from self._ask(
                GetSession(identity=self._identity, session_id=self._session_id)
            )
        except NotAnsweredError as stopped:
            if _status(stopped) == 404:
                return None
            raise
        return value if isinstance(value, SessionInfo) else None

    def archives(self) -> Flow[tuple[int, ...]]:
        """Return the numbers of the archives, ascending; a session without any has none."""
        try:
            value = yield from self._ask(
                ListArchives(identity=self._identity, session_id=self._session_id)
            )
        except NotAnsweredError as stopped:
            if _status(stopped) == 404:
                return ()
            raise
        return tuple(n for n in value if isinstance(n, int)) if isinstance(value, tuple) else ()

    def read(self, archive: int | None, lines: Lines) -> Flow[None]:
        """Read on until the file ends; ``archive`` None = the live messages.

        Raises:
            NotAnsweredError: a page did not come.
            UnreadableError: a line is no message, one line exceeds the reply cap, or an archive
                that was listed cannot be read.
            SliceOverError: the slice ended; ``lines`` holds what came.
        """
        limit = PAGE_LINES
        while not lines.complete:
            command = ReadMessages(
                identity=self._identity,
                session_id=self._session_id,
                archive=archive,
                offset=lines.offset + len(lines.digests),
                limit=limit,
            )
            try:
                page = yield from self._ask(command)
            except NotAnsweredError as stopped:
                limit = self._smaller_page(stopped, archive, limit)
                if limit == 0:
                    lines.complete = True
                continue
            if not isinstance(page, StoredPage) or page.unreadable_lines:
                raise UnreadableError
            lines.digests += [marked_digest(ids) for ids in page.lines]
            lines.complete = len(page.lines) < limit

    def _smaller_page(self, stopped: NotAnsweredError, archive: int | None, limit: int) -> int:
        """Return the next page size after a failed page; 0 = there is no such file."""
        failure = stopped.result
        if isinstance(failure, Failure):
            if failure.too_large:
                if limit == 1:
                    raise UnreadableError from None
                return limit // 2
            if failure.status == 404 and failure.enveloped:
                if archive is None:
                    return 0
                raise UnreadableError from None
            if failure.status == 403 and failure.enveloped:
                raise UnreadableError from None
        raise stopped

    def _ask(self, command: Command) -> Flow[Value]:
        if not self._may_go_on():
            raise SliceOverError
        result = yield from self._calls.perform(self._context, command)
        if isinstance(result, Success):
            return result.value
        raise NotAnsweredError(result)


def _status(stopped: NotAnsweredError) -> int | None:
    failure = stopped.result
    return failure.status if isinstance(failure, Failure) and failure.enveloped else None
