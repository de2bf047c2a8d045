"""Commands that other packages add through the entry-point group `resilient_ov.commands`.

Rule: a plug-in is imported only when it is called or listed, and one that cannot be imported
costs one line. An entry point names a `typer.Typer`; its name is the command's.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from resilient_ov_manager.terminal import CommandError

GROUP = "resilient_ov.commands"


@cache
def plugin_names() -> tuple[str, ...]:
    """Return the names of all plug-in commands, sorted; imports none of them."""
    return tuple(sorted({found.name for found in entry_points(group=GROUP)}))


def plugin_command(name: str) -> Any:
    """Return a plug-in's command, or one in its place that says why it cannot be used."""
    found = next(iter(entry_points(group=GROUP, name=name)))
    try:
        app = found.load()
    # A module may do anything while it is imported, leaving the process included.
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told in one line
        return _unusable(found, f"{type(error).__name__}: {_first_line(error)}")
    if not isinstance(app, typer.Typer):
        return _unusable(found, f"{found.value} is no typer.Typer")
    return _command(app, name)


def _unusable(found: EntryPoint, problem: str) -> Any:
    package = "an unknown package" if found.dist is None else found.dist.name
    app = typer.Typer()

    # Every option is accepted, because none of them is known.
    @app.command(
        help=f"Not usable: {problem}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def tell() -> None:
        raise CommandError(
            f"the command {found.name!r} of {package} cannot be loaded ({problem})."
            " Install what is missing, or remove that package; the other commands work"
        )

    return _command(app, found.name)


def _command(app: typer.Typer, name: str) -> Any:
    command = typer.main.get_command(app)
    command.name = name
    return command


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")
