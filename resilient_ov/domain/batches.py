"""How planned messages travel: marks, cutting, and splitting into batches.

Rule: pure; the marks of a message are a function of its digest, so what is read back can be told
apart without its text.
"""

import json
import re
from collections.abc import Iterable, Sequence

from resilient_ov.domain.exchange import WireMessage
from resilient_ov.domain.planning import Planned
from resilient_ov.domain.text import cut

MAX_BATCH_MESSAGES = 100
_MARK = "df1-"
_MARK_FORM = re.compile(r"df1-([0-9a-f]{32})")
_HOST_ID_FORM = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
# Field names, quotes, role, marks and commas around one message's text.
_ENVELOPE_BYTES = 512


def mark(digest: str) -> str:
    """Return the source id that carries a digest."""
    return _MARK + digest


def marked_digest(source_ids: Iterable[str]) -> str | None:
    """Return the digest that a stored line carries, None when it is not ours.

    Ours is the last one; a host may give its messages ids of the same form.
    """
    digest = None
    for source in source_ids:
        if found := _MARK_FORM.fullmatch(source):
            digest = found.group(1)
    return digest


def wire_message(planned: Planned, *, max_chars: int, role_id: str | None = None) -> WireMessage:
    """Return the message as it is stored: cut to ``max_chars`` and marked."""
    message = planned.message
    host_id = message.host_id
    ids = (host_id,) if host_id and _HOST_ID_FORM.fullmatch(host_id) else ()
    return WireMessage(
        role=message.role,
        content=cut(message.text, max_chars),
        source_ids=(*ids, mark(planned.digest)),
        created_at=message.created_at,
        role_id=role_id,
    )


def split(messages: Sequence[WireMessage], *, max_bytes: int) -> list[tuple[WireMessage, ...]]:
    """Split into batches of at most 100 messages and ``max_bytes``, in order.

    One message alone always forms a batch; the configuration guarantees that it fits.
    """
    batches: list[tuple[WireMessage, ...]] = []
    batch: list[WireMessage] = []
    size = 0
    for message in messages:
        cost = len(json.dumps(message.content)) + _ENVELOPE_BYTES
        if batch and (len(batch) == MAX_BATCH_MESSAGES or size + cost > max_bytes):
            batches.append(tuple(batch))
            batch, size = [], 0
        batch.append(message)
        size += cost
    if batch:
        batches.append(tuple(batch))
    return batches
