"""What is left of a session's state when its person was erased.

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
