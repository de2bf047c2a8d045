"""Stored messages: from a request body to one JSON line, its tokens and its text.

No I/O here. Only the fields of the wire are kept; an id sent by the client is not one of them.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, cast

from resilient_ov.domain.namespace import InvalidUriError, VikingUri
from resilient_ov.embedded.bodies import AnyMessage
from resilient_ov.embedded.clock import now_iso
from resilient_ov.embedded.errors import Json
from resilient_ov.embedded.privacy import redact

_KNOWN_PARTS = frozenset({"text", "context", "tool", "image_url"})
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Said:
    """A message with what the profile adds to its body.

    Attributes:
        actor: who said it (`role_id`); None = the profile has no actors, or the role has none.
        tools: the directory of the session's tool calls; None = they have no address.

    """

    message: AnyMessage
    actor: str | None = None
    tools: VikingUri | None = None


def store_form(said: Said, session_id: str) -> tuple[str, int]:
    """The line to store and its estimated tokens."""
    message = said.message
    parts = [
        _redact_all(_with_address(_part(part), said.tools), session_id) for part in _parts(message)
    ]
    stored: Json = {
        "id": f"msg_{uuid.uuid4().hex}",
        "role": message.role,
        **({} if said.actor is None else {"role_id": said.actor}),
        "parts": parts,
        "created_at": message.created_at if message.created_at is not None else now_iso(),
    }
    for name in ("peer_id", "turn_id", "message_kind", "source_message_ids"):
        value = getattr(message, name, None)
        if value is not None:
            stored[name] = value
    counted = "".join(_counted_text(part) for part in parts)
    return json.dumps(stored, ensure_ascii=False), tokens_of(counted)


def tool_calls(stored: Json) -> dict[str, Json]:
    """The tool parts of a stored message that have an address, by the id in it."""
    return {
        part["tool_id"]: part
        for part in stored["parts"]
        if part.get("type") == "tool" and "tool_uri" in part
    }


def text_of(stored: Json) -> str:
    """The readable text of a stored message: its text parts, one per line."""
    texts = [part.get("text", "") for part in stored["parts"] if part.get("type") == "text"]
    return "\n".join(map(str, texts))


def tokens_of(text: str) -> int:
    """Estimate as the wire's: four characters of ASCII or white space, or one other, a token."""
    light = sum(char.isascii() or char.isspace() for char in text)
    return len(text) - light + -(-light // _CHARS_PER_TOKEN)


def keep_newest(messages: list[tuple[Json, int]], budget_tokens: int) -> list[Json]:
    """The newest messages that fit into the budget.

    When not even the newest fits, it alone, with its text cut from the front.
    """
    kept: list[Json] = []
    left = budget_tokens
    for stored, tokens in reversed(messages):
        if tokens > left:
            break
        kept.append(stored)
        left -= tokens
    if messages and not kept:
        tail = text_of(messages[-1][0])[-budget_tokens * _CHARS_PER_TOKEN :]
        return [messages[-1][0] | {"parts": [{"type": "text", "text": tail}]}]
    return kept[::-1]


def _parts(message: AnyMessage) -> list[Json]:
    if message.parts is not None:
        return message.parts
    return [{"type": "text", "text": message.content}]


def _part(part: Json) -> Json:
    return part if str(part.get("type")) in _KNOWN_PARTS else {"type": "text", "text": str(part)}


def _with_address(part: Json, tools: VikingUri | None) -> Json:
    tool_id = part.get("tool_id")
    if tools is None or part.get("type") != "tool" or not isinstance(tool_id, str):
        return part
    try:
        return part | {"tool_uri": str(tools.child(tool_id))}
    except InvalidUriError:
        return part  # an id that no address can hold


def _counted_text(part: Json) -> str:
    return "".join(
        value if isinstance(value, str) else json.dumps(value)
        for name, value in part.items()
        if name in {"text", "tool_name", "tool_input", "tool_output"}
    )


def _redact_all(value: Any, session_id: str) -> Any:
    match value:
        case str():
            return redact(value, session_id)
        case dict():
            fields = cast(Json, value)
            return {name: _redact_all(item, session_id) for name, item in fields.items()}
        case list():
            return [_redact_all(item, session_id) for item in cast(list[object], value)]
        case _:
            return value
