"""Drops what a failure says of the server when our own deadline left it too little time.

No I/O and no clock here.
"""

from resilient_ov.domain.exchange import FailureKind
from resilient_ov.policy.classify import Decision, Sample


def group_evidence(decision: Decision, enough_s: float) -> Sample:
    """Return what the group's breaker is told; ``enough_s`` is the time an answer may take."""
    failure = decision.failure
    cut = failure.kind is FailureKind.TIMEOUT
    return Sample.IGNORE if cut and failure.wire_s < enough_s else decision.group_sample


def host_evidence(decision: Decision, took_s: float, enough_s: float, *, cut: bool) -> Sample:
    """Return what the breaker of the host is told of an attempt that took ``took_s``.

    ``cut`` = the deadline was reached: then a connect that was given little time was slow to
    finish because it was late to begin. Waiting for a place in our own pool is no such time.
    """
    if decision.host_sample is not Sample.FAILURE:
        return decision.host_sample
    failure = decision.failure
    cut = cut or failure.kind is FailureKind.TIMEOUT
    had_s = took_s if failure.reach_s is None else failure.reach_s
    return Sample.IGNORE if cut and had_s < enough_s else Sample.FAILURE
