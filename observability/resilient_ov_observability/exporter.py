"""Our own metrics exporter: one small HTTP server on its own daemon thread.

Rule: never a reason for memory to fail. The port is bound at first use, not when the exporter is
made; a port in use is tried again every 30 s, so the place of a worker that died is taken.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from resilient_ov_observability.after_fork import renew_in_children
from resilient_ov_observability.exposure import Wsgi, metrics_wsgi_app

RETRY_S: Final = 30.0
_CLIENT_TIMEOUT_S: Final = 5.0


class MetricsExporter:
    """Serves the metrics page on ``http://host:port/metrics``. Thread-safe; idempotent.

    In a forked child it is not running: the child closes the inherited socket and binds at its
    own first use. ``port`` 0 takes any free one; ``address`` tells which.

    Args:
        host: address to bind.
        port: 0..65535.
        registry: a ``CollectorRegistry``; None = the process's own.
        on_port_in_use: called once when the port is found in use.
        retry_s: how long after that it is tried again.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        registry: Any = None,
        on_port_in_use: Callable[[], None] = lambda: None,
        retry_s: float = RETRY_S,
    ) -> None:
        self._host = host
        self._port = port
        self._registry = registry
        self._on_port_in_use = on_port_in_use
        self._retry_s = retry_s
        self._fresh()
        renew_in_children(self)

    def _fresh(self) -> None:
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._server: _Server | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Return where it listens, None when it does not."""
        server = self._server
        return None if server is None else (server.server_name, server.server_port)

    def start(self) -> None:
        """Begin to bind and serve; returns at once."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="resilient-ov-metrics", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop serving and free the port; within 1 s, idempotent."""
        with self._lock:
            self._stopped.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1.0)

    def renew_after_fork(self) -> None:
        """Let go of the parent's socket; the parent keeps serving on its own copy."""
        server = self._server
        self._fresh()
        if server is not None:
            with contextlib.suppress(OSError):
                os.close(server.fileno())

    def _run(self) -> None:
        stopped = self._stopped
        app = metrics_wsgi_app(self._registry)
        told = False
        while not stopped.is_set():
            server = self._bind(app)
            if server is not None:
                self._serve(server, stopped)
                return
            if not told:
                told = True
                self._on_port_in_use()
            stopped.wait(self._retry_s)

    def _bind(self, app: Wsgi) -> "_Server | None":
        try:
            server = _Server.at(self._host, self._port)
        except OSError:
            # In use, or the address is not (yet) ours: both may pass.
            return None
        server.set_app(app)
        return server

    def _serve(self, server: "_Server", stopped: threading.Event) -> None:
        self._server = server
        try:
            while not stopped.is_set():
                server.handle_request()
        finally:
            self._server = None
            server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """A WSGI server for IPv4 and IPv6, one daemon thread a scrape."""

    daemon_threads = True
    timeout = 0.2

    def __init__(self, family: socket.AddressFamily, host: str, port: int) -> None:
        self.address_family = family
        super().__init__((host, port), _Handler)

    @classmethod
    def at(cls, host: str, port: int) -> "_Server":
        """Bind.

        Raises:
            OSError: the address cannot be bound.
        """
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return cls(found[0][0], host, port)

    def server_bind(self) -> None:
        """Bind without asking the name service what our own address is called."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), port
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a scraper that went away is not our trouble."""


class _Handler(WSGIRequestHandler):
    """Serves one scrape, silently and not for ever."""

    timeout = _CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing."""
