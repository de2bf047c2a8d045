"""What is left of a session's state when its person was erased, or an operator doubts it.

Pure. Only digests stay: a digest tells nothing to who does not have the text, and it keeps the
next turn of an old thread from storing again what was erased.
"""

from dataclasses import replace
from typing import Final

from resilient_ov.domain.watermark import Watermark

PURGED: Final = "purged"
"""Key of the state file that says so; other versions keep it."""


def purged(watermark: Watermark) -> Watermark:
    """Return the state with its digests and nothing that speaks of the server's session.

    Digests in doubt count as known: whatever became of them, they are never sent again. The
    counters are unknown, so the next turn begins with a new session on the server.
    """
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
        extra={**watermark.extra, PURGED: True},
    )


def is_purged(watermark: Watermark) -> bool:
    """Whether the person of this session was erased once."""
    return watermark.extra.get(PURGED) is True


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
