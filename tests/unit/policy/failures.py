"""Failures as the adapter reports them, by name."""

from resilient_ov.domain.exchange import Evidence, Failure, FailureKind

_KINDS = {401: FailureKind.AUTH, 403: FailureKind.AUTH, 429: FailureKind.RATE_LIMITED}


def answered(
    status: int,
    code: str | None = None,
    *,
    enveloped: bool = True,
    provider_fault: bool = False,
    retry_after_s: float | None = None,
    kind: FailureKind | None = None,
) -> Failure:
    by_status = FailureKind.CLIENT_ERROR if status < 500 else FailureKind.SERVER_ERROR
    return Failure(
        kind=kind or _KINDS.get(status, by_status),
        evidence=Evidence.ANSWERED,
        status=status,
        code=code,
        enveloped=enveloped,
        provider_fault=provider_fault,
        retry_after_s=retry_after_s,
        wire_s=0.01,
        byte_received=True,
    )


def unreachable(kind: FailureKind = FailureKind.CONNECT) -> Failure:
    return Failure(kind=kind, evidence=Evidence.NOT_SENT)


def timed_out(wire_s: float = 1.0) -> Failure:
    return Failure(kind=FailureKind.TIMEOUT, evidence=Evidence.UNKNOWN, wire_s=wire_s)


def reset() -> Failure:
    return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)


def html() -> Failure:
    return Failure(
        kind=FailureKind.PROTOCOL,
        evidence=Evidence.ANSWERED,
        status=200,
        wire_s=0.01,
        byte_received=True,
    )


def saturated() -> Failure:
    return Failure(kind=FailureKind.SATURATED, evidence=Evidence.NOT_SENT)
