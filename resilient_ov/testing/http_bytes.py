"""HTTP/1.1 bytes of the scripted server: requests in, whole answers out."""

import json
import socket
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from resilient_ov.testing.fake_wire import FakeReply, FakeRequest
from resilient_ov.testing.script import Rule

READ_BYTES: Final = 65_536
_PIECE_BYTES: Final = 1_048_576


def requests_of(conn: socket.socket) -> Iterator[FakeRequest]:
    """Yield the requests of a connection until the client goes."""
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            data = conn.recv(READ_BYTES)
            if not data:
                return
            buffer += data
        top, _, buffer = buffer.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): text.strip() for name, _, text in pairs}
        length = int(headers.get("content-length", "0"))
        while len(buffer) < length:
            data = conn.recv(READ_BYTES)
            if not data:
                return
            buffer += data
        body, buffer = buffer[:length], buffer[length:]
        parts = urlsplit(target)
        yield FakeRequest(
            method=method,
            path=unquote(parts.path),
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers=headers,
            body=body,
        )


def head(status: int, headers: dict[str, str], length: int | None) -> bytes:
    """Return status line and headers; ``length`` None = no length is told."""
    named = {"content-type": "application/json"} | headers
    if length is not None:
        named["content-length"] = str(length)
    lines = "".join(f"{name}: {text}\r\n" for name, text in named.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1")


def framed(reply: FakeReply, request: FakeRequest, rule: Rule) -> bytes:
    """Return a whole answer, framed as the rule says."""
    body = json.dumps(reply.content).encode()
    headers = {"x-request-id": request.headers.get("x-request-id", "none"), **rule.headers}
    match rule.framing:
        case "length":
            return head(reply.status, headers, len(body)) + body
        case "chunked":
            chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            return head(reply.status, headers | {"transfer-encoding": "chunked"}, None) + chunked
        case "close":
            return head(reply.status, headers | {"connection": "close"}, None) + body


def refusal(request: FakeRequest, rule: Rule) -> bytes:
    """Return the answer of the verb ``status``."""
    if rule.html:
        body = b"<html><body><h1>it does not work</h1></body></html>"
        return head(rule.code, {"content-type": "text/html", **rule.headers}, len(body)) + body
    content = rule.json
    if content is None:
        code = _CODES.get(rule.code, "INTERNAL")
        message = f"{dict(request.headers)} {request.body!r}" if rule.echo else "scripted"
        content = {"status": "error", "error": {"code": code, "message": message}}
    return framed(FakeReply(rule.code, content), request, rule)


_CODES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


def raw(rule: Rule) -> bytes:
    """Return the answer of the verb ``raw``."""
    return head(rule.code, dict(rule.headers), len(rule.body)) + rule.body


@cache
def zeros_compressed(size: int) -> bytes:
    """Return ``size`` zero bytes as gzip, made piece by piece so that they are never there."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed = bytearray()
    for start in range(0, size, _PIECE_BYTES):
        packed += packer.compress(bytes(min(_PIECE_BYTES, size - start)))
    return bytes(packed + packer.flush())


def with_lines(reply: FakeReply, rule: Rule) -> bytes:
    """Return an answer with the rule's own header lines in the place of the length."""
    lines = "".join(f"{line}\r\n" for line in rule.lines)
    text = f"HTTP/1.1 {reply.status} X\r\ncontent-type: application/json\r\n{lines}\r\n"
    return text.encode("latin-1") + json.dumps(reply.content).encode()
