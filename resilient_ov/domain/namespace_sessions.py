"""Addresses of sessions and of what lies in them, on both server profiles.

Pure. A session belongs to the caller's home on profile 0.5 and to the whole account on profile
namespace (`shared=True`).
"""

import re
from typing import Final

from resilient_ov.domain.namespace_uri import SCHEME, InvalidUriError, VikingUri, parse_uri

OWN_HOME: Final = VikingUri(("~",))
"""The caller's own home on profile 0.5: the server puts the authenticated user in its place."""

SESSIONS: Final = VikingUri(("session",))
"""The sessions of an account on profile namespace: seen and continued by all of its users."""

MESSAGES_FILE: Final = "messages.jsonl"
HISTORY: Final = "history"
TOOLS: Final = "tools"
META_FILE: Final = ".meta.json"

_ARCHIVE: Final = re.compile(r"archive_(\d{3,9})")


def session_uri(session_id: str, *, shared: bool = False) -> VikingUri:
    """The directory of a session; raises `InvalidUriError` for an id no address can hold."""
    return SESSIONS.child(session_id) if shared else OWN_HOME.child("sessions", session_id)


def session_messages_uri(session_id: str, *, shared: bool = False) -> str:
    """The live (uncommitted) messages of a session, one JSON line each."""
    return str(session_uri(session_id, shared=shared).child(MESSAGES_FILE))


def session_history_uri(session_id: str, *, shared: bool = False) -> str:
    """The directory that lists the archives of a session."""
    return str(session_uri(session_id, shared=shared).child(HISTORY))


def archive_messages_uri(session_id: str, number: int, *, shared: bool = False) -> str:
    """The messages of one archive, readable in every state of its extraction; `number` >= 1."""
    archive = session_uri(session_id, shared=shared).child(HISTORY, archive_name(number))
    return str(archive.child(MESSAGES_FILE))


def tool_uri(session_id: str, tool_id: str) -> VikingUri:
    """A tool call of a session on profile namespace; `InvalidUriError` as for `session_uri`."""
    return session_uri(session_id, shared=True).child(TOOLS, tool_id)


def archive_name(number: int) -> str:
    """`archive_001` for 1; numbers above 999 simply grow longer."""
    if number < 1:
        raise ValueError("archive number must be 1 or more")
    return f"archive_{number:03d}"


def archive_number(text: str) -> int | None:
    """The number in an archive's name or address, or None when the text names no archive.

    Accepts `archive_007` and any address whose last two segments are `history/archive_007`.
    """
    name = text
    if text.startswith(SCHEME):
        try:
            segments = parse_uri(text).segments
        except InvalidUriError:
            return None
        if segments[-2:-1] != (HISTORY,):
            return None
        name = segments[-1]
    match = _ARCHIVE.fullmatch(name)
    if match is None:
        return None
    number = int(match.group(1))
    return number if number >= 1 and archive_name(number) == name else None
