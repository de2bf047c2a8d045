"""A server on loopback that does what a test tells it, on real sockets.

Rule: deterministic. What happens to a request is decided by the script alone; the effects are those
of the in-memory OpenViking behind it, and both the requests and what is stored can be looked at.
"""

import contextlib
import itertools
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from resilient_ov.testing.fake_openviking import FakeOpenViking
from resilient_ov.testing.fake_wire import FakeAuth, FakeReply, FakeRequest, Json
from resilient_ov.testing.http_bytes import (
    READ_BYTES,
    framed,
    head,
    raw,
    refusal,
    requests_of,
    with_lines,
    zeros_compressed,
)
from resilient_ov.testing.script import Route, Rule, route_of

_JOIN_S: Final = 2.0
_HONEST: Final = Rule(on="any", do="ok")
_EMPTY: Final = FakeReply(200, {"status": "ok", "result": {"memories": []}})

Work = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it arrived. ``connection`` counts from 1; equal = the same connection."""

    route: Route
    request: FakeRequest
    connection: int

    @property
    def body(self) -> Json:
        """The parsed JSON body, ``{}`` when there was none."""
        return self.request.json() or {}


class ScriptedServer:
    """Serves on ``url`` from construction (or ``with``) until ``close``.

    Args:
        rules: the first script.
        auth: how callers are recognised.
        key: the key that is accepted.
        tls: makes it an https server for ``localhost``.

    Attributes:
        store: the OpenViking behind it.

    """

    def __init__(
        self,
        *rules: Rule,
        auth: FakeAuth = FakeAuth.TRUSTED,
        key: str = "test-key",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.store = FakeOpenViking(auth=auth, key=key)
        self._tls = tls
        self._lock = threading.Lock()
        self._serial = threading.Lock()
        self._stopping = threading.Event()
        self._seen: list[Seen] = []
        self._counts: Counter[Route] = Counter()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._connections = itertools.count(1)
        self._opened = 0
        self._rules: tuple[Rule, ...] = ()
        self._listener: socket.socket | None = None
        self._port = 0
        self._listen()
        self.script(*rules)

    def __enter__(self) -> "ScriptedServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what a test does -----------------------------------------------------------------

    @property
    def url(self) -> str:
        """Base URL."""
        return f"https://localhost:{self._port}" if self._tls else f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """Port; the same for the server's whole life."""
        return self._port

    @property
    def requests(self) -> list[Seen]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._seen)

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        with self._lock:
            return self._opened

    @property
    def open_connections(self) -> int:
        """How many connections are open right now."""
        with self._lock:
            return len(self._open)

    def requests_to(self, route: Route) -> list[Seen]:
        """Return the requests of one route."""
        return [seen for seen in self.requests if seen.route == route]

    def script(self, *rules: Rule) -> None:
        """Replace the script; counting of ``nth`` starts anew. None = honest."""
        for rule in rules:
            if rule.do == "refuse" and (rule.on not in {"any", "tcp"} or rule.nth or rule.when):
                raise ValueError("refuse: only for all connections, so on='any' or on='tcp'")
        with self._lock:
            self._rules = rules
            self._counts.clear()
        if any(rule.do == "refuse" for rule in rules):
            self._deafen()
        else:
            self._listen()

    def drop_connections(self) -> None:
        """Close every open connection; the script stays."""
        with self._lock:
            found = list(self._open)
        for conn in found:
            _end(conn)

    def close(self) -> None:
        """Stop serving, close everything and wait for the threads; idempotent."""
        self._stopping.set()
        self._deafen()
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(_JOIN_S)

    # -- connections ----------------------------------------------------------------------

    def _listen(self) -> None:
        if self._listener is not None or self._stopping.is_set():
            return
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(512)
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._start(self._accept, listener)

    def _deafen(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
            listener.close()
        self.drop_connections()

    def _start(self, work: Work, sock: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(sock,), name="scripted-server", daemon=True)
        with self._lock:
            self._threads = [known for known in self._threads if known.is_alive()]
            self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._opened += 1
                self._open.add(conn)
            self._start(self._serve, conn)

    def _serve(self, conn: socket.socket) -> None:
        number = next(self._connections)
        with contextlib.suppress(OSError, _Over):
            try:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if any(rule.on == "tcp" and rule.do == "hang" for rule in self._rules):
                    self._idle(conn)
                conn = self._secured(conn)
                for request in requests_of(conn):
                    self._treat(conn, request, number)
            finally:
                with self._lock:
                    self._open.discard(conn)
                conn.close()

    def _secured(self, conn: socket.socket) -> socket.socket:
        if self._tls is None:
            return conn
        with self._lock:
            self._open.discard(conn)
        wrapped = self._tls.wrap_socket(conn, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(wrapped)
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped

    def _idle(self, conn: socket.socket) -> None:
        """Stay silent until the test ends or the client goes."""
        with contextlib.suppress(OSError):
            while conn.recv(READ_BYTES):
                continue
        raise _Over

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Over

    # -- requests -------------------------------------------------------------------------

    def _rule_for(self, request: FakeRequest, connection: int) -> Rule:
        route = route_of(request)
        with self._lock:
            self._seen.append(Seen(route=route, request=request, connection=connection))
            self._counts[route] += 1
            if route != "any":
                self._counts["any"] += 1
            for rule in self._rules:
                if rule.on in {route, "any"} and rule.matches(request, self._counts[rule.on]):
                    return rule
        return _HONEST

    def _treat(self, conn: socket.socket, request: FakeRequest, number: int) -> None:
        rule = self._rule_for(request, number)
        match rule.do:
            case "hang":
                self._idle(conn)
            case "reset":
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise _Over
            case "delay":
                self._wait(rule.seconds)
                _send(conn, self._served(request, rule), request)
            case "serial_delay":
                with self._serial:
                    self._wait(rule.seconds)
                    _send(conn, self._served(request, rule), request)
            case "apply_then_drop":
                self.store.handle(request)
                raise _Over
            case "apply_then_delay":
                reply = self._served(request, rule)
                self._wait(rule.seconds)
                _send(conn, reply, request)
            case "apply_late":
                _end(conn)
                self._wait(rule.seconds)
                self.store.handle(request)
                raise _Over
            case "ok_then_close":
                _send(conn, self._served(request, rule), request)
                raise _Over
            case "drip":
                self._drip(conn, framed(self._served(request, rule), request, rule), rule)
            case "endless_chunked":
                self._endless(conn)
            case _:
                self._answer(conn, request, rule)

    def _answer(self, conn: socket.socket, request: FakeRequest, rule: Rule) -> None:
        """Send an answer that is decided at once."""
        match rule.do:
            case "status":
                conn.sendall(refusal(request, rule))
            case "truncate":
                _cut(conn, framed(_EMPTY, request, rule))
            case "apply_then_truncate":
                _cut(conn, framed(self._served(request, rule), request, rule))
            case "raw":
                conn.sendall(raw(rule))
            case "raw_headers":
                conn.sendall(with_lines(self._served(request, rule), rule))
            case "gzip_bomb":
                body = zeros_compressed(rule.size)
                conn.sendall(head(200, {"content-encoding": "gzip"}, len(body)) + body)
            case _:
                _send(conn, self._served(request, rule), request)

    def _served(self, request: FakeRequest, rule: Rule) -> FakeReply:
        reply = self.store.handle(request)
        return reply if rule.json is None else FakeReply(reply.status, rule.json)

    def _drip(self, conn: socket.socket, whole: bytes, rule: Rule) -> None:
        start = 0 if rule.part == "head" else whole.index(b"\r\n\r\n") + 4
        conn.sendall(whole[:start])
        for at in range(start, len(whole), rule.size):
            self._wait(rule.every_s)
            conn.sendall(whole[at : at + rule.size])

    def _endless(self, conn: socket.socket) -> None:
        conn.sendall(head(200, {"transfer-encoding": "chunked"}, None))
        while not self._stopping.is_set():
            conn.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


class _Over(Exception):  # noqa: N818 - the connection is over, no error
    pass


def _cut(conn: socket.socket, whole: bytes) -> None:
    conn.sendall(whole[: -len(whole) // 8])
    raise _Over


def _end(conn: socket.socket) -> None:
    """End a connection from another thread: its own thread wakes up and closes it."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(conn, socket.SHUT_RDWR)


def _send(conn: socket.socket, reply: FakeReply, request: FakeRequest) -> None:
    conn.sendall(framed(reply, request, _HONEST))
