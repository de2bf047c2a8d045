"""What waits to be stored: for whom, since when, and how much.

Rule: values only. An age is a duration, so that it outlives the process that measured it.
"""

from dataclasses import dataclass
from typing import Final

from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.presentation import Presentation


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A session on the server and who owns it.

    ``user_role`` and ``agent_role`` are the role ids of the user's and the assistant's messages
    on the namespace profile; None = not sent.
    """

    identity: Identity
    session_id: str
    account: str
    user_role: str | None = None
    agent_role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """All that waits of one session in one process.

    ``waited_s`` has one age per held message, in the order of ``presentation.fingerprints``. Only
    time in which some process waited with it counts. ``since_utc`` is for display.
    """

    target: Target
    presentation: Presentation
    waited_s: tuple[float, ...]
    trace_id: str | None
    since_utc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of one parcel may be shown: no text."""

    owner: str
    session_id: str
    messages: int
    text_bytes: int
    since_utc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxDepth:
    """How much is kept in the whole place, of all owners.

    ``generation`` is another one after the place was found broken and begun anew.
    """

    sessions: int
    messages: int
    text_bytes: int
    since_utc: str | None
    generation: str


NOTHING_KEPT: Final = OutboxDepth(
    sessions=0, messages=0, text_bytes=0, since_utc=None, generation=""
)
"""Of a place where nobody has kept anything yet."""
