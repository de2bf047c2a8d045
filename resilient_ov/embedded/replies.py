"""JSON replies in the wire's envelope.

No I/O here. The wire has two forms, with and without the null keys; which route uses which was
read from recorded answers and is kept, because clients must cope with both.
"""

import json
import time
import uuid
from typing import Any

from starlette.responses import Response

from resilient_ov.embedded.errors import ApiError, Json


def _render(payload: Any, status: int) -> Response:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    # A name that came in over the wire may hold a lone surrogate: it has no UTF-8 form.
    body = text.encode("utf-8", "backslashreplace")
    return Response(body, status, media_type="application/json")


def bare(payload: Json, status: int = 200) -> Response:
    """A reply without envelope (health, readiness)."""
    return _render(payload, status)


def ok(result: Any, status: int = 200, **extra: Any) -> Response:
    """Success with all keys; `extra` overrides or adds top-level keys."""
    full = {"status": "ok", "result": result, "error": None, "telemetry": None, "profile": None}
    return _render(full | extra, status)


def ok_short(result: Any, telemetry: Json | None) -> Response:
    """Success without null keys (commit, search)."""
    payload: Json = {"status": "ok", "result": result}
    if telemetry is not None:
        payload["telemetry"] = telemetry
    return _render(payload, 200)


def failure(error: ApiError) -> Response:
    """The refusal as JSON."""
    body: Json = {"code": error.code, "message": error.message}
    if error.details is not None:
        body["details"] = error.details
    payload: Json = {"status": "error", "error": body}
    if error.details is not None and "validation_errors" not in error.details:
        payload = {
            "status": "error",
            "result": None,
            "error": body,
            "telemetry": None,
            "profile": None,
        }
    return _render(payload, error.status)


class Stopwatch:
    """Measures one operation for the optional `telemetry` part of a reply."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._started_s = time.perf_counter()

    def telemetry(self) -> Json:
        """The summary so far."""
        duration_ms = round((time.perf_counter() - self._started_s) * 1000, 3)
        summary = {"operation": self._operation, "status": "ok", "duration_ms": duration_ms}
        return {"id": f"tm_{uuid.uuid4().hex}", "summary": summary}
