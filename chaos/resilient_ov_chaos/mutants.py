"""Which checker must go red when which protection is turned off, and in which trouble.

Rule: a mutant that stays green, or goes red somewhere else, is an error of the suite.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from resilient_ov_chaos.checkers import evidence
from resilient_ov_chaos.faults.catalogue import FAULTS
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.suite import Played, Skipped, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One protection that is turned off.

    Attributes:
        name: the switch.
        fault: the trouble that shows it.
        checker: must go red.
        also: may go red with it, as consequences of the same.
        further: settings of the product, so that no other protection steps in.
        windows: length of the trouble, in fault windows.

    """

    name: str
    fault: str
    checker: str
    also: frozenset[str] = frozenset()
    further: Mapping[str, object] = field(default_factory=dict[str, object])
    windows: float = 1.0

    def of(self) -> Fault:
        """Return the trouble as this mutant needs it."""
        fault = FAULTS[self.fault]

        def knobs(pace: Knobs) -> Knobs:
            pace = fault.knobs(pace)
            return replace(
                pace,
                fault_s=pace.fault_s * self.windows,
                further={**pace.further, **self.further},
            )

        return replace(fault, knobs=knobs)


_NO_BREAKER: Final[Mapping[str, object]] = {
    "breaker": {
        "failure_rate": 1.0,
        "minimum_calls": 10000,
        "consecutive_failures": 1000,
        "consecutive_timeouts": 1000,
    }
}
"""Only the retry budget is left to hold the attempts down."""

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Mutant(
                name="breaker",
                fault="silence",
                checker="time_to_degrade",
                also=frozenset({"breaker"}),
            ),
            Mutant(
                name="deadline",
                fault="drip",
                checker="budgets",
                also=frozenset({"time_to_degrade", "breaker"}),
            ),
            Mutant(
                name="retry_budget",
                fault="embedder_outage",
                checker="amplification",
                also=frozenset({"time_to_degrade", "breaker"}),
                further=_NO_BREAKER,
                windows=2.0,
            ),
            Mutant(
                name="single_probe",
                fault="silence",
                checker="single_probe",
                also=frozenset({"time_to_degrade"}),
            ),
            Mutant(
                name="read_back",
                fault="reply_lost",
                checker="nothing_duplicated",
                also=frozenset({"metrics_agree"}),
            ),
            Mutant(
                name="intent",
                fault="client_killed",
                checker="nothing_duplicated",
                also=frozenset({"metrics_agree"}),
            ),
            Mutant(
                name="settle_time",
                fault="late_effect",
                checker="nothing_duplicated",
                also=frozenset({"metrics_agree"}),
                windows=2.0,
            ),
            Mutant(name="redaction", fault="down", checker="secrets"),
            Mutant(
                name="scope_check",
                fault="foreign_hits",
                checker="isolation",
                also=frozenset({"time_to_degrade", "metrics_agree"}),
            ),
            Mutant(name="count_before_send", fault="silence", checker="metrics_agree"),
        )
    }
)
"""Every protection by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What became of one mutant. ``problem`` None = the named checker went red, and no other."""

    mutant: Mutant
    played: Played
    problem: str | None


def kill(suite: Suite, mutant: Mutant) -> Killed | Skipped:
    """Play a mutant and see whether the named checker goes red.

    Raises:
        ClientError, ToxiproxyError, OSError: the suite itself failed.

    """
    played = suite.play(
        mutant.of(), mutant=mutant.name, blamed=lambda played: blamed_of(mutant, played.red)
    )
    if isinstance(played, Skipped):
        return played
    return Killed(mutant=mutant, played=played, problem=problem_of(mutant, played.red))


def blamed_of(mutant: Mutant, red: tuple[str, ...]) -> frozenset[str]:
    """Return the checkers that must not be red; without the named one nothing is proved."""
    if mutant.checker not in red:
        return frozenset({evidence.NAME})
    return frozenset(red) - {mutant.checker} - mutant.also


def problem_of(mutant: Mutant, red: tuple[str, ...]) -> str | None:
    """Return what is wrong with the checkers that went red; None = nothing."""
    if mutant.checker not in red:
        told = ", ".join(red) or "none"
        return f"{mutant.checker} did not go red (red: {told})"
    if others := blamed_of(mutant, red):
        return f"red for another reason as well: {', '.join(sorted(others))}"
    return None
