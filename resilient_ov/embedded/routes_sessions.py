"""Routes of sessions, messages, commits and archives."""

from sqlite3 import Connection

from starlette.responses import Response

from resilient_ov.embedded import archives, bodies, sessions
from resilient_ov.embedded.context import DataCall, telemetry
from resilient_ov.embedded.errors import not_found_short, unimplemented
from resilient_ov.embedded.layout import check_session_id
from resilient_ov.embedded.replies import Stopwatch, ok, ok_short


async def create(call: DataCall) -> Response:
    """POST /sessions: 409 when it exists; no id or an empty one is generated."""
    body = bodies.parse(bodies.SessionCreate, await call.json())
    bodies.check_texts(body.session_id)
    if body.auto_commit_policy is not None:
        raise unimplemented("auto_commit_policy")
    policy = sessions.check_policy(body.memory_policy)
    key = call.session(body.session_id or sessions.new_session_id())
    uri = call.session_uri(key)
    check_session_id(uri, key.session_id)

    def work(db: Connection) -> Response:
        sessions.create(db, key, policy=policy, extraction=body.memory_extraction_config)
        return ok(sessions.summary(sessions.require(db, key), uri, call.user_view))

    return await call.unit(work)


async def get(call: DataCall) -> Response:
    """GET /sessions/{id}: metadata; with `auto_create=true` it is made when missing."""
    key = call.session()
    makes = call.query.get("auto_create", "").lower() in {"true", "1"}
    uri = call.session_uri(key)
    check_session_id(uri, key.session_id)

    def work(db: Connection) -> Response:
        row = sessions.ensure(db, key) if makes else sessions.find(db, key)
        if row is None:
            raise not_found_short(f"Session {key.session_id} not found")
        return ok(sessions.metadata(db, row, uri, call.user_view))

    return await call.unit(work)


async def list_all(call: DataCall) -> Response:
    """GET /sessions: the caller's, the last changed first."""
    owner = call.services.layout.session_owner(call.caller)
    rows = await call.unit(lambda db: sessions.list_all(db, call.caller.account, owner))
    return ok(
        [
            {
                "session_id": row["session_id"],
                "uri": call.session_uri(call.session(row["session_id"])),
                "is_dir": True,
                "mod_time": f"{row['updated_at'][:19]}Z",
            }
            for row in rows
        ]
    )


async def delete(call: DataCall) -> Response:
    """DELETE /sessions/{id}: what was extracted from it stays."""
    key = call.session()
    await call.unit(lambda db: sessions.delete(db, key))
    return ok({"session_id": key.session_id})


async def configure(call: DataCall) -> Response:
    """PATCH /sessions/{id}/config: the extraction settings."""
    body = bodies.parse(bodies.SessionConfig, await call.json())
    if body.auto_commit_policy is not None:
        raise unimplemented("auto_commit_policy")
    key = call.session()

    def work(db: Connection) -> Response:
        row = sessions.require(db, key)
        if body.memory_extraction_config is not None:
            row = sessions.configure(db, key, body.memory_extraction_config)
        return ok(sessions.metadata(db, row, call.session_uri(key), call.user_view))

    return await call.unit(work)


async def add_message(call: DataCall) -> Response:
    """POST /sessions/{id}/messages: append one; the session is made when missing."""
    watch = Stopwatch("session.add_message")
    raw = await call.json()
    body = bodies.parse(bodies.Message, raw)
    result = await _add(call, raw, [body])
    result.pop("added")
    return ok(result, telemetry=telemetry(body.telemetry, watch))


async def add_batch(call: DataCall) -> Response:
    """POST /sessions/{id}/messages/batch: append all or, after a refusal, none."""
    watch = Stopwatch("session.add_messages")
    raw = await call.json()
    body = bodies.parse(bodies.MessageBatch, raw)
    result = await _add(call, raw, body.messages)
    return ok(result, telemetry=telemetry(body.telemetry, watch))


async def _add(call: DataCall, raw: object, messages: list[bodies.Message]) -> dict[str, object]:
    bodies.check_texts(raw)
    key = call.session()
    check_session_id(call.session_uri(key), key.session_id)
    return await call.unit(lambda db: sessions.add_messages(db, key, messages))


async def commit(call: DataCall) -> Response:
    """POST /sessions/{id}/commit: archive what is live and queue its extraction."""
    watch = Stopwatch("session.commit")
    body = bodies.parse(bodies.Commit, await call.json())
    key = call.session()

    def archive_uri(name: str) -> str:
        return call.session_uri(key, "history", name)

    result = await call.unit(
        lambda db: archives.commit(db, key, body.keep_recent_count, archive_uri)
    )
    call.services.worker.notify()
    return ok_short(result, telemetry(body.telemetry, watch))


async def context(call: DataCall) -> Response:
    """GET /sessions/{id}/context: recent messages within `token_budget`; no proof of absence."""
    key = call.session()
    budget = bodies.parse_query(bodies.ContextQuery, call.query).token_budget

    def work(db: Connection) -> Response:
        row = sessions.find(db, key)
        if row is None:
            raise not_found_short(f"Session {key.session_id} not found")
        return ok(archives.context(db, row, budget))

    return await call.unit(work)


async def archive(call: DataCall) -> Response:
    """GET /sessions/{id}/archives/{archive}: 404 until its extraction is done."""
    key = call.session()
    name = call.param("archive_id")
    return ok(await call.unit(lambda db: archives.read(db, key, name)))
