"""An HTTP proxy that passes everything on and, when told, loses one request or one reply."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

ENDS_HERE = {
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "server",
    "transfer-encoding",
}


class Lose(Enum):
    """What never arrives at the other side."""

    REQUEST = "request"
    REPLY = "reply"


class CuttingProxy(ThreadingHTTPServer):
    """Loses the next batch of messages in one direction for every `lose_next`."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client = httpx.Client(base_url=upstream, trust_env=False, timeout=120)
        self.lost: list[Lose] = []
        self._lock = threading.Lock()
        self._next: Lose | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def lose_next(self, what: Lose) -> None:
        with self._lock:
            self._next = what

    def taken(self, path: str) -> Lose | None:
        """Whether this request is the one to lose; asked once per request."""
        if not path.endswith("/messages/batch"):
            return None
        with self._lock:
            what, self._next = self._next, None
            if what is not None:
                self.lost.append(what)
            return what


class _Handler(BaseHTTPRequestHandler):
    server: CuttingProxy
    protocol_version = "HTTP/1.1"

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        lose = self.server.taken(self.path)
        if lose is Lose.REQUEST:
            self.close_connection = True
            return
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in ENDS_HERE
        }
        reply = self.server.client.request(self.command, self.path, headers=headers, content=body)
        if lose is Lose.REPLY:
            self.close_connection = True
            return
        self.send_response_only(reply.status_code)
        for name, value in reply.headers.items():
            if name.lower() not in ENDS_HERE:
                self.send_header(name, value)
        self.send_header("content-length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    # Named by the base class.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a busy test would drown in it."""


@contextmanager
def cutting_proxy(upstream: str) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(upstream)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        proxy.client.close()
