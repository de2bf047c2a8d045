"""All checkers, and how they are applied to a run."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from resilient_ov_chaos.checkers import (
    amplification,
    breakers,
    budgets,
    degrading,
    duplicated,
    evidence,
    isolation,
    leaving,
    lost,
    metrics,
    order,
    raised,
    resources,
    secrets,
    stalls,
    story,
)
from resilient_ov_chaos.verdict import Check, Finding, Run

CHECKERS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        evidence.NAME: evidence.check,
        lost.NAME: lost.check,
        duplicated.NAME: duplicated.check,
        order.NAME: order.check,
        isolation.NAME: isolation.check,
        raised.NAME: raised.check,
        budgets.NAME: budgets.check,
        stalls.NAME: stalls.check,
        degrading.DEGRADE: degrading.degrade,
        degrading.RECOVER: degrading.recover,
        degrading.DELIVER: degrading.deliver,
        leaving.NAME: leaving.check,
        breakers.STATES: breakers.states,
        breakers.PROBES: breakers.probes,
        breakers.QUIET: breakers.quiet,
        amplification.NAME: amplification.check,
        resources.NAME: resources.check,
        metrics.NAME: metrics.check,
        secrets.NAME: secrets.check,
        story.NAME: story.check,
    }
)


def judge(run: Run) -> tuple[Finding, ...]:
    """Apply every checker to a run."""
    return tuple(finding for check in CHECKERS.values() for finding in check(run))
