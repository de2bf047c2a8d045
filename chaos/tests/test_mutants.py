"""With a protection turned off the checker that watches over it goes red, and no other one does."""

import pytest

from resilient_ov_chaos.mutants import MUTANTS, Killed, kill
from resilient_ov_chaos.suite import Suite

pytestmark = [pytest.mark.ci, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protection_that_is_turned_off_is_missed(stage: Suite, name: str) -> None:
    killed = kill(stage, MUTANTS[name])
    assert isinstance(killed, Killed), killed
    assert killed.problem is None
