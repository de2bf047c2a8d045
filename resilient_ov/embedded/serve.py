"""Runs the embedded server: in this process until it is told to stop, or in a thread.

Loopback by default; not for production, and it says so at start.
"""

import logging
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from resilient_ov.embedded.app import create_app
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.settings.server import AuthMode, ServerProfile

NOTICE = (
    "Embedded OpenViking-compatible server for development, demo and tests. NOT FOR PRODUCTION: "
    "no TLS, keys in clear text, rule-based extraction."
)

_log = logging.getLogger(__name__)
_KEEP_ALIVE_S = 5
_START_TIMEOUT_S = 30.0
_STOP_GRACE_S = 2


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 1933,
    data_dir: Path,
    profile: ServerProfile = ServerProfile.V0_5,
    auth: AuthMode = AuthMode.TRUSTED,
    root_key: str | None = None,
    extraction_delay_s: float = 0.0,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        ValueError: settings that do not fit together, before anything is opened.
        SystemExit: the folder is in use or the address cannot be bound.

    """
    settings = EmbeddedSettings(
        data_dir=data_dir,
        profile=profile,
        auth=auth,
        root_key=root_key,
        extraction_delay_s=extraction_delay_s,
    )
    print(NOTICE, file=sys.stderr)
    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_GRACE_S,
        ws="none",
        log_level="warning",
    )


class EmbeddedServer:
    """An embedded server in a thread of this process, on a loopback port.

    `start` and `stop` may alternate: port and data stay. A context manager. Not thread-safe.
    """

    def __init__(self, settings: EmbeddedSettings, *, port: int = 0) -> None:
        """Open nothing yet; port 0 takes a free one at the first start."""
        self._settings = settings
        self._port = port
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._listener: socket.socket | None = None

    @property
    def url(self) -> str:
        """The base address; known from the first start on."""
        if self._port == 0:
            raise RuntimeError("the server has no port yet: call start() first")
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start and return once it answers.

        Raises:
            OSError: the port is taken.
            RuntimeError: it runs already, or did not come up.

        """
        if self._server is not None:
            raise RuntimeError("the server is running")
        _log.warning(NOTICE)
        # asyncio switches delayed sending off only on sockets that name their protocol.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._port))
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            create_app(self._settings),
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOP_GRACE_S,
            ws="none",
            log_config=None,
            access_log=False,
        )
        self._listener = listener
        server = _SignallingServer(config)
        thread = threading.Thread(
            target=server.serve_in_thread, args=(listener,), name="embedded-server", daemon=True
        )
        thread.start()
        self._server, self._thread = server, thread
        if not server.is_up.wait(_START_TIMEOUT_S) or not server.started:
            self.stop()
            raise RuntimeError("the embedded server did not start; see its log")

    def stop(self) -> None:
        """Stop and return once its port is closed; does nothing when it is not running."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join()
        if self._listener is not None:
            self._listener.close()  # after a start that failed nobody else does
        self._server = self._thread = self._listener = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class _SignallingServer(uvicorn.Server):
    """A server that tells other threads when its start ended, well or not."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    def serve_in_thread(self, listener: socket.socket) -> None:
        """Run until told to stop; a start that failed is told by `started`, not by an exit."""
        with suppress(SystemExit):
            self.run([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets=sockets)
        finally:
            self.is_up.set()
