"""Routes of files: read, write, list, stat, delete, reindex and the consistency check."""

from sqlite3 import Connection

from starlette.responses import Response

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import bodies, files, tasks, tree
from resilient_ov.embedded.context import DataCall
from resilient_ov.embedded.errors import Json, invalid_argument
from resilient_ov.embedded.files import ABSTRACT, OVERVIEW, Entry, Shelf
from resilient_ov.embedded.replies import Stopwatch, ok
from resilient_ov.embedded.tasks import Status


def _resolve(call: DataCall, text: str) -> VikingUri:
    return call.services.layout.resolve(call.caller, text)


def _target(call: DataCall, text: str) -> VikingUri:
    return call.services.layout.resolve_target(call.caller, text)


def _shelf(call: DataCall) -> Shelf:
    return call.services.layout.shelf(call.caller)


def _tree(call: DataCall) -> tree.Tree:
    return tree.Tree(call.services.layout, call.caller)


async def read(call: DataCall) -> Response:
    """GET /content/read: a file as text; `offset` and `limit` count lines."""
    query = bodies.parse_query(bodies.ReadQuery, call.query)
    uri = _resolve(call, query.uri)
    text = await call.unit(lambda db: _tree(call).read(db, uri, query.offset, query.limit))
    return ok(text)


async def abstract(call: DataCall) -> Response:
    """GET /content/abstract: the short note of a directory (of a file: of its directory)."""
    return await _note(call, ABSTRACT)


async def overview(call: DataCall) -> Response:
    """GET /content/overview: the long note of a directory (of a file: of its directory)."""
    return await _note(call, OVERVIEW)


async def _note(call: DataCall, name: str) -> Response:
    uri = _resolve(call, bodies.parse_query(bodies.UriQuery, call.query).uri)

    def work(db: Connection) -> str:
        entry = _tree(call).stat(db, uri)
        directory = uri if entry.is_directory else VikingUri(uri.segments[:-1])
        row = files.read(db, _shelf(call), directory.child(name))
        return _not_ready(directory) if row is None else row["content"]

    return ok(await call.unit(work))


async def ls(call: DataCall) -> Response:
    """GET /fs/ls: the children of a directory; `node_limit` above 0 cuts the list."""
    query = bodies.parse_query(bodies.UriQuery, call.query)
    uri = _resolve(call, query.uri)
    entries = await call.unit(lambda db: _tree(call).entries(db, uri))
    return _listed(entries, query.node_limit)


def _listed(entries: list[Entry], node_limit: int | None) -> Response:
    limit = node_limit if node_limit and node_limit > 0 else len(entries)
    shown = [
        tree.entry_view(entry, _not_ready(entry.uri) if entry.is_directory else "")
        for entry in entries[:limit]
    ]
    return ok(shown, has_more=len(entries) > limit)


async def stat(call: DataCall) -> Response:
    """GET /fs/stat."""
    uri = _resolve(call, bodies.parse_query(bodies.UriQuery, call.query).uri)
    return ok(tree.stat_view(await call.unit(lambda db: _tree(call).stat(db, uri))))


async def delete(call: DataCall) -> Response:
    """DELETE /fs: a file or, with `recursive`, a directory; which ones, the profile says."""
    query = bodies.parse_query(bodies.UriQuery, call.query)
    uri = _target(call, query.uri)
    call.services.layout.check_change(call.caller, uri)

    def work(db: Connection) -> Response:
        account = call.caller.account
        entry = _tree(call).stat(db, uri)
        if entry.is_directory and not query.recursive:
            raise invalid_argument(f"Directory needs recursive=true: {uri}")
        count = files.delete(db, _shelf(call), uri)
        new = tasks.NewTask(account, call.caller.user, "fs_delete", str(uri))
        task_id = tasks.create(db, new)
        tasks.set_status(db, task_id, Status.COMPLETED, result={"deleted": count})
        return ok({"uri": str(uri), "estimated_deleted_count": count, "task_id": task_id})

    return await call.unit(work)


async def write(call: DataCall) -> Response:
    """POST /content/write: put a file; profile namespace only."""
    raw = await call.json()
    body = bodies.parse(bodies.Write, raw)
    bodies.check_texts(raw)
    uri = _target(call, body.uri)
    call.services.layout.check_change(call.caller, uri)
    shelf = _shelf(call)

    def work(db: Connection) -> Response:
        tree.check_writable(db, _tree(call), uri)
        existed = files.read(db, shelf, uri) is not None
        files.write(db, shelf, uri, body.content, [])
        files.renew_notes(db, shelf, [uri])
        return ok({"uri": str(uri), "created": not existed, "size": len(body.content.encode())})

    return await call.unit(work)


async def fs_tree(call: DataCall) -> Response:
    """GET /fs/tree: everything below a directory; profile namespace only."""
    query = bodies.parse_query(bodies.UriQuery, call.query)
    uri = _resolve(call, query.uri)
    entries = await call.unit(lambda db: _tree(call).descendants(db, uri))
    return _listed(entries, query.node_limit)


async def reindex(call: DataCall) -> Response:
    """POST /content/reindex: build the search index of a subtree anew."""
    watch = Stopwatch("content.reindex")
    uri = _target(call, bodies.parse(bodies.UriBody, await call.json()).uri)
    count = await call.unit(lambda db: files.reindex(db, _shelf(call), uri))
    queue: Json = {"processed": 0, "requeue_count": 0, "error_count": 0, "errors": []}
    return ok(
        {
            "status": "completed",
            "uri": str(uri),
            "object_type": "memory",
            "mode": "vectors_only",
            "scanned_records": count,
            "rebuilt_records": count,
            "deleted_records": 0,
            "unsupported_records": 0,
            "failed_records": 0,
            "duration_ms": round(watch.telemetry()["summary"]["duration_ms"]),
            "warnings": [],
            "queue_status": {"Semantic": queue, "Embedding": queue | {"processed": count}},
        }
    )


async def consistency(call: DataCall) -> Response:
    """POST /system/consistency: which files of a subtree a search cannot find."""
    uri = _target(call, bodies.parse(bodies.UriBody, await call.json()).uri)

    def work(db: Connection) -> Response:
        shelf = _shelf(call)
        missing = files.missing_from_index(db, shelf, uri)
        return ok(
            {
                "ok": not missing,
                "expected_count": len(files.below(db, shelf, uri)),
                "missing_record_count": len(missing),
                "missing_records": [str(each) for each in missing],
                "missing_records_truncated": False,
            }
        )

    return await call.unit(work)


def _not_ready(uri: VikingUri) -> str:
    return f"# {uri} [Directory abstract is not ready]"
