"""Plays a list of scenarios and writes the report, whatever happens in between."""

import os
import platform
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

import httpx

from resilient_ov_chaos.client_process import ClientError
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.outcome import Ending, Outcome
from resilient_ov_chaos.report.write import picture, write_report
from resilient_ov_chaos.suite import Aborted, Played, Skipped, Suite, suite
from resilient_ov_chaos.targets.target import Target
from resilient_ov_chaos.toxiproxy.link import ToxiproxyError

_THINK_SLOW_S: Final = 2.0
"""A real server on the same machine shares its processors with the traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be played, and how."""

    target: Target
    faults: Sequence[Fault]
    knobs: Knobs
    out: Path
    seed: int
    toxiproxy_url: str | None = None


class Watcher(Protocol):
    """Told of what goes on."""

    def says(self, line: str, /) -> None:
        """Hear of a phase."""
        ...

    def played(self, scenario: Played | Skipped | Aborted, /) -> None:
        """Hear of a scenario that has ended."""
        ...


def fresh_seed() -> int:
    """Return a seed to print."""
    return random.SystemRandom().randrange(1, 1_000_000)


def run(wanted: Wanted, watcher: Watcher) -> Outcome:
    """Play all scenarios; a keyboard interrupt ends the run, not the report.

    Raises:
        ToolMissingError, NotSeededError, ToxiproxyError: nothing could be played.

    """
    began_at, began_s = _now(), time.monotonic()
    scenarios: list[Played | Skipped | Aborted] = []
    knobs = wanted.knobs
    if wanted.target.slow:
        knobs = replace(knobs, think_s=max(knobs.think_s, _THINK_SLOW_S))
    ending = Ending.INTERRUPTED
    with (
        suppress(KeyboardInterrupt),
        suite(
            wanted.target,
            knobs,
            wanted.out,
            seed=wanted.seed,
            toxiproxy_url=wanted.toxiproxy_url,
            say=watcher.says,
        ) as stage,
    ):
        for fault in wanted.faults:
            scenario = _play(stage, fault)
            if isinstance(scenario, Played):
                picture(scenario, wanted.out)
            scenarios.append(scenario)
            watcher.played(scenario)
        ending = Ending.COMPLETED
    outcome = Outcome(
        facts=_facts(wanted),
        scenarios=tuple(scenarios),
        ending=ending,
        began_at=began_at,
        ended_at=_now(),
        took_s=time.monotonic() - began_s,
    )
    write_report(outcome, wanted.out)
    return outcome


def _play(stage: Suite, fault: Fault) -> Played | Skipped | Aborted:
    try:
        return stage.play(fault)
    except (ClientError, ToxiproxyError, OSError, httpx.TransportError) as error:
        return Aborted(fault=fault, reason=f"{type(error).__name__}: {error}")


def _facts(wanted: Wanted) -> dict[str, str]:
    return {
        "seed": str(wanted.seed),
        "target": wanted.target.name,
        "pace": wanted.knobs.name,
        "resilient-ov": version("resilient-ov"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}, {os.cpu_count()} processors",
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
