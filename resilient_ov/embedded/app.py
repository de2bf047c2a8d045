"""The application: routes, the key check before them and the envelope after them."""

import re
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resilient_ov.embedded import accounts, replies
from resilient_ov.embedded import routes_admin as admin
from resilient_ov.embedded import routes_content as content
from resilient_ov.embedded import routes_search as search
from resilient_ov.embedded import routes_sessions as sessions
from resilient_ov.embedded.accounts import KeyOwner
from resilient_ov.embedded.admission import admit
from resilient_ov.embedded.auth import DEFAULT_USER, Authenticator, sent_key
from resilient_ov.embedded.context import (
    Call,
    DataCall,
    DataHandler,
    Handler,
    Services,
    initial_policy,
)
from resilient_ov.embedded.database import Database
from resilient_ov.embedded.errors import ApiError, not_found_short
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.layout_account import AccountLayout
from resilient_ov.embedded.layout_home import HomeLayout
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.embedded.worker import Worker
from resilient_ov.settings.server import AuthMode, ServerProfile

WIRE_VERSION = "0.5.2"
"""The OpenViking release whose recorded answers this server replays."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
_API = "/api/v1"


def create_app(settings: EmbeddedSettings) -> Starlette:
    """Build the application; the database opens and closes with its lifespan."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        database = Database(settings.data_dir, settings.profile)
        is_namespace = settings.profile is ServerProfile.NAMESPACE
        layout: Layout = AccountLayout() if is_namespace else HomeLayout()
        worker = Worker(database, layout, delay_s=settings.extraction_delay_s)

        async def owner_of_key(key: str) -> KeyOwner | None:
            return await database.call(lambda db: accounts.owner_of_key(db, key))

        # On profile namespace a root key without identity headers acts as the default user.
        user, policy = DEFAULT_USER if is_namespace else None, initial_policy(settings)
        await database.call(
            lambda db: accounts.register(db, accounts.DEFAULT_ACCOUNT, user, policy)
        )
        app.state.services = Services(
            settings, database, worker, layout, Authenticator(settings, owner_of_key)
        )
        await worker.start()
        try:
            yield
        finally:
            await worker.stop()
            database.close()

    app = Starlette(
        routes=routes_of(settings.profile),
        lifespan=lifespan,
        exception_handlers={
            ApiError: _on_api_error,
            HTTPException: _on_http_error,
            Exception: _on_defect,
        },
    )
    app.add_middleware(_CommonHeaders)
    return app


def routes_of(profile: ServerProfile) -> list[Route]:
    """Every route of a profile."""
    return _common_routes() + (_added_routes() if profile is ServerProfile.NAMESPACE else [])


def _added_routes() -> list[Route]:
    """What profile namespace has besides the recorded routes."""
    account = f"{_API}/admin/accounts/{{account}}"
    return [
        _data("POST", f"{_API}/content/write", content.write),
        _data("GET", f"{_API}/fs/tree", content.fs_tree),
        _plain("PUT", account, admin.change_account),
        _plain("PATCH", account, admin.change_account),
    ]


def _common_routes() -> list[Route]:
    session = f"{_API}/sessions/{{session_id}}"
    account = f"{_API}/admin/accounts/{{account}}"
    return [
        Route("/health", _health, methods=["GET"]),
        Route("/ready", _ready, methods=["GET"]),
        _data("POST", f"{_API}/sessions", sessions.create),
        _data("GET", f"{_API}/sessions", sessions.list_all),
        _data("GET", session, sessions.get),
        _data("DELETE", session, sessions.delete),
        _data("PATCH", f"{session}/config", sessions.configure),
        _data("POST", f"{session}/messages", sessions.add_message),
        _data("POST", f"{session}/messages/batch", sessions.add_batch),
        _data("POST", f"{session}/commit", sessions.commit),
        _data("GET", f"{session}/context", sessions.context),
        _data("GET", f"{session}/archives/{{archive_id}}", sessions.archive),
        _data("POST", f"{_API}/search/find", search.find),
        _data("POST", f"{_API}/search/search", search.search_route),
        _data("GET", f"{_API}/content/read", content.read),
        _data("GET", f"{_API}/content/abstract", content.abstract),
        _data("GET", f"{_API}/content/overview", content.overview),
        _data("POST", f"{_API}/content/reindex", content.reindex),
        _data("GET", f"{_API}/fs/ls", content.ls),
        _data("GET", f"{_API}/fs/stat", content.stat),
        _data("DELETE", f"{_API}/fs", content.delete),
        _data("GET", f"{_API}/system/status", admin.system_status),
        _data("POST", f"{_API}/system/consistency", content.consistency),
        _plain("GET", f"{_API}/tasks", admin.list_tasks),
        _plain("GET", f"{_API}/tasks/{{task_id}}", admin.get_task),
        _plain("POST", f"{_API}/tasks/{{task_id}}/cancel", admin.cancel_task),
        _plain("POST", f"{_API}/admin/accounts", admin.create_account),
        _plain("GET", f"{_API}/admin/accounts", admin.list_accounts),
        _plain("GET", account, admin.get_account),
        _plain("DELETE", account, admin.delete_account),
        _plain("POST", f"{account}/users", admin.create_user),
        _plain("GET", f"{account}/users", admin.list_users),
        _plain("DELETE", f"{account}/users/{{user}}", admin.delete_user),
    ]


def _plain(method: str, path: str, handler: Handler) -> Route:
    async def endpoint(request: Request) -> Response:
        services: Services = request.app.state.services
        identity = await services.authenticator.identify(request.headers)
        return await handler(Call(services, request, identity))

    return Route(path, endpoint, methods=[method])


def _data(method: str, path: str, handler: DataHandler) -> Route:
    async def endpoint(request: Request) -> Response:
        services: Services = request.app.state.services
        identity = await services.authenticator.identify(request.headers)
        caller = await admit(services, identity)
        return await handler(DataCall(services, request, identity, caller))

    return Route(path, endpoint, methods=[method])


async def _health(request: Request) -> Response:
    """Alive; with a key also who the key and the headers make the caller."""
    services: Services = request.app.state.services
    settings = services.settings
    body = {
        "status": "ok",
        "healthy": True,
        "version": WIRE_VERSION,
        "auth_mode": settings.auth.value,
    }
    if settings.auth is AuthMode.TRUSTED:
        body["root_api_key_required"] = True
    if settings.auth is AuthMode.DEV or sent_key(request.headers) is None:
        return replies.bare(body)
    identity = await services.authenticator.identify(request.headers)
    if identity.account is None or identity.user is None:
        return replies.bare(body)
    body |= {
        "account_id": identity.account,
        "user_id": identity.user,
        "role": identity.role.name.lower(),
    }
    if settings.profile is ServerProfile.NAMESPACE:
        body["agent_id"] = identity.agent
    return replies.bare(body)


async def _ready(request: Request) -> Response:
    """Ready when the database answers."""
    services: Services = request.app.state.services
    await services.database.call(lambda db: db.execute("SELECT 1"))
    has_keys = services.settings.auth is not AuthMode.DEV
    return replies.bare(
        {
            "status": "ready",
            "checks": {
                "agfs": {"status": "ok", "checks": {"filesystem": "ok"}},
                "vectordb": "ok",
                "api_key_manager": "ok" if has_keys else "not_configured",
                "embedding": "ok",
                "ollama": "not_configured",
            },
        }
    )


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 -- registered for this type only
    return replies.failure(error)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for this type only
    if error.status_code == 404:
        return replies.failure(not_found_short(error.detail))
    return replies.failure(ApiError(error.status_code, "UNKNOWN", error.detail))


async def _on_defect(_: Request, __: Exception) -> Response:
    """500 as the wire words it; Starlette raises the defect again for the log."""
    error = ApiError(500, "INTERNAL", "Internal server error", {})
    return replies.failure(error)


class _CommonHeaders:
    """Request id, processing time and `Vary` on every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        sent_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else str(uuid.uuid4())

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (b"x-request-id", request_id.encode()),
                    (b"x-process-time", str(time.perf_counter() - started_s).encode()),
                    (b"vary", b"Origin"),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)
