"""What can go wrong with memory, as an operator or a host meets it.

Rule: a text here is one of our own sentences plus closed fields; never a key, header, body,
message text, URL or server sentence, and never a chained cause.

    OpenVikingError
    ├── OpenVikingConnectionError       no connection (DNS, TCP, TLS), or it was reset
    ├── OpenVikingTimeoutError          the call's total deadline was spent
    ├── OpenVikingAuthenticationError   our own 401 or 403
    ├── OpenVikingProtocolError         an answer that is not OpenViking's
    ├── OpenVikingRateLimitError        429, ours or the model provider's
    ├── OpenVikingUnavailableError      5xx, or the embedder is out
    ├── OpenVikingScopeError            bad user, agent or thread; raised before any request
    ├── OpenVikingCircuitOpenError      refused by a breaker, hold or switch; nothing was sent
    ├── OpenVikingOverloadedError       refused by one of our own limits; nothing was sent
    └── OpenVikingOutcomeUnknownError   a write may have been applied; it will be settled
"""

from typing import Any


class OpenVikingError(Exception):
    """Base of every error of this package.

    Attributes:
        operation: name from the operation table (``messages.add``), or None before there is one.
        status: HTTP status of the last answer, if any.
        code: error code of the answer's envelope (upper-case letters and ``_``), if any.
        request_id: our own random id of the request, for the server's logs.
        retryable: True when the same call may succeed later without a change of configuration.
    """

    default_retryable = False

    def __init__(
        self,
        problem: str,
        *,
        operation: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.operation = operation
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retryable = self.default_retryable if retryable is None else retryable

    def __str__(self) -> str:
        """Return the sentence and the closed fields that are set."""
        facts = (
            ("operation", self.operation),
            ("status", self.status),
            ("code", self.code),
            ("request_id", self.request_id),
        )
        told = ", ".join(f"{name}={value}" for name, value in facts if value is not None)
        return f"{self.problem} ({told})" if told else self.problem

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the same fields, so nothing else travels with the error."""
        return _rebuild, (
            type(self),
            self.problem,
            {
                "operation": self.operation,
                "status": self.status,
                "code": self.code,
                "request_id": self.request_id,
                "retryable": self.retryable,
            },
        )


def _rebuild(kind: type[OpenVikingError], problem: str, fields: dict[str, Any]) -> OpenVikingError:
    return kind(problem, **fields)


class OpenVikingConnectionError(OpenVikingError):
    """No connection could be made, or it was reset before a whole answer came."""

    default_retryable = True


class OpenVikingTimeoutError(OpenVikingError):
    """The total deadline of the call was spent."""

    default_retryable = True


class OpenVikingAuthenticationError(OpenVikingError):
    """The server refused our own key or identity (401 or 403)."""


class OpenVikingProtocolError(OpenVikingError):
    """The answer is not OpenViking's: HTML, a redirect, a wrong shape, too large."""


class OpenVikingRateLimitError(OpenVikingError):
    """429, from the server or relayed from its model provider."""

    default_retryable = True


class OpenVikingUnavailableError(OpenVikingError):
    """The server answered 5xx, or its model provider is out."""

    default_retryable = True


class OpenVikingScopeError(OpenVikingError):
    """A user, agent or thread id that cannot name a memory; raised before any request."""


class OpenVikingCircuitOpenError(OpenVikingError):
    """Refused by a breaker, a hold or a switch: nothing was sent."""

    default_retryable = True


class OpenVikingOverloadedError(OpenVikingError):
    """Refused by one of our own limits: nothing was sent."""

    default_retryable = True


class OpenVikingOutcomeUnknownError(OpenVikingError):
    """A write may or may not have been applied; the writer settles it by read-back."""

    default_retryable = True
