"""What an answer or the lack of one says: the one table from HTTP to failure kinds.

No I/O here. Rule: nothing of a body, header or message text survives, except the closed code.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from resilient_ov.adapters.json_values import as_list, as_object
from resilient_ov.adapters.transport_errors import TlsFailure, TlsTimedOut
from resilient_ov.adapters.wire_attempt import WireAttempt
from resilient_ov.adapters.wire_values import WrongShapeError, to_value
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    Evidence,
    Failure,
    FailureKind,
    ReadMessages,
    Success,
)

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Of a page with several lines: parsing one body holds the interpreter for about 8 ms a MiB, and
the caller asks for half the lines when a page is too large."""

# -- the table --------------------------------------------------------------------------------

_BY_EXCEPTION: Final[tuple[tuple[type[httpx.TransportError], FailureKind], ...]] = (
    (httpx.PoolTimeout, FailureKind.SATURATED),
    (TlsFailure, FailureKind.TLS),
    (TlsTimedOut, FailureKind.TLS),
    (httpx.ConnectTimeout, FailureKind.CONNECT),
    (httpx.ConnectError, FailureKind.CONNECT),
    (httpx.TimeoutException, FailureKind.TIMEOUT),
    (httpx.NetworkError, FailureKind.RESET),
)
"""First match wins; anything else is ``PROTOCOL``."""

_BY_STATUS: Final[Mapping[int, FailureKind]] = {
    401: FailureKind.AUTH,
    403: FailureKind.AUTH,
    405: FailureKind.PROTOCOL,
    410: FailureKind.PROTOCOL,
    429: FailureKind.RATE_LIMITED,
    501: FailureKind.PROTOCOL,
}
_BY_CLASS: Final[Mapping[int, FailureKind]] = {
    # An error envelope under a 2xx: the server says itself that it failed.
    2: FailureKind.SERVER_ERROR,
    4: FailureKind.CLIENT_ERROR,
    5: FailureKind.SERVER_ERROR,
}
"""Where the status itself has no row; any other class is no answer of this server."""

_PROVIDER_DETAILS: Final = ("upstream_status_code", "upstream_error_type", "upstream_message")
_CODE: Final = re.compile(r"[A-Z_]{1,64}")
_SECONDS: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")


def max_body_bytes(command: Command) -> int:
    """Return the size above which an answer to ``command`` is not read."""
    several_lines = isinstance(command, ReadMessages) and command.limit > 1
    return MAX_PAGE_BYTES if several_lines else MAX_BODY_BYTES


def failed(error: httpx.TransportError, attempt: WireAttempt | None) -> Failure:
    """Return what it means that no whole answer came.

    Args:
        error: what the transport raised.
        attempt: the transport's record; None = it was not even begun.

    """
    matches = (kind for known, kind in _BY_EXCEPTION if isinstance(error, known))
    kind = next(matches, FailureKind.PROTOCOL)
    if attempt is None:
        return Failure(kind=kind, evidence=Evidence.NOT_SENT)
    if isinstance(error, httpx.ConnectTimeout) and attempt.expired:
        # Connecting was cut by the call's own deadline, which says little about the host.
        kind = FailureKind.TIMEOUT
    if isinstance(error, httpx.RemoteProtocolError) and attempt.peer_closed:
        kind = FailureKind.RESET
    return _failure(kind, _without_answer(attempt), attempt)


def too_large(attempt: WireAttempt) -> Failure:
    """Return the failure for a body above the cap, which is not read to its end."""
    return _failure(FailureKind.PROTOCOL, _without_answer(attempt), attempt, too_large=True)


def out_of_time(status: int, attempt: WireAttempt) -> Failure:
    """Return the failure for a whole answer that could not be read before the deadline."""
    return _failure(FailureKind.TIMEOUT, Evidence.ANSWERED, attempt, status=status)


def answered(
    command: Command, status: int, headers: httpx.Headers, body: bytes, attempt: WireAttempt
) -> Answer:
    """Return what a whole answer says."""
    if not 200 <= status < 300:
        return _refusal(command, status, headers, _content(headers, body), attempt)
    content = _content(headers, body)
    if content is None:
        # A body that ends with the connection may have been cut; others are known to be whole.
        whole = "content-length" in headers or "transfer-encoding" in headers
        evidence = Evidence.ANSWERED if whole else Evidence.UNKNOWN
        return _failure(FailureKind.PROTOCOL, evidence, attempt, status=status)
    if content.get("status") != "ok":
        if _error(content) is None:
            return _failure(FailureKind.PROTOCOL, Evidence.ANSWERED, attempt, status=status)
        return _refusal(command, status, headers, content, attempt)
    try:
        return Success(value=to_value(command, content), status=status)
    except WrongShapeError:
        return _failure(FailureKind.PROTOCOL, Evidence.ANSWERED, attempt, status=status)


def retry_after_s(headers: httpx.Headers) -> float | None:
    """Return the hint in seconds, >= 0; None when there is none that makes sense.

    A date is compared with the reply's own ``Date``, never with our clock; one in the past is 0.
    """
    hints = headers.get_list("retry-after")
    if len(hints) != 1:
        return None
    hint = hints[0].strip()
    if _SECONDS.fullmatch(hint):
        return float(hint)
    until, since = _instant(hint), _instant(headers.get("date", ""))
    if until is None or since is None:
        return None
    return max(0.0, until - since)


def _refusal(
    command: Command,
    status: int,
    headers: httpx.Headers,
    content: Mapping[str, Any] | None,
    attempt: WireAttempt,
) -> Failure:
    error = None if content is None else _error(content)
    details = as_object((error or {}).get("details")) or {}
    provider_fault = any(details.get(name) is not None for name in _PROVIDER_DETAILS)
    kind = _BY_STATUS.get(status) or _BY_CLASS.get(status // 100, FailureKind.PROTOCOL)
    if kind is FailureKind.AUTH and provider_fault:
        kind = FailureKind.SERVER_ERROR
    return _failure(
        kind,
        Evidence.ANSWERED,
        attempt,
        status=status,
        code=None if error is None else _code(error.get("code")),
        enveloped=error is not None,
        provider_fault=provider_fault,
        retry_after_s=retry_after_s(headers),
        invalid_indices=_invalid_indices(command, details.get("validation_errors")),
    )


def _failure(kind: FailureKind, evidence: Evidence, attempt: WireAttempt, **facts: Any) -> Failure:
    return Failure(
        kind=kind,
        evidence=evidence,
        wire_s=attempt.wire_s,
        reach_s=attempt.reach_s,
        byte_received=attempt.byte_received,
        **facts,
    )


def _without_answer(attempt: WireAttempt) -> Evidence:
    return Evidence.UNKNOWN if attempt.sent else Evidence.NOT_SENT


def _content(headers: httpx.Headers, body: bytes) -> Mapping[str, Any] | None:
    """Return the JSON object in the body; None for anything else.

    Bare NaN and infinities are let through: the only place where a float is looked at is a
    score, and one broken score must not hide the other hits.
    """
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        return None
    try:
        return as_object(json.loads(body.decode("utf-8")))
    except (ValueError, RecursionError):
        return None


def _error(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return as_object(content.get("error")) if content.get("status") == "error" else None


def _code(value: object) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _invalid_indices(command: Command, errors: object) -> tuple[int, ...]:
    if not isinstance(command, AddMessages):
        return ()
    places = ((as_object(error) or {}).get("loc") for error in as_list(errors) or ())
    found = {_message_index(as_list(place)) for place in places}
    return tuple(sorted(i for i in found if i is not None and i < len(command.messages)))


def _message_index(place: list[object] | None) -> int | None:
    match place:
        case ["body", "messages", str() | int() as index, *_] if str(index).isdecimal():
            return int(index)
        case _:
            return None


def _instant(text: str) -> float | None:
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
