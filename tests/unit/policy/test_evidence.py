from dataclasses import replace

import pytest

from resilient_ov.domain.exchange import Failure, FailureKind, Operation
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.classify import Sample, classify
from resilient_ov.policy.evidence import group_evidence, host_evidence
from tests.unit.policy.failures import answered, reset, timed_out, unreachable

SEARCH = OPERATIONS[Operation.SEARCH]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (timed_out(0.25), Sample.FAILURE),
        (timed_out(0.24), Sample.IGNORE),
        (reset(), Sample.FAILURE),
        (answered(503), Sample.FAILURE),
        (answered(404), Sample.IGNORE),
    ],
)
def test_timeout_speaks_against_a_group_that_had_enough_time(
    failure: Failure, expected: Sample
) -> None:
    assert group_evidence(classify(SEARCH, failure), 0.25) is expected


@pytest.mark.parametrize(
    ("failure", "took_s", "cut", "expected"),
    [
        (unreachable(), 0.001, False, Sample.FAILURE),
        (unreachable(), 0.001, True, Sample.IGNORE),
        (unreachable(), 0.25, True, Sample.FAILURE),
        (unreachable(FailureKind.TLS), 0.001, True, Sample.IGNORE),
        (unreachable(FailureKind.TIMEOUT), 0.24, False, Sample.IGNORE),
        (unreachable(FailureKind.TIMEOUT), 0.25, False, Sample.FAILURE),
        (replace(unreachable(FailureKind.TIMEOUT), reach_s=0.24), 0.5, True, Sample.IGNORE),
        (replace(unreachable(FailureKind.TIMEOUT), reach_s=0.25), 0.5, True, Sample.FAILURE),
        (replace(unreachable(), reach_s=0.0), 0.5, False, Sample.FAILURE),
        (answered(503), 0.001, True, Sample.SUCCESS),
    ],
)
def test_connect_speaks_against_a_host_unless_the_deadline_cut_it_short(
    failure: Failure, took_s: float, cut: bool, expected: Sample
) -> None:
    assert host_evidence(classify(SEARCH, failure), took_s, 0.25, cut=cut) is expected
