"""Routes of search: `/search/find` and `/search/search`."""

from starlette.responses import Response

from resilient_ov.domain.namespace import VikingUri
from resilient_ov.embedded import bodies, search, sessions
from resilient_ov.embedded.context import DataCall, telemetry
from resilient_ov.embedded.errors import Json, invalid_argument, unimplemented
from resilient_ov.embedded.replies import Stopwatch, ok_short


async def find(call: DataCall) -> Response:
    """POST /search/find: unknown fields are refused, `session_id` among them."""
    watch = Stopwatch("search.find")
    body = bodies.parse(bodies.Find, await call.json())
    return ok_short(await _found(call, body), telemetry(body.telemetry, watch))


async def search_route(call: DataCall) -> Response:
    """POST /search/search: as `find`, and tells its query plan for a session that exists."""
    watch = Stopwatch("search.search")
    body = bodies.parse(bodies.Search, await call.json())
    if body.search_type == "keywords":
        raise invalid_argument("Keyword search is not supported by the embedded server.")
    if body.mode not in {None, "list"}:
        raise unimplemented(f"Search mode '{body.mode}'")
    result = await _found(call, body)
    if body.session_id:
        key = call.session(body.session_id)
        if await call.unit(lambda db: sessions.find(db, key)) is not None:
            result["query_plan"] = _query_plan(body.query)
    return ok_short(result, telemetry(body.telemetry, watch))


async def _found(call: DataCall, body: bodies.Find) -> Json:
    plan = search.check(body, _roots(call, body.target_uri))
    layout, caller = call.services.layout, call.caller
    shelf = layout.shelf(caller)
    return await call.unit(
        lambda db: search.run(db, shelf, plan, lambda uri: layout.type_of(caller, uri))
    )


def _roots(call: DataCall, target: str | list[str]) -> list[VikingUri]:
    texts = [target] if isinstance(target, str) else target
    layout = call.services.layout
    targets = [layout.resolve_target(call.caller, text) for text in texts if text]
    return targets or layout.search_roots(call.caller)


def _query_plan(query: str) -> Json:
    one = {"query": query, "context_type": "memory", "intent": "", "priority": 1}
    return {"reasoning": "", "queries": [one]}
