"""The refusals of the embedded server and their place in the wire's error table.

No I/O here. Every refusal a route raises is an `ApiError`; the application turns it into JSON.
"""

from typing import Any

Json = dict[str, Any]


class ApiError(Exception):
    """One refusal.

    Attributes:
        status: HTTP status.
        code: `error.code` of the envelope.
        message: `error.message`.
        details: `error.details`; with None the reply is the short envelope, without the null keys.

    """

    def __init__(self, status: int, code: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details


def invalid_argument(message: str, details: Json | None = None) -> ApiError:
    """400 for a request that parses and still makes no sense."""
    return ApiError(400, "INVALID_ARGUMENT", message, details or {})


def invalid_fields(faults: list[Json]) -> ApiError:
    """400 for a body or query that does not match its model; never 422."""
    first = faults[0]
    return ApiError(
        400,
        "INVALID_ARGUMENT",
        f"Invalid request parameters: {'.'.join(first['loc'])}: {first['message']}",
        {"validation_errors": faults},
    )


def invalid_uri(text: str, reason: str) -> ApiError:
    """400 for an address that does not parse."""
    message = f"Invalid URI: {text} ({reason})"
    return ApiError(400, "INVALID_URI", message, {"uri": text, "reason": reason})


def unauthenticated(message: str) -> ApiError:
    """401: the key is missing or wrong."""
    return ApiError(401, "UNAUTHENTICATED", message, {})


def permission_denied(message: str, details: Json | None = None) -> ApiError:
    """403: known caller, not theirs."""
    return ApiError(403, "PERMISSION_DENIED", message, details or {})


def not_found(kind: str, name: str, message: str | None = None) -> ApiError:
    """404 with the full envelope."""
    text = message or f"{kind.capitalize()} not found: {name}"
    return ApiError(404, "NOT_FOUND", text, {"type": kind, "resource": name})


def not_found_short(message: str) -> ApiError:
    """404 with the short envelope: session metadata, archives and unknown routes."""
    return ApiError(404, "NOT_FOUND", message)


def already_exists(kind: str, name: str, message: str) -> ApiError:
    """409."""
    return ApiError(409, "ALREADY_EXISTS", message, {"resource": name, "type": kind})


def failed_precondition(message: str, details: Json | None = None) -> ApiError:
    """412: right request, wrong moment."""
    return ApiError(412, "FAILED_PRECONDITION", message, details or {})


def unimplemented(feature: str) -> ApiError:
    """501 for a feature the embedded server does not have, instead of a silent other answer."""
    return ApiError(501, "UNIMPLEMENTED", f"{feature} is not in the embedded server.", {})
