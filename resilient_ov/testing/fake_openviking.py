"""A small in-memory OpenViking 0.5: sessions, batches, commits, tasks, find, read-back.

No I/O here: a request in, a status and a JSON body out. Only what the client uses is there, and it
answers like the measured server: no deduplication, scores above 0.5, strict thresholds.
"""

import json
from collections.abc import Mapping
from typing import Final

from resilient_ov.domain.namespace import archive_name, memories_uri, parse_uri, unchecked_uri
from resilient_ov.testing.fake_store import FakeSession, FakeStore, Owner, score_of
from resilient_ov.testing.fake_wire import (
    FakeAuth,
    FakeReply,
    FakeRequest,
    Json,
    Refused,
    body_of,
    invalid,
    ok,
)

MAX_BATCH: Final = 100
_SEARCH_FIELDS: Final = frozenset(
    {
        "query",
        "target_uri",
        "context_type",
        "limit",
        "node_limit",
        "score_threshold",
        "level",
        "tags",
        "read_content",
    }
)


class FakeOpenViking(FakeStore):
    """The state of the fake server; every method may be called from any thread.

    Attributes:
        extraction: state that new tasks get; memories appear only when ``completed``.

    """

    def __init__(self, *, auth: FakeAuth = FakeAuth.TRUSTED, key: str = "test-key") -> None:
        super().__init__()
        self.auth = auth
        self.key = key
        self.key_owner: Owner = ("default", "owner")
        self.extraction = "completed"

    # -- requests -------------------------------------------------------------------------

    def handle(self, request: FakeRequest) -> FakeReply:
        """Apply a request and return its answer."""
        with self._lock:
            try:
                return self._routed(request)
            except Refused as refused:
                return refused.reply

    def _routed(self, request: FakeRequest) -> FakeReply:
        parts = request.path.strip("/").split("/")
        match request.method, parts:
            case "GET", ["health"]:
                return self._health(request)
            case "GET", ["ready"]:
                return FakeReply(200, {"status": "ready", "checks": {}})
            case "POST", ["api", "v1", "sessions"]:
                return ok(self._create(self._owner(request), body_of(request)))
            case "GET", ["api", "v1", "sessions", session_id]:
                return ok(self._meta(self._owner(request), session_id, request.query))
            case "POST", ["api", "v1", "sessions", session_id, "messages", "batch"]:
                return ok(self._append(self._owner(request), session_id, body_of(request)))
            case "POST", ["api", "v1", "sessions", session_id, "commit"]:
                return ok(self._commit(self._owner(request), session_id))
            case "GET", ["api", "v1", "tasks"]:
                return ok(self._task_list(self._owner(request), request.query))
            case "GET", ["api", "v1", "tasks", task_id]:
                return ok(self._task(self._owner(request), task_id))
            case "POST", ["api", "v1", "search", "find"]:
                return ok(self._find(self._owner(request), body_of(request)))
            case "GET", ["api", "v1", "content", "read"]:
                return ok(self._read(self._owner(request), request.query))
            case "GET", ["api", "v1", "fs", "ls"]:
                listed = self._list(self._owner(request), request.query.get("uri", ""))
                return FakeReply(200, {"status": "ok", "result": listed, "has_more": False})
            case _:
                raise Refused(404, "NOT_FOUND", "no such route")

    def _owner(self, request: FakeRequest) -> Owner:
        headers = request.headers
        if self.auth is not FakeAuth.DEV and headers.get("x-api-key") != self.key:
            raise Refused(401, "UNAUTHENTICATED", "missing or wrong key")
        if self.auth is FakeAuth.API_KEY:
            return self.key_owner
        account, user = headers.get("x-openviking-account"), headers.get("x-openviking-user")
        if self.auth is FakeAuth.DEV:
            return account or "default", user or "default"
        if not account or not user:
            raise Refused(400, "INVALID_ARGUMENT", "identity headers are required")
        return account, user

    def _health(self, request: FakeRequest) -> FakeReply:
        content: Json = {
            "status": "ok",
            "healthy": True,
            "version": "0.5.2",
            "auth_mode": self.auth.value,
        }
        if "x-api-key" in request.headers or "x-openviking-user" in request.headers:
            account, user = self._owner(request)
            content |= {"account_id": account, "user_id": user, "role": "user"}
        return FakeReply(200, content)

    def _create(self, owner: Owner, body: Json) -> Json:
        session_id = body.get("session_id") or self._next("session-")
        by_id = self._sessions.setdefault(owner, {})
        if session_id in by_id:
            raise Refused(409, "ALREADY_EXISTS", "the session exists")
        policy: Json = body.get("memory_policy") or {}
        by_id[session_id] = FakeSession(memory_types=policy.get("memory_types"))
        return {"session_id": session_id, "uri": _session_uri(owner, session_id)}

    def _meta(self, owner: Owner, session_id: str, query: Mapping[str, str]) -> Json:
        by_id = self._sessions.setdefault(owner, {})
        if query.get("auto_create") == "true":
            by_id.setdefault(session_id, FakeSession())
        session = self._existing(owner, session_id)
        return {
            "session_id": session_id,
            "message_count": len(session.live),
            "commit_count": len(session.archives),
            "total_message_count": len(session.everything),
            "uri": _session_uri(owner, session_id),
        }

    def _append(self, owner: Owner, session_id: str, body: Json) -> Json:
        messages: list[Json] = body.get("messages", [])
        if len(messages) > MAX_BATCH:
            raise invalid(["body", "messages"], "at most 100 items")
        for index, message in enumerate(messages):
            if "role" not in message or not isinstance(message.get("content"), str):
                raise invalid(["body", "messages", str(index)], "role and content are required")
        session = self._sessions.setdefault(owner, {}).setdefault(session_id, FakeSession())
        session.live.extend(self._stored(message) for message in messages)
        return {
            "session_id": session_id,
            "message_count": len(session.live),
            "added": len(messages),
            "pending_tokens": len(session.live),
        }

    def _stored(self, message: Json) -> Json:
        kept: Json = {
            "id": self._next("msg_"),
            "role": message["role"],
            "parts": [{"type": "text", "text": message["content"]}],
            "created_at": message.get("created_at", "2026-01-01T00:00:00+00:00"),
        }
        if message.get("source_message_ids"):
            kept["source_message_ids"] = list(message["source_message_ids"])
        return kept

    def _commit(self, owner: Owner, session_id: str) -> Json:
        session = self._existing(owner, session_id)
        if not session.live:
            return {"session_id": session_id, "status": "skipped", "task_id": None}
        archive, session.live = session.live, []
        session.archives.append(archive)
        task_id = self._next("task-")
        task: Json = {"task_id": task_id, "task_type": "session_commit", "resource_id": session_id}
        task |= {"status": self.extraction, "created_at": float(self._made)}
        self._tasks[task_id] = (owner, task)
        session.tasks.append(task_id)
        if self.extraction == "completed":
            for message in archive:
                if message["role"] == "user":
                    self.remember(*owner, message["parts"][0]["text"])
        history = f"{_session_uri(owner, session_id)}/history"
        return {
            "session_id": session_id,
            "status": "accepted",
            "task_id": task_id,
            "archive_uri": f"{history}/{archive_name(len(session.archives))}",
            "archived": True,
        }

    def _task(self, owner: Owner, task_id: str) -> Json:
        found = self._tasks.get(task_id)
        if found is None or found[0] != owner:
            raise Refused(404, "NOT_FOUND", "task not found or expired")
        return found[1]

    def _task_list(self, owner: Owner, query: Mapping[str, str]) -> list[Json]:
        return [
            task
            for task_owner, task in self._tasks.values()
            if task_owner == owner
            and query.get("resource_id", task["resource_id"]) == task["resource_id"]
            and query.get("status", task["status"]) == task["status"]
        ]

    def _find(self, owner: Owner, body: Json) -> Json:
        for name, value in body.items():
            if name not in _SEARCH_FIELDS or value is None:
                raise invalid(["body", name], "extra inputs are not permitted")
        query = body.get("query")
        if not isinstance(query, str) or not query.strip():
            raise invalid(["body", "query"], "a query is required")
        targets = body.get("target_uri", memories_uri())
        listed = [targets] if isinstance(targets, str) else targets
        roots = [parse_uri(self._below(owner, uri)) for uri in listed]
        threshold = body.get("score_threshold", 0.0)
        hits: list[tuple[float, Json]] = []
        for memory in self._memories:
            uri, score = parse_uri(memory.uri), score_of(memory, query)
            inside = any(uri.is_within(root) for root in roots)
            if memory.owner == owner and inside and score > threshold:
                hit: Json = {"context_type": "memory", "uri": memory.uri, "level": 2}
                hits.append((score, hit | {"score": score, "abstract": memory.text, "tags": []}))
        hits.sort(key=lambda found: -found[0])
        best = [hit for _, hit in hits[: body.get("node_limit", body.get("limit", 10))]]
        return {"memories": best, "resources": [], "skills": [], "total": len(best)}

    def _read(self, owner: Owner, query: Mapping[str, str]) -> str:
        uri = self._below(owner, query.get("uri", ""))
        lines = self._lines(owner, uri)
        if lines is None:
            memory = next((m for m in self._memories if m.uri == uri and m.owner == owner), None)
            if memory is None:
                raise Refused(404, "NOT_FOUND", "file not found")
            return memory.text
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", len(lines)))
        return "".join(f"{json.dumps(line)}\n" for line in lines[offset : offset + limit])

    def _lines(self, owner: Owner, uri: str) -> list[Json] | None:
        match parse_uri(uri).segments:
            case (_, _, "sessions", session_id, "messages.jsonl"):
                session = self._sessions.get(owner, {}).get(session_id)
                return None if session is None else session.live
            case (_, _, "sessions", session_id, "history", name, "messages.jsonl"):
                session = self._sessions.get(owner, {}).get(session_id)
                archives = [] if session is None else session.archives
                named = {archive_name(n): found for n, found in enumerate(archives, start=1)}
                return named.get(name)
            case _:
                return None

    def _list(self, owner: Owner, asked: str) -> list[Json]:
        uri = self._below(owner, asked)
        match parse_uri(uri).segments:
            case (_, _, "sessions", session_id, "history"):
                session = self._sessions.get(owner, {}).get(session_id)
                if session is not None and session.archives:
                    return [
                        {"uri": f"{uri}/{archive_name(n)}", "size": 0, "isDir": True}
                        for n in range(1, len(session.archives) + 1)
                    ]
            case _:
                pass
        raise Refused(404, "NOT_FOUND", "directory not found")

    def _below(self, owner: Owner, uri: str) -> str:
        """Put the caller in the place of ``~`` and refuse what belongs to another user."""
        try:
            segments = parse_uri(uri).segments
        except ValueError:
            raise Refused(400, "INVALID_URI", "not an address") from None
        if segments[:1] == ("~",):
            return unchecked_uri("user", owner[1], *segments[1:])
        if segments[:1] == ("user",) and segments[1:2] != (owner[1],):
            raise Refused(403, "PERMISSION_DENIED", "another user's address")
        return uri

    def _existing(self, owner: Owner, session_id: str) -> FakeSession:
        session = self._sessions.get(owner, {}).get(session_id)
        if session is None:
            raise Refused(404, "NOT_FOUND", "session not found")
        return session


def _session_uri(owner: Owner, session_id: str) -> str:
    return unchecked_uri("user", owner[1], "sessions", session_id)
