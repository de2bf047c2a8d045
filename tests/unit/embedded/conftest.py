"""An embedded server's parts without socket: a database in memory, an application over ASGI."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from resilient_ov.embedded import EmbeddedSettings, create_app
from resilient_ov.embedded.database import connect
from resilient_ov.settings.server import AuthMode

ROOT_KEY = "root-key"
TRUSTED = {
    "X-API-Key": ROOT_KEY,
    "X-OpenViking-Account": "acme",
    "X-OpenViking-User": "alice",
}

OpenClient = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = connect(":memory:")
    yield connection
    connection.close()


@pytest.fixture
def open_client(tmp_path: Path) -> OpenClient:
    """A client of a fresh (or, called again, restarted) server; trusted mode by default."""

    @asynccontextmanager
    async def opened(
        auth: AuthMode = AuthMode.TRUSTED, delay_s: float = 0.0
    ) -> AsyncIterator[httpx.AsyncClient]:
        settings = EmbeddedSettings(
            data_dir=tmp_path,
            auth=auth,
            root_key=None if auth is AuthMode.DEV else ROOT_KEY,
            extraction_delay_s=delay_s,
        )
        app = create_app(settings)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app, raise_app_exceptions=False),
                base_url="http://embedded",
                headers=TRUSTED if auth is AuthMode.TRUSTED else {},
            ) as client,
        ):
            yield client

    return opened
