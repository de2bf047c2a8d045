"""The bytes of one session's state file, and back.

Rule: no I/O here. Only digests, counters and names are written, never a text; whatever does not
have exactly the expected shape is unreadable, because half a state is worse than none. Only
``newest_archive``, ``live_before`` and ``explained``, which tell where to begin to look, and
``agent``, which is there on profile namespace only, may be absent.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import cast

from resilient_ov.domain.ports import NewerStateError
from resilient_ov.domain.watermark import SCHEMA_VERSION, InDoubt, ReadBack, Watermark

_DIGEST_CHARS = 32
_HEXADECIMAL = re.compile(r"[0-9a-f]*")
_KEYS = frozenset(
    {
        "schema_version",
        "revision",
        "session_id",
        "openviking_user",
        "account",
        "server_id",
        "server_profile",
        "agent",
        "server_total",
        "server_live",
        "submitted_message_ids",
        "committed_message_ids",
        "prefix_count",
        "prefix_digest",
        "in_doubt",
        "pending_commit_since",
        "last_commit_task_id",
        "last_archive_uri",
        "newest_archive",
    }
)


class UnreadableStateError(Exception):
    """The bytes are not a state of this session; the message names the first wrong key."""


def encode(watermark: Watermark) -> bytes:
    """Return the bytes of a state, its unknown keys included."""
    doubt = watermark.in_doubt
    content: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "revision": watermark.revision,
        "session_id": watermark.session_id,
        "openviking_user": watermark.openviking_user,
        "account": watermark.account,
        "server_id": watermark.server_id,
        "server_profile": watermark.server_profile,
        "server_total": watermark.server_total,
        "server_live": watermark.server_live,
        "submitted_message_ids": watermark.submitted,
        "committed_message_ids": watermark.committed,
        "prefix_count": watermark.prefix_count,
        "prefix_digest": watermark.prefix_digest,
        "in_doubt": None if doubt is None else _doubt_content(doubt),
        "pending_commit_since": watermark.pending_commit_since,
        "last_commit_task_id": watermark.last_commit_task_id,
        "last_archive_uri": watermark.last_archive_uri,
        "newest_archive": watermark.newest_archive,
    }
    if watermark.agent is not None:
        content["agent"] = watermark.agent
    unknown = {key: value for key, value in watermark.extra.items() if key not in _KEYS}
    return json.dumps(content | unknown, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes, session_id: str) -> Watermark:
    """Return the state in ``data``.

    Raises:
        NewerStateError: it was written by a newer version.
        UnreadableStateError: it is damaged, or another session's.
    """
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableStateError("not JSON") from None
    if not isinstance(content, dict):
        raise UnreadableStateError("not an object")
    fields = _Fields(cast("Mapping[str, object]", content))
    version = fields.count("schema_version")
    if version > SCHEMA_VERSION:
        raise NewerStateError
    if version != SCHEMA_VERSION:
        raise UnreadableStateError("schema_version")
    if fields.text("session_id") != session_id:
        raise UnreadableStateError("session_id")
    return Watermark(
        session_id=session_id,
        openviking_user=fields.text("openviking_user"),
        account=fields.text("account"),
        server_id=fields.text("server_id"),
        server_profile=fields.text("server_profile"),
        agent=fields.optional_text("agent") if fields.has("agent") else None,
        revision=fields.count("revision"),
        server_total=fields.optional_count("server_total"),
        server_live=fields.optional_count("server_live"),
        submitted=fields.digests("submitted_message_ids"),
        committed=fields.digests("committed_message_ids"),
        prefix_count=fields.count("prefix_count"),
        prefix_digest=fields.text("prefix_digest"),
        in_doubt=_doubt(fields.optional_fields("in_doubt")),
        pending_commit_since=fields.optional_text("pending_commit_since"),
        last_commit_task_id=fields.optional_text("last_commit_task_id"),
        last_archive_uri=fields.optional_text("last_archive_uri"),
        newest_archive=fields.count("newest_archive") if fields.has("newest_archive") else 0,
        extra={key: value for key, value in fields.content.items() if key not in _KEYS},
    )


def _doubt_content(doubt: InDoubt) -> dict[str, object]:
    back = doubt.read_back
    return {
        "id": doubt.id,
        "owner": doubt.owner,
        "digests": doubt.digests,
        "total_before": doubt.total_before,
        "newest_archive_before": doubt.newest_archive_before,
        "live_before": doubt.live_before,
        "explained": doubt.explained,
        "read_back": None
        if back is None
        else {
            "owner": back.owner,
            "absent_looks": back.absent_looks,
            "last_absent_end_s": back.last_absent_end_s,
            "unusable_looks": back.unusable_looks,
        },
    }


def _doubt(fields: "_Fields | None") -> InDoubt | None:
    if fields is None:
        return None
    return InDoubt(
        id=fields.text("id"),
        owner=fields.text("owner"),
        digests=fields.digests("digests"),
        total_before=fields.count("total_before"),
        newest_archive_before=fields.count("newest_archive_before"),
        live_before=fields.optional_count("live_before") if fields.has("live_before") else None,
        explained=fields.digests("explained") if fields.has("explained") else (),
        read_back=_read_back(fields.optional_fields("read_back")),
    )


def _read_back(fields: "_Fields | None") -> ReadBack | None:
    if fields is None:
        return None
    return ReadBack(
        owner=fields.text("owner"),
        absent_looks=fields.count("absent_looks"),
        last_absent_end_s=fields.number("last_absent_end_s"),
        unusable_looks=fields.count("unusable_looks"),
    )


class _Fields:
    """One JSON object, read key by key; the wrong type under a key makes the whole unreadable."""

    def __init__(self, content: Mapping[str, object]) -> None:
        self.content = content

    def has(self, key: str) -> bool:
        return key in self.content

    def text(self, key: str) -> str:
        value = self.content.get(key)
        if not isinstance(value, str):
            raise UnreadableStateError(key)
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._is_null(key) else self.text(key)

    def count(self, key: str) -> int:
        value = self.content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UnreadableStateError(key)
        return value

    def optional_count(self, key: str) -> int | None:
        return None if self._is_null(key) else self.count(key)

    def number(self, key: str) -> float:
        value = self.content.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UnreadableStateError(key)
        if not math.isfinite(value):
            raise UnreadableStateError(key)
        return float(value)

    def digests(self, key: str) -> tuple[str, ...]:
        value = self.content.get(key)
        if not isinstance(value, list):
            raise UnreadableStateError(key)
        items = cast("list[object]", value)
        found = [item for item in items if isinstance(item, str)]
        # One match over all of them: a window holds up to 10 000.
        whole = len(found) == len(items) and all(len(item) == _DIGEST_CHARS for item in found)
        if not whole or not _HEXADECIMAL.fullmatch("".join(found)):
            raise UnreadableStateError(key)
        return tuple(found)

    def optional_fields(self, key: str) -> "_Fields | None":
        if self._is_null(key):
            return None
        value = self.content[key]
        if not isinstance(value, dict):
            raise UnreadableStateError(key)
        return _Fields(cast("Mapping[str, object]", value))

    def _is_null(self, key: str) -> bool:
        if key not in self.content:
            raise UnreadableStateError(key)
        return self.content[key] is None
