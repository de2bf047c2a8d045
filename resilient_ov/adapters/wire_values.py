"""What the answer to each command means: the result of the measured 0.5 wire to a value.

No I/O here. Rule: an answer is read with ``get``, and every value is checked for its type.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from resilient_ov.adapters.json_values import as_list, as_object, texts
from resilient_ov.domain.exchange import (
    AddMessages,
    BatchReceipt,
    Command,
    CommitReceipt,
    CommitSession,
    CreateSession,
    EnsureSession,
    GetSession,
    GetTask,
    Health,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    ServerHealth,
    SessionInfo,
    StoredPage,
    TaskInfo,
    TaskStatus,
    Value,
)
from resilient_ov.domain.namespace import archive_number
from resilient_ov.domain.recall import ServerHit

_MAX_COUNT: Final = 2**53


class WrongShapeError(ValueError):
    """An answer that is well-formed JSON but not what the command's answer looks like."""


def to_value(command: Command, answer: Mapping[str, Any]) -> Value:
    """Return the value of a 2xx answer that is no error.

    Raises:
        WrongShapeError: the answer does not look like one to this command.

    """
    if isinstance(command, Health):
        return _health(answer)
    result = answer.get("result")
    match command:
        case EnsureSession() | GetSession():
            return _session_info(_mapping(result))
        case CreateSession():
            _mapping(result)
            return None
        case AddMessages():
            found = _mapping(result)
            return BatchReceipt(
                live_messages=_count(found, "message_count"), added=_count(found, "added")
            )
        case CommitSession():
            return _commit(_mapping(result))
        case Search():
            return _hits(_mapping(result))
        case GetTask():
            return _task(_mapping(result))
        case ListTasks():
            tasks = [_mapping(item) for item in _sequence(result)]
            tasks.sort(key=_created, reverse=True)
            return tuple(_task(task) for task in tasks)
        case ReadMessages():
            return _stored(_text(result))
        case ListArchives():
            return _archives(answer)


def _health(answer: Mapping[str, Any]) -> ServerHealth:
    if answer.get("status") != "ok":
        raise WrongShapeError("health: status")
    version, user = answer.get("version"), answer.get("user_id")
    return ServerHealth(
        version=version if isinstance(version, str) else None,
        user=user if isinstance(user, str) and user else None,
    )


def _session_info(found: Mapping[str, Any]) -> SessionInfo:
    live = _count(found, "message_count")
    # A session that was deleted while it was being extracted comes back without its total.
    told = found.get("total_message_count") is not None
    return SessionInfo(
        total_messages=_count(found, "total_message_count") if told else live,
        live_messages=live,
        commit_count=_count(found, "commit_count"),
    )


def _commit(found: Mapping[str, Any]) -> CommitReceipt:
    status = found.get("status")
    if status == "skipped":
        return CommitReceipt(accepted=False, task_id=None, archive=None, archive_uri=None)
    if status != "accepted":
        raise WrongShapeError("commit: status")
    task_id, uri = found.get("task_id"), found.get("archive_uri")
    return CommitReceipt(
        accepted=True,
        task_id=task_id if isinstance(task_id, str) else None,
        archive=archive_number(uri) if isinstance(uri, str) else None,
        archive_uri=uri if isinstance(uri, str) else None,
    )


def _hits(found: Mapping[str, Any]) -> tuple[ServerHit, ...]:
    return tuple(_hit(_mapping(item)) for item in _sequence(found.get("memories")))


def _hit(found: Mapping[str, Any]) -> ServerHit:
    level, created, content = found.get("level"), found.get("created_at"), found.get("content")
    return ServerHit(
        uri=_text(found.get("uri")),
        text=content if isinstance(content, str) else _text(found.get("abstract")),
        score=_score(found.get("score")),
        level=level if isinstance(level, int) and not isinstance(level, bool) else None,
        created_at=created if isinstance(created, str) else None,
        tags=texts(found.get("tags")),
    )


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _task(found: Mapping[str, Any]) -> TaskInfo:
    try:
        status = TaskStatus(_text(found.get("status")))
    except ValueError:
        raise WrongShapeError("task: status") from None
    return TaskInfo(task_id=_text(found.get("task_id")), status=status)


def _created(task: Mapping[str, Any]) -> float:
    return _score(task.get("created_at"))


def _stored(text: str) -> StoredPage:
    lines: list[tuple[str, ...]] = []
    unreadable = 0
    # Only a line feed ends a line here: U+2028 and others may stand inside a message.
    for line in text.removesuffix("\n").split("\n") if text else ():
        marks = _marks(line)
        if marks is None:
            unreadable += 1
        lines.append(marks or ())
    return StoredPage(lines=tuple(lines), unreadable_lines=unreadable)


def _marks(line: str) -> tuple[str, ...] | None:
    try:
        message = as_object(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return None if message is None else texts(message.get("source_message_ids"))


def _archives(answer: Mapping[str, Any]) -> tuple[int, ...]:
    if answer.get("has_more"):
        raise WrongShapeError("list: incomplete")
    found = (
        archive_number(_text(_mapping(item).get("uri"))) for item in _sequence(answer.get("result"))
    )
    return tuple(sorted({number for number in found if number is not None}))


def _mapping(value: object) -> Mapping[str, Any]:
    found = as_object(value)
    if found is None:
        raise WrongShapeError("an object is missing")
    return found


def _sequence(value: object) -> list[object]:
    found = as_list(value)
    if found is None:
        raise WrongShapeError("a list is missing")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise WrongShapeError("a text is missing")
    return value


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise WrongShapeError(f"a count is missing: {name}")
    return value
