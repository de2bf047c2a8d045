"""What an operation's end means in the words of the errors and of the calls' outcomes.

Rule: tables only; the facts are those of the classifier.
"""

from resilient_ov.domain.errors import (
    OpenVikingAuthenticationError,
    OpenVikingCircuitOpenError,
    OpenVikingConnectionError,
    OpenVikingError,
    OpenVikingOutcomeUnknownError,
    OpenVikingOverloadedError,
    OpenVikingProtocolError,
    OpenVikingRateLimitError,
    OpenVikingTimeoutError,
    OpenVikingUnavailableError,
)
from resilient_ov.domain.exchange import Failure, FailureKind, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import DegradeReason, classify
from resilient_ov.policy.refusals import Refusal, RefusalReason

_ERRORS: dict[FailureKind, tuple[type[OpenVikingError], str]] = {
    FailureKind.CLIENT_ERROR: (OpenVikingProtocolError, "the server refused the request"),
    FailureKind.RATE_LIMITED: (OpenVikingRateLimitError, "the server asks for fewer requests"),
    FailureKind.AUTH: (
        OpenVikingAuthenticationError,
        "the server refused the API key or identity; check account and key",
    ),
    FailureKind.SERVER_ERROR: (OpenVikingUnavailableError, "the server failed"),
    FailureKind.CONNECT: (OpenVikingConnectionError, "the server cannot be reached"),
    FailureKind.TLS: (OpenVikingConnectionError, "no trusted TLS connection to the server"),
    FailureKind.TIMEOUT: (OpenVikingTimeoutError, "the call's time was spent"),
    FailureKind.RESET: (OpenVikingConnectionError, "the connection broke before the answer came"),
    FailureKind.PROTOCOL: (OpenVikingProtocolError, "the answer is not OpenViking's"),
    FailureKind.SATURATED: (OpenVikingOverloadedError, "no connection was free in time"),
}

_REFUSALS: dict[RefusalReason, tuple[type[OpenVikingError], str]] = {
    RefusalReason.OPEN: (OpenVikingCircuitOpenError, "the circuit breaker is open"),
    RefusalReason.PROBE_IN_FLIGHT: (OpenVikingCircuitOpenError, "a probe of the breaker is out"),
    RefusalReason.HOST_OPEN: (OpenVikingCircuitOpenError, "the host's circuit breaker is open"),
    RefusalReason.AUTH_HOLD: (OpenVikingCircuitOpenError, "held: the server refuses the API key"),
    RefusalReason.RETRY_AFTER: (OpenVikingCircuitOpenError, "held: the server asked to wait"),
    RefusalReason.SWITCH: (OpenVikingCircuitOpenError, "switched off by the operator"),
    RefusalReason.BULKHEAD: (OpenVikingOverloadedError, "too many requests in flight"),
    RefusalReason.EXECUTOR: (OpenVikingOverloadedError, "no worker or connection was free"),
    RefusalReason.DEADLINE: (OpenVikingTimeoutError, "too little time was left to begin"),
    RefusalReason.CLOSED: (OpenVikingOverloadedError, "this backend was shut down"),
}


def error_of(
    result: Failure | Refusal, operation: Operation | None = None, *, unknown: bool = False
) -> OpenVikingError:
    """Return the public error for how an operation ended; ``unknown`` = a write is in doubt."""
    name = None if operation is None else operation.value
    if isinstance(result, Refusal):
        kind, problem = _REFUSALS[result.reason]
        return kind(problem, operation=name)
    kind, problem = _ERRORS[result.kind]
    if result.provider_fault:
        kind, problem = OpenVikingUnavailableError, "the server's model provider failed"
    if unknown:
        kind, problem = OpenVikingOutcomeUnknownError, "the write may or may not be stored"
    return kind(
        problem,
        operation=name,
        status=result.status,
        code=result.code,
        request_id=result.request_id,
    )


def degradation(result: Failure | Refusal, operation: Operation) -> DegradeReason:
    """Return why memory was not had."""
    if isinstance(result, Refusal):
        late = result.reason is RefusalReason.DEADLINE
        return DegradeReason.DEADLINE if late else DegradeReason.REFUSED
    return classify(OPERATIONS[operation], result).reason
