"""`resilient-ov chaos`: break the network and the processes on purpose, and see what happens.

Rule: nothing heavy is imported before a command runs.
"""

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out

if TYPE_CHECKING:
    from rich.console import Console

    from resilient_ov_chaos.suite import Aborted, Played, Skipped
    from resilient_ov_chaos.targets.target import Target

app = typer.Typer(
    no_args_is_help=True,
    help="Break the network, the server and the product on purpose, and check what it does.",
)


class Pace(StrEnum):
    """How fast a run goes."""

    SHIPPED = "shipped"
    QUICK = "quick"


@app.command("run")
def run(
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Play only this one; may be given again."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A server to use: http://host:port. Without it an embedded one is started.",
        ),
    ] = None,
    hooks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="How to kill, freeze or break that server: TOML, a table with the commands"
            " on and off for each of kill, freeze, embedder. What is missing is skipped.",
        ),
    ] = None,
    account: Annotated[
        str, typer.Option(help="Account for the traffic on that server.")
    ] = "resilient-ov-chaos",
    api_key_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with that server's root key.")
    ] = "OPENVIKING_API_KEY",
    toxiproxy: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A Toxiproxy server; else TOXIPROXY_URL, docker, or the binary, built once.",
        ),
    ] = None,
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="New folder for the report.")
    ] = Path("chaos-out"),
    seed: Annotated[
        int | None, typer.Option(help="Seed of the traffic; printed, and new each time.")
    ] = None,
    pace: Annotated[
        Pace, typer.Option(help="The shipped settings, or all times about four times as short.")
    ] = Pace.SHIPPED,
    *,
    mutants: Annotated[
        bool,
        typer.Option("--mutants", help="Turn ten protections off, and see the checkers notice."),
    ] = False,
) -> None:
    """Play every fault against a server through Toxiproxy, and check what the agent saw.

    Users, threads and messages are made up; on a shared server they stay behind in an account of
    their own. The report goes to --out: chaos.junit.xml, chaos-report.md, journal.json,
    history.ndjson and a picture of each scenario.

    Exit codes: 0 = all green, 1 = something is red or proves nothing, 2 = it could not be run.
    """
    from resilient_ov_chaos import runner
    from resilient_ov_chaos.faults.catalogue import FAULTS
    from resilient_ov_chaos.knobs import PACES
    from resilient_ov_chaos.suite import NotSeededError
    from resilient_ov_chaos.toxiproxy.link import ToxiproxyError
    from resilient_ov_chaos.toxiproxy.server import ToolMissingError

    unknown = sorted(set(scenario or ()) - set(FAULTS))
    if unknown:
        raise CommandError(
            f"no such scenario: {', '.join(unknown)}; 'resilient-ov chaos list' names them"
        )
    if out_dir.exists() and any(out_dir.iterdir()):
        raise CommandError(f"{out_dir} is not empty; name another folder with --out")
    faults = [FAULTS[name] for name in scenario] if scenario else list(FAULTS.values())
    seed = runner.fresh_seed() if seed is None else seed
    console = out()
    console.print(f"seed {seed}, report in {out_dir}")
    with ExitStack() as held:
        progress = held.enter_context(_Progress(console))
        try:
            used = held.enter_context(_target(target, hooks, account, api_key_env, out_dir))
            if mutants:
                green = _mutants(used, out_dir, seed, toxiproxy, progress)
            else:
                wanted = runner.Wanted(
                    target=used,
                    faults=faults,
                    knobs=PACES[pace.value],
                    out=out_dir,
                    seed=seed,
                    toxiproxy_url=toxiproxy,
                )
                outcome = runner.run(wanted, progress)
                green = outcome.green
        except (ToolMissingError, NotSeededError, ToxiproxyError) as error:
            raise CommandError(str(error)) from None
    if not green:
        raise typer.Exit(ExitCode.NOT_USABLE)


@app.command("list")
def list_faults() -> None:
    """Name every scenario and what is expected of it."""
    from rich.table import Table

    from resilient_ov_chaos.faults.catalogue import FAULTS, SHORT

    table = Table("scenario", "what is expected", "short run")
    for fault in FAULTS.values():
        table.add_row(fault.name, fault.expectation.told, "yes" if fault.name in SHORT else "")
    out().print(table)


@app.command("judge")
def judge(
    folder: Annotated[Path, typer.Argument(help="A scenario's folder inside a report.")],
) -> None:
    """Apply the checkers again to a saved scenario.

    Exit codes: 0 = green, 1 = something is red or proves nothing, 2 = the folder cannot be read.
    """
    from resilient_ov_chaos.checkers.catalogue import judge as apply
    from resilient_ov_chaos.saved import load_run
    from resilient_ov_chaos.verdict import Status, worst

    try:
        saved = load_run(folder)
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"{folder} is no saved scenario: {error}") from None
    findings = apply(saved)
    console = out()
    for finding in findings:
        if finding.status is not Status.GREEN:
            where = finding.call or "process"
            console.print(f"{finding.status} {finding.checker} {where}: {finding.text}")
    verdict = worst(each.status for each in findings)
    console.print(f"{folder.name}: {verdict}")
    if verdict is not Status.GREEN:
        raise typer.Exit(ExitCode.NOT_USABLE)


def _target(
    url: str | None, hooks: Path | None, account: str, key_variable: str, out_dir: Path
) -> "AbstractContextManager[Target]":
    from resilient_ov_chaos.targets.embedded import embedded
    from resilient_ov_chaos.targets.remote import RemoteTarget, TargetError, read_hooks

    if url is None:
        if hooks is not None:
            raise CommandError("--hooks speaks of a server: name it with --target")
        return embedded(out_dir / "server")
    key = os.environ.get(key_variable)
    if not key:
        raise CommandError(
            f"{key_variable} is not set: the root key is needed to read back what was stored"
        )
    try:
        known = {} if hooks is None else read_hooks(hooks)
        return nullcontext(RemoteTarget(url, key=key, account=account, hooks=known))
    except TargetError as error:
        raise CommandError(str(error)) from None


def _mutants(
    target: "Target", out_dir: Path, seed: int, toxiproxy: str | None, progress: "_Progress"
) -> bool:
    from resilient_ov_chaos.knobs import QUICK
    from resilient_ov_chaos.mutants import MUTANTS, Killed, kill
    from resilient_ov_chaos.suite import suite

    green = True
    with suite(
        target, QUICK, out_dir, seed=seed, toxiproxy_url=toxiproxy, say=progress.says
    ) as stage:
        for mutant in MUTANTS.values():
            killed = kill(stage, mutant)
            if not isinstance(killed, Killed):
                progress.line(f"[yellow]skipped[/] {mutant.name}: {killed.reason}")
            elif killed.problem is None:
                progress.line(f"[green]seen[/] without {mutant.name}: {mutant.checker} is red")
            else:
                green = False
                progress.line(f"[red]ERROR[/] without {mutant.name}: {killed.problem}")
    return green


class _Progress:
    """Shows where a run stands: a line that moves on a terminal, plain lines elsewhere."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._status: Any = console.status("") if console.is_terminal else None

    def __enter__(self) -> "_Progress":
        if self._status is not None:
            self._status.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        if self._status is not None:
            self._status.__exit__(*ended)

    def says(self, line: str) -> None:
        """Show a phase."""
        if self._status is not None:
            self._status.update(line)

    def played(self, scenario: "Played | Skipped | Aborted") -> None:
        """Show how a scenario ended."""
        from resilient_ov_chaos.outcome import cases
        from resilient_ov_chaos.suite import Played

        if not isinstance(scenario, Played):
            word = type(scenario).__name__.lower()
            self.line(f"[yellow]{word}[/] {scenario.fault.name}: {scenario.reason}")
            return
        color = {"green": "green", "unknown": "yellow", "red": "red"}[scenario.status.value]
        name = scenario.fault.name
        self.line(f"[{color}]{scenario.status}[/] {name} ({scenario.took_s:.0f} s)")
        for case in cases(scenario):
            for problem in case.problems:
                self.line(f"    {case.operation}: {problem}")

    def line(self, text: str) -> None:
        """Print a line for good."""
        self._console.print(text, soft_wrap=True)
