"""Reads one failed attempt: what to do next, and whose fault it counts as.

No I/O here. Each rule below is a row of a parametrised test.
"""

from dataclasses import dataclass
from enum import StrEnum

from resilient_ov.domain.exchange import Evidence, Failure, FailureKind
from resilient_ov.policy.rules import Group, OperationRule, ReplayClass


class Action(StrEnum):
    """What the call does next."""

    RETRY = "retry"
    """Another attempt may help and can do no harm; time, budget and caps still have a say."""
    SETTLE = "settle"
    """A write that must not be repeated may have been applied: look before anything else."""
    GIVE_UP = "give_up"
    ACCEPT = "accept"
    """What was asked for is already so: the call succeeded, with the value None."""


class Sample(StrEnum):
    """What an attempt says to a breaker. IGNORE changes nothing in any state."""

    SUCCESS = "success"
    FAILURE = "failure"
    IGNORE = "ignore"


class AuthSignal(StrEnum):
    """What an answer says of our own key and identity."""

    ACCEPTED = "accepted"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    SILENT = "silent"


class DegradeReason(StrEnum):
    """Why memory was not had; the values of ``openviking_degraded_total{reason}``.

    The classifier never says SCOPE or SYNC_ON_LOOP: those are known before there is an attempt.
    """

    UNAVAILABLE = "unavailable"
    DEADLINE = "deadline"
    REFUSED = "refused"
    AUTH = "auth"
    SCOPE = "scope"
    PROTOCOL = "protocol"
    SYNC_ON_LOOP = "sync_on_loop"


class AttemptOutcome(StrEnum):
    """The values of ``openviking_attempts_total{outcome}``."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    RATE_LIMITED = "rate_limited"
    AUTH = "auth"
    SERVER_ERROR = "server_error"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    CANCELLED = "cancelled"


class RetryReason(StrEnum):
    """The values of ``openviking_retries_total{reason}``."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    RESET = "reset"
    SERVER_ERROR = "server_error"
    RATE_LIMITED = "rate_limited"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one failed attempt means.

    Attributes:
        failure: the facts it was read from.
        action: what the call does next.
        not_applied: the server has certainly not applied the request, now or later.
        group_sample: what the group's breaker is told, unless too little time was on the wire.
        host_sample: the same for the breaker of the host.
        auth: what it says of our own key.
        retry_after_s: the server's request to wait, from a 429 or 5xx only.
        hold_group: whose calls wait when that does not fit the deadline.
        reason: why memory was not had, should the call end here.
        outcome: the attempt's label; None = the attempt never began (our own pool was full, to
            be counted as refused for the reason ``executor``).
        retry_reason: the label of the next attempt; None unless ``action`` is RETRY.
        retry_once: no further attempt when this is not the first failure of the call.
        answered: the server answered, and not with 5xx.
    """

    failure: Failure
    action: Action
    not_applied: bool
    group_sample: Sample
    host_sample: Sample
    auth: AuthSignal
    retry_after_s: float | None
    hold_group: Group | None
    reason: DegradeReason
    outcome: AttemptOutcome | None
    retry_reason: RetryReason | None
    retry_once: bool
    answered: bool


_OUTCOMES = {
    FailureKind.CLIENT_ERROR: AttemptOutcome.CLIENT_ERROR,
    FailureKind.RATE_LIMITED: AttemptOutcome.RATE_LIMITED,
    FailureKind.AUTH: AttemptOutcome.AUTH,
    FailureKind.SERVER_ERROR: AttemptOutcome.SERVER_ERROR,
    FailureKind.CONNECT: AttemptOutcome.CONNECT,
    FailureKind.TLS: AttemptOutcome.TLS,
    FailureKind.TIMEOUT: AttemptOutcome.TIMEOUT,
    FailureKind.RESET: AttemptOutcome.RESET,
    FailureKind.PROTOCOL: AttemptOutcome.PROTOCOL,
    FailureKind.SATURATED: None,
}

_REASONS = {
    # A 4xx that is no 401/403/429 says that the server does not understand what we asked.
    FailureKind.CLIENT_ERROR: DegradeReason.PROTOCOL,
    FailureKind.RATE_LIMITED: DegradeReason.UNAVAILABLE,
    FailureKind.AUTH: DegradeReason.AUTH,
    FailureKind.SERVER_ERROR: DegradeReason.UNAVAILABLE,
    FailureKind.CONNECT: DegradeReason.UNAVAILABLE,
    FailureKind.TLS: DegradeReason.UNAVAILABLE,
    FailureKind.TIMEOUT: DegradeReason.DEADLINE,
    FailureKind.RESET: DegradeReason.UNAVAILABLE,
    FailureKind.PROTOCOL: DegradeReason.PROTOCOL,
    FailureKind.SATURATED: DegradeReason.REFUSED,
}

_RETRY_REASONS = {
    FailureKind.RATE_LIMITED: RetryReason.RATE_LIMITED,
    FailureKind.SERVER_ERROR: RetryReason.SERVER_ERROR,
    FailureKind.CONNECT: RetryReason.CONNECT,
    FailureKind.TIMEOUT: RetryReason.TIMEOUT,
    FailureKind.RESET: RetryReason.RESET,
}

_OTHER_CONTRACT = frozenset({405, 410, 501})
"""Statuses of a server that does not have what we call: not OpenViking's 0.5 contract."""

_KEY_WAS_ACCEPTED = frozenset({404, 409, 412})
"""Enveloped statuses that are only given to a caller whose key and identity are good."""

_MAY_ASK_TO_WAIT = frozenset({FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR})

_UNREACHABLE = frozenset({FailureKind.CONNECT, FailureKind.TLS})


def classify(rule: OperationRule, failure: Failure) -> Decision:
    """Read a failed attempt of an operation.

    Pure and total: every failure has a decision. Time, attempt caps, the retry budget and the
    switches are not looked at here.
    """
    provider = failure.provider_fault
    kind = _kind(failure)
    conflict = failure.enveloped and failure.code in rule.retry_once_codes
    not_applied = _not_applied(failure)
    action = _action(rule, failure, kind, conflict=conflict, not_applied=not_applied)
    return Decision(
        failure=failure,
        action=action,
        not_applied=not_applied,
        group_sample=_group_sample(rule, failure, kind, action),
        host_sample=_host_sample(failure, kind),
        auth=_auth(rule, failure, kind, action),
        retry_after_s=failure.retry_after_s if kind in _MAY_ASK_TO_WAIT else None,
        hold_group=Group.RECALL if provider else rule.group,
        reason=_REASONS[kind],
        outcome=_OUTCOMES[kind],
        retry_reason=None
        if action is not Action.RETRY
        else RetryReason.CONFLICT
        if conflict
        else _RETRY_REASONS[kind],
        retry_once=conflict,
        answered=failure.status is not None and failure.status < 500,
    )


def _kind(failure: Failure) -> FailureKind:
    """Correct the adapter's first reading by what the status and the envelope say."""
    if failure.status in _OTHER_CONTRACT:
        return FailureKind.PROTOCOL
    if failure.provider_fault and failure.kind is FailureKind.AUTH:
        # The server's key for its model provider was refused, not ours: an outage of recall.
        return FailureKind.SERVER_ERROR
    return failure.kind


def _not_applied(failure: Failure) -> bool:
    if failure.evidence is Evidence.NOT_SENT:
        return True
    status = failure.status
    if failure.evidence is Evidence.UNKNOWN or status is None:
        return False
    if status == 413:
        return True
    # Without our envelope a proxy spoke, and it may have passed the request on.
    return failure.enveloped and (400 <= status < 500 or status in (501, 503))


def _action(
    rule: OperationRule,
    failure: Failure,
    kind: FailureKind,
    *,
    conflict: bool,
    not_applied: bool,
) -> Action:
    if failure.enveloped and failure.code in rule.accepted_codes:
        return Action.ACCEPT
    may_help = (
        conflict
        or kind in rule.retry_kinds
        or (kind in _RETRY_REASONS and failure.status in rule.retry_statuses)
    )
    if rule.replay is ReplayClass.NEVER:
        if may_help and failure.evidence is Evidence.NOT_SENT:
            return Action.RETRY
        return Action.GIVE_UP if not_applied else Action.SETTLE
    return Action.RETRY if may_help else Action.GIVE_UP


def _group_sample(
    rule: OperationRule, failure: Failure, kind: FailureKind, action: Action
) -> Sample:
    if action is Action.ACCEPT:
        return Sample.SUCCESS
    if failure.provider_fault:
        return Sample.FAILURE if rule.group is Group.RECALL else Sample.IGNORE
    if kind is FailureKind.TIMEOUT:
        return Sample.IGNORE if failure.evidence is Evidence.NOT_SENT else Sample.FAILURE
    if kind in (FailureKind.RESET, FailureKind.SERVER_ERROR):
        return Sample.FAILURE
    if kind is FailureKind.PROTOCOL:
        # A 4xx, and our envelope's 501, are answers of a server that works.
        status = failure.status
        spoke = status is not None and (400 <= status < 500 or failure.enveloped)
        return Sample.IGNORE if spoke else Sample.FAILURE
    return Sample.IGNORE


def _host_sample(failure: Failure, kind: FailureKind) -> Sample:
    if failure.byte_received or failure.evidence is not Evidence.NOT_SENT:
        return Sample.SUCCESS
    if kind in _UNREACHABLE or kind is FailureKind.TIMEOUT:
        return Sample.FAILURE
    return Sample.SUCCESS if kind is FailureKind.RESET else Sample.IGNORE


def _auth(rule: OperationRule, failure: Failure, kind: FailureKind, action: Action) -> AuthSignal:
    if action is Action.ACCEPT:
        return AuthSignal.ACCEPTED
    if kind is FailureKind.AUTH:
        if failure.status == 401:
            return AuthSignal.UNAUTHENTICATED
        return AuthSignal.SILENT if rule.path_access else AuthSignal.FORBIDDEN
    if failure.enveloped and failure.status in _KEY_WAS_ACCEPTED:
        return AuthSignal.ACCEPTED
    return AuthSignal.SILENT
