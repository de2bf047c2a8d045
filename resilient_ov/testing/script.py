"""The script of the scripted server: which request gets which treatment.

No I/O here. The first rule that matches a request wins; without a match the request is served
honestly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from resilient_ov.testing.fake_wire import FakeRequest

Route = Literal[
    "any", "tcp", "health", "ready", "ensure", "session", "batch", "commit", "tasks", "find",
    "content", "list",
]  # fmt: skip

Verb = Literal[
    "ok",
    "ok_then_close",
    "status",
    "hang",
    "refuse",
    "reset",
    "delay",
    "serial_delay",
    "apply_then_drop",
    "apply_then_delay",
    "apply_then_truncate",
    "apply_late",
    "truncate",
    "drip",
    "raw",
    "raw_headers",
    "gzip_bomb",
    "endless_chunked",
]

_NO_BODY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What happens to the requests it matches.

    Verbs:
        ok: serve it. ``json`` replaces the answer's body.
        ok_then_close: serve it, then close the connection without saying so.
        status: answer ``code`` with ``json``, ``html`` or an error envelope; nothing is applied.
            ``echo`` puts the request's headers and body into the envelope, as careless servers do.
        hang: read the request and never answer; on ``tcp``: accept and never read.
        refuse: on ``any`` or ``tcp``: nobody listens; needs no connection at all.
        reset: read the request, then reset the connection; nothing is applied.
        delay: wait ``seconds``, then serve it.
        serial_delay: the same, one request at a time.
        apply_then_drop: apply it, close without an answer.
        apply_then_delay: apply it, answer after ``seconds``.
        apply_then_truncate: apply it, cut the answer in the middle.
        apply_late: close without an answer, apply it ``seconds`` later.
        truncate: cut the answer in the middle; nothing is applied.
        drip: serve it ``size`` bytes every ``every_s`` seconds, the ``part`` of the answer.
        raw: answer ``code``, exactly ``headers`` and ``body``; nothing is applied.
        raw_headers: serve it with ``lines`` in the place of the length.
        gzip_bomb: answer ``size`` zero bytes, compressed.
        endless_chunked: answer white space for ever.

    Attributes:
        on: route; ``any`` = every route, ``tcp`` = the connection itself.
        do: verb.
        nth: which of the requests of that route, from 1: ``2``, ``1-3``, ``4+``; None = all.
        when: further condition.
        framing: how a cut or dripped answer says where it ends.

    """

    on: Route
    do: Verb
    nth: str | None = None
    when: Callable[[FakeRequest], bool] | None = None
    seconds: float = 0.0
    code: int = 500
    json: Any = None
    html: bool = False
    echo: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_BODY)
    body: bytes = b""
    lines: Sequence[str] = ()
    size: int = 1
    every_s: float = 0.2
    part: Literal["body", "head"] = "body"
    framing: Literal["length", "chunked", "close"] = "length"

    def matches(self, request: FakeRequest, count: int) -> bool:
        """Tell whether the rule speaks of the ``count``-th request of its route."""
        return _within(self.nth, count) and (self.when is None or self.when(request))


def route_of(request: FakeRequest) -> Route:
    """Return the route of a request; ``any`` for one that has no name."""
    match request.method, request.path.strip("/").split("/"):
        case _, ["health"]:
            return "health"
        case _, ["ready"]:
            return "ready"
        case "POST", ["api", "v1", "sessions"]:
            return "ensure"
        case "GET", ["api", "v1", "sessions", _]:
            return "ensure" if request.query.get("auto_create") == "true" else "session"
        case _, ["api", "v1", "sessions", _, "messages", *_]:
            return "batch"
        case _, ["api", "v1", "sessions", _, "commit"]:
            return "commit"
        case _, ["api", "v1", "tasks", *_]:
            return "tasks"
        case _, ["api", "v1", "search", *_]:
            return "find"
        case _, ["api", "v1", "content", *_]:
            return "content"
        case _, ["api", "v1", "fs", *_]:
            return "list"
        case _:
            return "any"


def _within(nth: str | None, count: int) -> bool:
    if nth is None:
        return True
    if nth.endswith("+"):
        return count >= int(nth[:-1])
    first, _, last = nth.partition("-")
    return int(first) <= count <= int(last or first)
