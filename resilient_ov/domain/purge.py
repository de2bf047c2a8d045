"""What is left of a session's state when its person was erased, or an operator doubts it.

Pure. Only digests stay: a digest tells nothing to who does not have the text, and it keeps the
next turn of an old thread from storing again what was erased.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, cast

from resilient_ov.domain.watermark import Watermark

PURGED: Final = "purged"
"""Key of the state file that says so; other versions keep it."""
DROP_BY: Final = "purge_drop_by"
"""Key of the state file: tokens of the owners whose waiting texts are of the erased person."""


def purged(watermark: Watermark, *, drop_by: Iterable[str] = ()) -> Watermark:
    """Return the state with its digests and nothing that speaks of the server's session.

    Digests in doubt count as known: whatever became of them, they are never sent again. The
    counters are unknown, so the next turn begins with a new session on the server. ``drop_by``
    are the living owners with texts that wait; they drop them at their next visit.
    """
    extra = {key: value for key, value in watermark.extra.items() if key != DROP_BY}
    if tokens := sorted(set(drop_by)):
        extra[DROP_BY] = tokens
    return replace(
        watermark,
        server_total=None,
        server_live=None,
        submitted=watermark.known,
        in_doubt=None,
        pending_commit_since=None,
        last_commit_task_id=None,
        last_archive_uri=None,
        newest_archive=0,
        extra={**extra, PURGED: True},
    )


def is_purged(watermark: Watermark) -> bool:
    """Whether the person of this session was erased once."""
    return watermark.extra.get(PURGED) is True


def must_drop(watermark: Watermark, owner: str) -> bool:
    """Whether what waits with this owner was accepted before the person was erased."""
    return owner in _ordered(watermark)


def dropped(watermark: Watermark, digests: tuple[str, ...], window: int) -> Watermark:
    """Know messages that were dropped, so that no turn stores them.

    They are the newest of the window, which holds all of them: the server holds none, so their
    place there tells nothing else.
    """
    known = tuple(dict.fromkeys(watermark.submitted + digests))
    return replace(watermark, submitted=known[-max(window, len(digests)) :])


def acquitted(watermark: Watermark, owner: str) -> Watermark:
    """Note that nothing waits with this owner any more."""
    left = [token for token in _ordered(watermark) if token != owner]
    others = {key: value for key, value in watermark.extra.items() if key != DROP_BY}
    return replace(watermark, extra={**others, DROP_BY: left} if left else others)


def _ordered(watermark: Watermark) -> list[object]:
    tokens = watermark.extra.get(DROP_BY)
    return cast("list[object]", tokens) if isinstance(tokens, list) else []


def forgotten(watermark: Watermark) -> Watermark:
    """Return the state of a session that nothing is known of but whose it is.

    A commit that is owed stays owed. The next turn reads the server before it sends anything.

    Raises:
        ValueError: something is in doubt; forgetting that could store it twice.
    """
    if watermark.in_doubt is not None:
        raise ValueError("something is in doubt")
    return replace(
        watermark,
        server_total=None,
        server_live=None,
        submitted=(),
        committed=(),
        prefix_count=0,
        prefix_digest="",
        last_commit_task_id=None,
        last_archive_uri=None,
        newest_archive=0,
    )
