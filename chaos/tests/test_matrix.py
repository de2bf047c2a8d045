"""Every fault x operation against the embedded server through real Toxiproxy.

One scenario is played for all operations of a fault; ``-m ci`` takes the short list.
"""

from typing import Any

import pytest

from resilient_ov_chaos.faults.catalogue import FAULTS, SHORT
from resilient_ov_chaos.outcome import OPERATIONS, Case, cases
from resilient_ov_chaos.suite import Played, Suite
from resilient_ov_chaos.verdict import Status

pytestmark = pytest.mark.timeout(400)

_PLAYED: dict[str, dict[str, Case] | BaseException] = {}


def of(stage: Suite, fault: str) -> dict[str, Case]:
    """Play a scenario once, whatever becomes of it."""
    if fault not in _PLAYED:
        try:
            played = stage.play(FAULTS[fault])
            assert isinstance(played, Played), played
        except BaseException as error:
            _PLAYED[fault] = error
            raise
        _PLAYED[fault] = {case.operation: case for case in cases(played)}
    known = _PLAYED[fault]
    if isinstance(known, BaseException):
        pytest.fail(f"the scenario could not be played: {known}")
    return known


def params() -> list[Any]:
    return [
        pytest.param(
            name, operation, marks=pytest.mark.ci if name in SHORT else (), id=f"{name}-{operation}"
        )
        for name in FAULTS
        for operation in OPERATIONS
    ]


@pytest.mark.parametrize(("fault", "operation"), params())
def test_a_fault_is_borne_as_expected(stage: Suite, fault: str, operation: str) -> None:
    case = of(stage, fault)[operation]
    told = "\n".join(case.problems)
    assert case.status is Status.GREEN, f"{fault}, {operation} is {case.status}:\n{told}"
