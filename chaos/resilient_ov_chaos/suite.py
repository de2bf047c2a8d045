"""Sets the stage for a run and plays scenarios on it.

Rule: whatever is started here ends here; the report is made elsewhere.
"""

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from resilient_ov_chaos.agent.job import Job
from resilient_ov_chaos.cast import personas, run_name
from resilient_ov_chaos.checkers.catalogue import judge
from resilient_ov_chaos.client_process import ClientProcess
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.ledger_reader import LedgerReader
from resilient_ov_chaos.machine import TIMED, too_busy
from resilient_ov_chaos.saved import save_run
from resilient_ov_chaos.scenario import Scenario, Stage
from resilient_ov_chaos.targets.target import Ability, Target
from resilient_ov_chaos.toxiproxy.server import toxiproxy
from resilient_ov_chaos.verdict import Finding, Run, Status, worst

_MOST_TRIES: Final = 3
_SEED_S: Final = 30.0
_SEED_SLOW_S: Final = 90.0
LINK: Final = "resilient-ov-chaos"


class NotSeededError(Exception):
    """The server did not remember what it was told before the first fault; nothing can be tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One scenario that was played and judged; ``run`` is kept for the plots."""

    fault: Fault
    run: Run
    findings: tuple[Finding, ...]
    took_s: float
    folder: Path
    tries: int = 1
    """How often it was played, because the machine was too busy to judge it by its times."""

    @property
    def status(self) -> Status:
        """The worst finding."""
        return worst(each.status for each in self.findings)

    @property
    def red(self) -> tuple[str, ...]:
        """Names of the checkers that went red."""
        return tuple(
            dict.fromkeys(each.checker for each in self.findings if each.status is Status.RED)
        )

    @property
    def blamed(self) -> frozenset[str]:
        """Names of the checkers that are not green."""
        return frozenset(e.checker for e in self.findings if e.status is not Status.GREEN)

    @property
    def too_busy(self) -> bool:
        """Tell whether the machine was too busy for times to mean anything."""
        touched = bool(self.fault.needs & {Ability.KILL, Ability.FREEZE})
        return too_busy(self.run.history, self.run.knobs, in_window=not touched)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A scenario that could not be played here, and why."""

    fault: Fault
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """A scenario that the suite itself could not play to its end, and why."""

    fault: Fault
    reason: str


class Suite:
    """Plays scenarios one after the other on one stage. Not thread-safe."""

    def __init__(self, stage: Stage, knobs: Knobs, out: Path) -> None:
        self._stage = stage
        self._knobs = knobs
        self._out = out
        self._first_talk = 0

    def play(
        self,
        fault: Fault,
        *,
        mutant: str | None = None,
        blamed: Callable[[Played], frozenset[str]] = lambda played: played.blamed,
    ) -> Played | Skipped:
        """Play a scenario and judge it.

        When nothing is wrong but times, and the machine was too busy for them, it is played again;
        the third time it is what it is.

        Args:
            fault: the trouble.
            mutant: the protection to turn off in the product.
            blamed: names the checkers by which it is not as it should be.

        Raises:
            ClientError, ToxiproxyError, OSError: the suite itself failed, not the product.

        """
        lacks = [each.value for each in fault.needs if not self._stage.target.can(each)]
        if lacks:
            told = f"the target {self._stage.target.name} has no means for: {', '.join(lacks)}"
            return Skipped(fault=fault, reason=told)
        name = fault.name if mutant is None else f"mutant-{mutant}"
        tries = 0
        while True:
            tries += 1
            folder = self._out / (name if tries == 1 else f"{name}-{tries}")
            played = replace(self._once(fault, folder, mutant), tries=tries)
            wrong = blamed(played)
            judgeable = not wrong or not wrong <= TIMED or not played.too_busy
            if judgeable or tries == _MOST_TRIES:
                return played
            told = ", ".join(sorted(wrong))
            self._stage.say(f"{name}: the machine was too busy for {told}; once more")

    def _once(self, fault: Fault, folder: Path, mutant: str | None) -> Played:
        scenario = Scenario(
            self._stage,
            fault,
            self._knobs,
            folder,
            first_talk=self._first_talk,
            mutant=mutant,
        )
        self._first_talk = scenario.next_talk
        began_s = time.monotonic()
        run = scenario.play()
        slow = self._stage.target.slow
        save_run(run, folder, fault=fault.name, name=self._stage.run, slow=slow)
        return Played(
            fault=fault,
            run=run,
            findings=judge(run),
            took_s=time.monotonic() - began_s,
            folder=folder,
        )


@contextmanager
def suite(
    target: Target,
    knobs: Knobs,
    out: Path,
    *,
    seed: int,
    toxiproxy_url: str | None = None,
    say: Callable[[str], None] = print,
) -> Generator[Suite]:
    """Set the stage: the network, the cast, and a first memory for each persona.

    Raises:
        ToolMissingError: there is no Toxiproxy and none can be started.
        NotSeededError: the server does not remember.

    """
    run = run_name(seed)
    cast = personas(run)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        server = held.enter_context(toxiproxy(toxiproxy_url, say=say))
        link = server.link(LINK, upstream=target.address)
        held.callback(link.remove)
        reader = LedgerReader(target.address, key=target.key, account=target.account, personas=cast)
        held.callback(reader.close)
        stage = Stage(
            target=target,
            link=link,
            personas=cast,
            reader=reader,
            run=run,
            seed=seed,
            say=say,
        )
        _seed(stage, out)
        yield Suite(stage, knobs, out)


def _seed(stage: Stage, out: Path) -> None:
    """Leave each persona its first memory, with the product's own defaults."""
    stage.say("leaving each persona a first memory")
    folder = out / "seed"
    folder.mkdir(parents=True)
    key_file = folder / "key"
    key_file.touch(mode=0o600)
    key_file.write_text(stage.target.key, encoding="utf-8")
    seconds = _SEED_SLOW_S if stage.target.slow else _SEED_S
    client = ClientProcess(
        Job(
            process=0,
            run=stage.run,
            seed=stage.seed,
            config={
                "base_url": stage.link.url,
                "account": stage.target.account,
                "api_key_file": str(key_file),
                "storage_path": str(folder / "storage"),
            },
            personas=stage.personas,
            talks=(),
            think_s=1.0,
            connects_to=stage.link.port,
        ),
        role="seeder",
        take=lambda _: None,
        log=folder / "seeder.log",
    )
    try:
        said = client.tell(f"seed {seconds}", 3 * seconds)
    finally:
        client.end()
        key_file.unlink()
    if said != "True":
        raise NotSeededError(
            f"nothing could be read back within {seconds:.0f} s; see {client.log.name}."
            " Is extraction working on that server?"
        )
