"""What of a conversation is remembered: the user's own words and the assistant's final answers.

Pure, and a reader only: the host's list and its messages are never changed. Messages are told by
their fields, never by their class, so that no host library is imported; a message can be any
object and none raises.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, cast

from resilient_ov.domain.text import clean, utc_instant, without_blocks, without_payloads

KeepHidden: TypeAlias = Callable[[Mapping[str, object]], bool]
"""The host's word on a hidden message: True = it holds real words of the user."""


class Role(StrEnum):
    """Who spoke, in the server's words."""

    USER = "user"
    ASSISTANT = "assistant"


class SkipReason(StrEnum):
    """Why a message is not remembered."""

    OTHER_ROLE = "other_role"
    """System, tool, removal and anything else that is no turn of the conversation."""
    HIDDEN = "hidden"
    """Written by the host itself: reminders, the injected memory, picture payloads."""
    SUMMARY = "summary"
    CHUNK = "chunk"
    """A piece of a streamed answer; the whole one follows."""
    TOOL_CALL = "tool_call"
    """The assistant at work, not yet answering."""
    EMPTY = "empty"
    """No words were left: only pictures, reasoning or white space."""
    UPLOADS = "uploads"
    """Uploaded files without a word of the user, or the answer to them: files are gone later."""
    UNREADABLE = "unreadable"
    """No message, or content of an unknown shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One remembered message.

    Attributes:
        role: who spoke.
        text: cleaned, never blank, before cutting; the digest is made from it.
        host_id: the host's id as it is, or None when it gave none.
        created_at: ISO-8601 instant in UTC, or None.

    """

    role: Role
    text: str
    host_id: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The remembered messages in the host's order, and how many others there were, by reason."""

    messages: tuple[Message, ...]
    skipped: Mapping[SkipReason, int]


_ROLES: Final[Mapping[object, Role]] = {
    "human": Role.USER,
    "user": Role.USER,
    "ai": Role.ASSISTANT,
    "assistant": Role.ASSISTANT,
}
_CHUNK_SUFFIX: Final = "Chunk"
_REASONING: Final = re.compile(
    r"(?:\s*<think(?:ing)?>.*?</think(?:ing)?>)+", re.ASCII | re.DOTALL | re.IGNORECASE
)
_UPLOADS: Final = re.compile(r"<(?:current_uploads|uploaded_files)\b", re.ASCII | re.IGNORECASE)
_ANSWER_KIND: Final = "human_input_response"
_ANSWER_VERSION: Final = 1
_ANSWER_FORMS: Final = frozenset({"text", "option"})


def conversation(messages: Iterable[object], keep_hidden: KeepHidden | None = None) -> Conversation:
    """Keep real user words and final visible answers.

    Read as attributes or, on a dict, as keys: `type` (or, without it, `role` in OpenAI's
    spelling), `content`, `id`, `additional_kwargs`, `tool_calls`, `created_at`.

    Args:
        messages: the host's list, complete or not.
        keep_hidden: decides about a hidden message from its `additional_kwargs` (a copy).
            Only True keeps one; a hook that raises keeps none. None = a message is kept when it
            carries a well-formed clarification answer.

    """
    kept: list[Message] = []
    skipped: Counter[SkipReason] = Counter()
    about_files_alone = False
    for message in messages:
        read = _read_safely(message, keep_hidden)
        if read is SkipReason.UPLOADS:
            about_files_alone = True
        elif isinstance(read, Message) and read.role is Role.USER:
            about_files_alone = False
        elif isinstance(read, Message) and about_files_alone:
            read = SkipReason.UPLOADS
        if isinstance(read, Message):
            kept.append(read)
        else:
            skipped[read] += 1
    return Conversation(messages=tuple(kept), skipped=dict(skipped))


def _read_safely(message: object, keep_hidden: KeepHidden | None) -> Message | SkipReason:
    try:
        return _read(message, keep_hidden)
    except Exception:  # noqa: BLE001 - a foreign object may raise anything from any attribute
        return SkipReason.UNREADABLE


def _read(message: object, keep_hidden: KeepHidden | None) -> Message | SkipReason:
    kind = _field(message, "type")
    if kind is None:
        kind = _field(message, "role")
    if not isinstance(kind, str):
        return SkipReason.UNREADABLE
    role = _ROLES.get(kind)
    if role is None:
        return SkipReason.CHUNK if kind.endswith(_CHUNK_SUFFIX) else SkipReason.OTHER_ROLE

    extra = _mapping(_field(message, "additional_kwargs"))
    if extra.get("lc_source") == "summarization":
        return SkipReason.SUMMARY
    if extra.get("hide_from_ui") and not _hidden_but_real(extra, keep_hidden):
        return SkipReason.HIDDEN
    if role is Role.ASSISTANT and (_field(message, "tool_calls") or extra.get("tool_calls")):
        return SkipReason.TOOL_CALL

    content = _field(message, "content")
    raw = _words(role, extra, content)
    if raw is None:
        return SkipReason.UNREADABLE
    text = _polished(role, raw)
    if not text:
        return SkipReason.UPLOADS if _only_uploads(role, content) else SkipReason.EMPTY
    host_id = _field(message, "id")
    return Message(
        role=role,
        text=text,
        host_id=host_id if isinstance(host_id, str) and host_id else None,
        created_at=_created_at(extra.get("created_at"), _field(message, "created_at")),
    )


def _field(message: object, name: str) -> object:
    if isinstance(message, dict):
        return cast("dict[object, object]", message).get(name)
    return getattr(message, name, None)


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _hidden_but_real(extra: dict[str, object], keep_hidden: KeepHidden | None) -> bool:
    if keep_hidden is None:
        return _clarification(extra) is not None
    try:
        # A copy, because the messages are the host's and its hook is not ours.
        return keep_hidden(dict(extra)) is True
    except Exception:  # noqa: BLE001 - a fault in the host's hook must not cost the turn
        return False


def _clarification(extra: Mapping[str, object]) -> str | None:
    """The user's answer to a clarification question, if a well-formed one is there."""
    answer = _mapping(extra.get(_ANSWER_KIND))
    value = answer.get("value")
    well_formed = (
        answer.get("version") == _ANSWER_VERSION
        and answer.get("kind") == _ANSWER_KIND
        and answer.get("response_kind") in _ANSWER_FORMS
    )
    return value if well_formed and isinstance(value, str) and value.strip() else None


def _words(role: Role, extra: Mapping[str, object], content: object) -> str | None:
    """The words before cleaning; None = content of an unknown shape."""
    if role is Role.USER:
        answer = _clarification(extra)
        if answer is not None:
            return answer
        original = extra.get("original_user_content")
        if isinstance(original, str):
            return original
    return _content_text(content)


def _content_text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        blocks = cast("Iterable[object]", content)
        return "\n".join(text for text in map(_block_text, blocks) if text)
    return "" if content is None else None


def _only_uploads(role: Role, content: object) -> bool:
    """Tell whether a message without words has them because the host only named files in it."""
    return role is Role.USER and bool(_UPLOADS.search(clean(_content_text(content) or "")))


def _block_text(block: object) -> str:
    fields = _mapping(block)
    text = fields.get("text") if fields.get("type") == "text" else block
    return text if isinstance(text, str) else ""


def _created_at(*values: object) -> str | None:
    return next(filter(None, map(utc_instant, values)), None)


def _polished(role: Role, raw: str) -> str:
    # Cleaned first: deleting a control character later could make a tag whole.
    text = without_blocks(clean(raw))
    if role is Role.ASSISTANT and "<" in text:
        reasoning = _REASONING.match(text)
        text = text[reasoning.end() :] if reasoning else text
    return without_payloads(text).strip()
