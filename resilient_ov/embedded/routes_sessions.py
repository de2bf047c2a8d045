"""Routes of sessions, messages, commits and archives."""

from collections.abc import Sequence
from sqlite3 import Connection, Row

from starlette.responses import Response

from resilient_ov.embedded import archives, bodies, session_views, sessions
from resilient_ov.embedded.context import DataCall, telemetry
from resilient_ov.embedded.errors import Json, not_found_short, unimplemented
from resilient_ov.embedded.layout import check_session_id
from resilient_ov.embedded.replies import Stopwatch, ok, ok_short


async def create(call: DataCall) -> Response:
    """POST /sessions: 409 when it exists; no id or an empty one is generated."""
    body = bodies.parse(bodies.SessionCreate, await call.json())
    bodies.check_texts(body.session_id)
    _check_supported(call, body)
    policy = sessions.check_policy(body.memory_policy)
    key = call.session(body.session_id or sessions.new_session_id())
    uri = call.session_uri(key)
    check_session_id(uri, key.session_id)

    def work(db: Connection) -> Response:
        sessions.create(db, key, policy=policy, extraction=body.memory_extraction_config)
        row = sessions.require(db, key)
        return ok(session_views.summary(row, uri, call.user_view) | _participants(call, row))

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
        return ok(_metadata(call, db, row, uri))

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
    call.services.layout.check_session_delete(call.caller)
    await call.unit(lambda db: sessions.delete(db, key))
    return ok({"session_id": key.session_id})


async def configure(call: DataCall) -> Response:
    """PATCH /sessions/{id}/config: the extraction settings."""
    body = bodies.parse(bodies.SessionConfig, await call.json())
    _check_supported(call, body)
    key = call.session()

    def work(db: Connection) -> Response:
        row = sessions.require(db, key)
        if body.memory_extraction_config is not None:
            row = sessions.configure(db, key, body.memory_extraction_config)
        return ok(_metadata(call, db, row, call.session_uri(key)))

    return await call.unit(work)


async def add_message(call: DataCall) -> Response:
    """POST /sessions/{id}/messages: append one; the session is made when missing."""
    watch = Stopwatch("session.add_message")
    raw = await call.json()
    shares = call.services.layout.shares_sessions
    body: bodies.AnyMessage = (
        bodies.parse(bodies.RoleMessage, raw) if shares else bodies.parse(bodies.Message, raw)
    )
    result = await _add(call, raw, [body])
    result.pop("added")
    return ok(result, telemetry=telemetry(body.telemetry, watch))


async def add_batch(call: DataCall) -> Response:
    """POST /sessions/{id}/messages/batch: append all or, after a refusal, none."""
    watch = Stopwatch("session.add_messages")
    raw = await call.json()
    shares = call.services.layout.shares_sessions
    body: bodies.RoleMessageBatch | bodies.MessageBatch = (
        bodies.parse(bodies.RoleMessageBatch, raw)
        if shares
        else bodies.parse(bodies.MessageBatch, raw)
    )
    result = await _add(call, raw, body.messages)
    return ok(result, telemetry=telemetry(body.telemetry, watch))


async def _add(
    call: DataCall, raw: object, messages: Sequence[bodies.AnyMessage]
) -> dict[str, object]:
    bodies.check_texts(raw)
    key = call.session()
    check_session_id(call.session_uri(key), key.session_id)
    layout = call.services.layout
    said = [layout.said(call.caller, key.session_id, message) for message in messages]
    return await call.unit(lambda db: sessions.add_messages(db, key, said))


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


def _check_supported(call: DataCall, body: bodies.SessionCreate | bodies.SessionConfig) -> None:
    """Raise 501 for what is asked for and not here, instead of ignoring it."""
    if body.auto_commit_policy is not None:
        raise unimplemented("auto_commit_policy")
    wanted = (body.acl, body.participant_user_ids, body.participant_agent_ids)
    if call.services.layout.shares_sessions and any(each is not None for each in wanted):
        raise unimplemented("Access to a session by its participants only (participant ACL)")


def _participants(call: DataCall, row: Row) -> Json:
    return session_views.participants(row) if call.services.layout.shares_sessions else {}


def _metadata(call: DataCall, db: Connection, row: Row, uri: str) -> Json:
    return session_views.metadata(db, row, uri, call.user_view) | _participants(call, row)
