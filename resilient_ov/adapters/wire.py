"""How each command travels over HTTP: method, path, query and body of the measured 0.5 wire.

No I/O here. Rule: no null and no unknown field is ever sent.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from resilient_ov.domain.exchange import (
    AddMessages,
    Command,
    CommitSession,
    CreateSession,
    EnsureSession,
    GetSession,
    GetTask,
    Health,
    Identity,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    WireMessage,
)
from resilient_ov.domain.namespace import (
    archive_messages_uri,
    session_history_uri,
    session_messages_uri,
)
from resilient_ov.domain.recall import MEMORY_LEVEL

SESSION_COMMIT_TASK: Final = "session_commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One request without its address, identity and ids.

    ``path`` is percent-encoded and begins with ``/``; ``body`` None = no body at all.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, Any] | None = None

    @property
    def target(self) -> str:
        """Path and query as they are sent."""
        if not self.query:
            return self.path
        pairs = (
            f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in self.query.items()
        )
        return f"{self.path}?{'&'.join(pairs)}"

    def content(self) -> bytes:
        """Body as it is sent; a lone surrogate, which no JSON carries, becomes ``?``."""
        if self.body is None:
            return b""
        text = json.dumps(self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def to_http(command: Command) -> HttpCall:
    """Return the request of a command."""
    match command:
        case Health():
            return HttpCall(method="GET", path="/health")
        case EnsureSession():
            return HttpCall(
                method="GET", path=_session(command.session_id), query={"auto_create": "true"}
            )
        case CreateSession():
            body = {
                "session_id": command.session_id,
                "memory_policy": {"memory_types": list(command.memory_types)},
            }
            return HttpCall(method="POST", path="/api/v1/sessions", body=body)
        case GetSession():
            return HttpCall(method="GET", path=_session(command.session_id))
        case AddMessages():
            return HttpCall(
                method="POST",
                path=f"{_session(command.session_id)}/messages/batch",
                body={"messages": [_message(message) for message in command.messages]},
            )
        case CommitSession():
            return HttpCall(method="POST", path=f"{_session(command.session_id)}/commit", body={})
        case Search():
            return HttpCall(method="POST", path="/api/v1/search/find", body=_search(command))
        case GetTask():
            return HttpCall(method="GET", path=f"/api/v1/tasks/{quote(command.task_id, safe='')}")
        case ListTasks():
            query = {"task_type": SESSION_COMMIT_TASK, "resource_id": command.session_id}
            return HttpCall(method="GET", path="/api/v1/tasks", query=query)
        case ReadMessages():
            return HttpCall(method="GET", path="/api/v1/content/read", query=_page(command))
        case ListArchives():
            uri = session_history_uri(command.session_id, shared=_is_shared(command.identity))
            return HttpCall(method="GET", path="/api/v1/fs/ls", query={"uri": uri})


def _is_shared(identity: Identity) -> bool:
    """On profile namespace, where an agent is sent, sessions belong to the account."""
    return identity.agent is not None


def _session(session_id: str) -> str:
    return f"/api/v1/sessions/{quote(session_id, safe='')}"


def _message(message: WireMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "role": message.role,
        "content": message.content,
        "source_message_ids": list(message.source_ids),
    }
    if message.created_at is not None:
        fields["created_at"] = message.created_at
    if message.role_id is not None:
        fields["role_id"] = message.role_id
    return fields


def _search(command: Search) -> dict[str, Any]:
    targets = command.targets
    # Without the level, summaries of directories come back as memories and use up the limit. The
    # abstract of a memory is its text, so the content need not be read.
    return {
        "query": command.query,
        "target_uri": targets[0] if len(targets) == 1 else list(targets),
        "context_type": "memory",
        "node_limit": command.limit,
        "level": MEMORY_LEVEL,
        "score_threshold": command.score_threshold,
    }


def _page(command: ReadMessages) -> dict[str, str]:
    shared = _is_shared(command.identity)
    if command.archive is None:
        uri = session_messages_uri(command.session_id, shared=shared)
    else:
        uri = archive_messages_uri(command.session_id, command.archive, shared=shared)
    return {"uri": uri, "offset": str(command.offset), "limit": str(command.limit)}
