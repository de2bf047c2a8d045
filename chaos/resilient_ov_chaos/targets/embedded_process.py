"""``python -m resilient_ov_chaos.targets.embedded_process PORT FOLDER``: the server, sick at will.

Commands on its input: ``embedder on|off`` (searches fail as those of a server whose embedding
model is gone), ``foreign_hits on|off`` (searches answer with another user's memory). It ends with
its input.
"""

import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import uvicorn

from resilient_ov.embedded.app import create_app
from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov_chaos.marks import ANSWER_CANARY
from resilient_ov_chaos.targets.embedded import KEY

Send = Callable[[Any], Awaitable[None]]

NOBODYS: Final = "mk000000p99seed"
"""Mark of a persona that does not exist."""
_TEXT: Final = f"the embedding provider said {ANSWER_CANARY}"
_FINDS: Final = "/api/v1/search/"
_HONEST_FAILURES: Final = 5
"""So many searches say that the provider is away; then the server's own breaker answers 500."""


class SickApp:
    """The server's application with a search that may fail or lie."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._failures = 0
        self.embedder_broken = False
        self.foreign_hits = False

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        """Serve one request, sick or not."""
        if scope["type"] == "http":
            send = _marked(send)
        if scope["type"] == "http" and scope["path"].startswith(_FINDS):
            if self.embedder_broken:
                await self._fail(receive, send)
                return
            if self.foreign_hits:
                await self._inner(scope, receive, _Lying(send))
                return
        await self._inner(scope, receive, send)

    def mend_embedder(self) -> None:
        """Let searches work again."""
        self.embedder_broken = False
        self._failures = 0

    async def _fail(self, receive: Any, send: Send) -> None:
        while (await receive()).get("more_body"):
            continue
        self._failures += 1
        if self._failures <= _HONEST_FAILURES:
            details = {"upstream_status_code": 503, "upstream_error_type": "APIConnectionError"}
            await _answer(send, 503, "UNAVAILABLE", _TEXT, details)
        else:
            await _answer(send, 500, "INTERNAL", _TEXT, {})


class _Lying:
    """Turns the owner of every hit into somebody else."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Any = None

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        body: dict[str, Any] = json.loads(message["body"])
        found: dict[str, Any] = body.get("result") or {}
        hits: list[dict[str, Any]] = found.get("memories", [])
        for hit in hits:
            owner, _, below = str(hit["uri"]).partition("/memories/")
            hit["uri"] = f"{owner}x/memories/{below}"
            hit["abstract"] = f"User prefers {NOBODYS} explanations."
        data = json.dumps(body).encode()
        headers = [pair for pair in self._start["headers"] if pair[0] != b"content-length"]
        headers.append((b"content-length", str(len(data)).encode()))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": data})


def _marked(send: Send) -> Send:
    """Have every answer carry a header that must show up nowhere."""

    async def marked(message: Any) -> None:
        if message["type"] == "http.response.start":
            header = (b"x-canary", ANSWER_CANARY.encode())
            message = {**message, "headers": [*message["headers"], header]}
        await send(message)

    return marked


async def _answer(send: Send, status: int, code: str, text: str, details: Any) -> None:
    error = {"code": code, "message": text, "details": details}
    data = json.dumps({"status": "error", "result": None, "error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def _obey(app: SickApp) -> None:
    for line in sys.stdin:
        what, _, state = line.strip().partition(" ")
        on = state == "on"
        if what == "foreign_hits":
            app.foreign_hits = on
        elif on:
            app.embedder_broken = True
        else:
            app.mend_embedder()
        print("done", flush=True)
    os._exit(0)


def main() -> None:
    """Serve until the input ends."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    app = SickApp(create_app(EmbeddedSettings(data_dir=folder, root_key=KEY)))
    threading.Thread(target=_obey, args=(app,), daemon=True).start()
    uvicorn.run(
        app, host="127.0.0.1", port=port, timeout_keep_alive=5, ws="none", log_level="warning"
    )


if __name__ == "__main__":
    main()
