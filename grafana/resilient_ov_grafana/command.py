"""`resilient-ov dashboards`: puts dashboards, rules and their surroundings where they are used.

Rule: what is shipped is copied as it is; only other targets need the generator and its extra.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from resilient_ov_grafana.targets import Targets, TargetsError
from resilient_ov_manager.terminal import CommandError, ExitCode, out, require_extra

_DEFAULT = Targets()

app = typer.Typer(
    no_args_is_help=True,
    help="Grafana dashboards, Prometheus rules, Alertmanager and provisioning files.",
)


@app.callback()
def dashboards() -> None:
    """Keep `export` a command of its own."""


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made when missing.")],
    objective: Annotated[
        float, typer.Option(help="Share of recalls that must be answered.")
    ] = _DEFAULT.recall_objective,
    period: Annotated[
        int, typer.Option(metavar="DAYS", help="Length of the error budget.")
    ] = _DEFAULT.period_days,
    delivery: Annotated[
        float, typer.Option(metavar="SECONDS", help="A write is late after this.")
    ] = _DEFAULT.delivery_seconds,
    job: Annotated[str, typer.Option(help="Job name of the gateways' scrape.")] = _DEFAULT.job,
    grafana_url: Annotated[
        str, typer.Option(metavar="URL", help="Where alerts link to.")
    ] = _DEFAULT.grafana_url,
    runbook_url: Annotated[
        str, typer.Option(metavar="URL", help="Page of your copy of the runbook.")
    ] = _DEFAULT.runbook_url,
    webhook_url: Annotated[
        str, typer.Option(metavar="URL", help="Where Alertmanager sends notifications.")
    ] = _DEFAULT.webhook_url,
) -> None:
    """Write everything below DIR: dashboards/, prometheus/, alertmanager/, grafana/provisioning/.

    Files of the same names are replaced, others are left alone. Without options these are the
    files of this version; with options they are made anew, which needs the extra `dashboards`.

    Exit codes: 0 = written, 2 = a wrong option, 4 = DIR cannot be written.
    """
    try:
        targets = Targets(
            recall_objective=objective,
            period_days=period,
            delivery_seconds=delivery,
            job=job,
            grafana_url=grafana_url.rstrip("/"),
            runbook_url=runbook_url,
            webhook_url=webhook_url,
        )
    except TargetsError as error:
        raise CommandError(str(error)) from None
    made = shipped() if targets == _DEFAULT else _made(targets)
    try:
        for name, text in made.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{folder}: cannot be written ({error.strerror}). Name a folder that can",
            ExitCode.STORAGE,
        ) from None
    console = out()
    console.print(f"{len(made)} files below {folder}:", soft_wrap=True, markup=False)
    for name in sorted(made):
        console.print(f"  {name}", soft_wrap=True, markup=False)


def shipped() -> Mapping[str, str]:
    """Return the files of this version: path -> text."""
    folder = Path(__file__).parent / "shipped"
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _made(targets: Targets) -> Mapping[str, str]:
    require_extra("dashboards", "grafana_foundation_sdk")
    from resilient_ov_grafana.generate import files

    return files(targets)
