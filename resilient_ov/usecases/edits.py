"""Notices that the host shows another text under an id that this process saw before.

Rule: only counts; an edited message is a new message to the write path. Bounded memory, no text.
"""

import threading
from collections import OrderedDict

from resilient_ov.domain.planning import Presentation

_MOST_SESSIONS = 64
_MOST_IDS = 1024


class Edits:
    """Remembers the newest ids of the sessions seen last. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, dict[str, str]] = OrderedDict()

    def note(self, session_id: str, presentation: Presentation) -> int:
        """Return how many of the presented messages were edited since they were last seen."""
        newest = presentation.fingerprints[-_MOST_IDS:]
        shown = {i.message.host_id: i.token for i in newest if i.message.host_id is not None}
        with self._lock:
            seen = self._sessions.setdefault(session_id, {})
            self._sessions.move_to_end(session_id)
            edited = sum(1 for host_id, t in shown.items() if seen.get(host_id, t) != t)
            seen.update(shown)
            for host_id in list(seen)[: max(0, len(seen) - _MOST_IDS)]:
                del seen[host_id]
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return edited
