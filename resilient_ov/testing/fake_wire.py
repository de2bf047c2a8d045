"""Requests and replies of the in-memory OpenViking, in plain values. No I/O here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from resilient_ov.adapters.json_values import as_object

Json = dict[str, Any]


class FakeAuth(StrEnum):
    """How the fake recognises a caller."""

    TRUSTED = "trusted"
    API_KEY = "api_key"
    DEV = "dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRequest:
    """One request: header names in lower case, query decoded, body as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the parsed body; None when there is none or it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class FakeReply:
    """Status and JSON body."""

    status: int
    content: Json


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """Ends a request with an error answer."""

    def __init__(self, status: int, code: str, message: str, details: Json | None = None) -> None:
        super().__init__(code)
        self.reply = FakeReply(
            status,
            {
                "status": "error",
                "result": None,
                "error": {"code": code, "message": message, "details": details},
            },
        )


def ok(result: object) -> FakeReply:
    """Wrap a result."""
    return FakeReply(200, {"status": "ok", "result": result, "error": None})


def body_of(request: FakeRequest) -> Json:
    """Return the JSON object of a request; ``{}`` when there is no body."""
    body = as_object(request.json()) if request.body else {}
    if body is None:
        raise invalid(["body"], "a JSON object is required")
    return body


def invalid(place: list[str], message: str) -> Refused:
    """Make the answer to an invalid field."""
    details = {"validation_errors": [{"loc": place, "message": message, "type": "value_error"}]}
    return Refused(400, "INVALID_ARGUMENT", f"{'.'.join(place)}: {message}", details)
