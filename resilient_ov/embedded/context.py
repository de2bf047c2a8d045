"""What a route needs of the running server, and the caller of one request.

Every route function takes a `Call` and returns a reply; refusals are raised as `ApiError`.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from resilient_ov.domain.namespace import NamespacePolicy
from resilient_ov.embedded import accounts, bodies
from resilient_ov.embedded.auth import (
    Authenticator,
    Caller,
    Identity,
    complete,
)
from resilient_ov.embedded.database import Database
from resilient_ov.embedded.errors import Json, failed_precondition, invalid_argument
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.replies import Stopwatch
from resilient_ov.embedded.sessions import SessionKey
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.embedded.worker import Worker
from resilient_ov.settings.server import AuthMode, ServerProfile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one running server."""

    settings: EmbeddedSettings
    database: Database
    worker: Worker
    layout: Layout
    authenticator: Authenticator


class Call:
    """One request whose key was checked."""

    def __init__(self, services: Services, request: Request, identity: Identity) -> None:
        self.services = services
        self.request = request
        self.identity = identity

    @property
    def query(self) -> Mapping[str, str]:
        """The query string; of a repeated name the last value."""
        return dict(self.request.query_params.items())

    def param(self, name: str) -> str:
        """A part of the path."""
        value: str = self.request.path_params[name]
        return value

    async def json(self) -> Any:
        """The body as JSON; `{}` without body."""
        try:
            body = await self.request.body()
        except ClientDisconnect:
            raise invalid_argument("The connection ended inside the request body.") from None
        return bodies.parse_json(body, self.request.headers.get("content-type", ""))


class DataCall(Call):
    """A request on the data of one tenant's user."""

    def __init__(
        self, services: Services, request: Request, identity: Identity, caller: Caller
    ) -> None:
        super().__init__(services, request, identity)
        self.caller = caller

    async def unit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run one transaction for the caller; 412 while the caller is being deleted."""

        def guarded(db: sqlite3.Connection) -> T:
            guard(db, self.caller, self.services.settings)
            return work(db)

        return await self.services.database.call(guarded)

    def session(self, session_id: str | None = None) -> SessionKey:
        """The key of a session of the caller; without argument the one of the path."""
        name = self.param("session_id") if session_id is None else session_id
        owner = self.services.layout.session_owner(self.caller)
        caller = self.caller
        return SessionKey(caller.account, owner, name, caller.user, caller.agent)

    def session_uri(self, key: SessionKey, *below: str) -> str:
        """The address of the session, or of something below it, as replies show it."""
        return self.services.layout.session_uri(self.caller, key.session_id, *below)

    @property
    def user_view(self) -> Json:
        """The caller as replies show it."""
        return {"account_id": self.caller.account, "user_id": self.caller.user}


def initial_policy(settings: EmbeddedSettings) -> NamespacePolicy | None:
    """The policy of an account that nobody made: the default one; none on profile 0.5."""
    return NamespacePolicy() if settings.profile is ServerProfile.NAMESPACE else None


def guard(db: sqlite3.Connection, caller: Caller, settings: EmbeddedSettings) -> None:
    """Refuse an identity that is being deleted; note one a trusted upstream brings."""
    task = accounts.deletion_task(db, caller.account, caller.user)
    if task is not None:
        raise failed_precondition("Identity deletion is in progress", {"task_id": task})
    if settings.auth is not AuthMode.API_KEY:
        accounts.register(db, caller.account, caller.user, initial_policy(settings))


def owner_filter(call: Call) -> tuple[str, str] | None:
    """Whose tasks the caller sees: a root key without tenant sees all."""
    settings = call.services.settings
    if settings.auth is AuthMode.API_KEY and call.identity.role.name == "ROOT":
        return None
    caller = complete(call.identity)
    return caller.account, caller.user


def telemetry(wanted: object, watch: Stopwatch) -> Json | None:
    """The `telemetry` part of a reply when the request asked for it."""
    return watch.telemetry() if wanted else None


Handler = Callable[[Call], Awaitable[Response]]
DataHandler = Callable[[DataCall], Awaitable[Response]]
