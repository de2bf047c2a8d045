"""The command `resilient-ov`: its built-in commands, and those other packages add.

Rule: nothing heavy is imported here or at the top of a command's file; a command imports what it
needs when it runs. `--help` takes less than half a second.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from resilient_ov_manager.commands import (
    check,
    demo,
    identity,
    purge,
    recall,
    serve,
    state,
    status,
    switch,
)
from resilient_ov_manager.plugins import plugin_command, plugin_names
from resilient_ov_manager.terminal import CommandError, tell_error


class CommandGroup(TyperGroup):
    """Built-in commands first, then the plug-ins; a built-in name cannot be taken."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return every command's name in the order of the help page."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in plugin_names() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a plug-in is loaded here and not before."""
        own = super().get_command(ctx, cmd_name)
        if own is None and cmd_name in plugin_names():
            return plugin_command(cmd_name)
        return own

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what is its user's to mend is told in a sentence, without traceback."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            tell_error(str(error))
            raise typer.Exit(error.code) from None


# Local variables hold keys, so a traceback never shows them.
app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="markdown",
)


def _version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"resilient-ov {version('resilient-ov')}")
        raise typer.Exit


@app.callback()
def resilient_ov(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Memory for DeerFlow on an OpenViking server that stays healthy when the server does not.

    Exit codes of all commands:

    - 0: fine
    - 1: the server is not usable, or a check failed
    - 2: a wrong option, file or configuration
    - 3: the account's namespace policy is not the configured one
    - 4: the storage folder or its locks cannot be used
    """


app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("check")(check.check)
app.command("status")(status.status)
app.command("switch")(switch.switch)
app.command("recall")(recall.recall)
app.command("purge")(purge.purge)
app.add_typer(state.app, name="state")
app.command("identity")(identity.identity)


def main() -> None:
    """Run the command line; the entry point of the package."""
    app(prog_name="resilient-ov")


if __name__ == "__main__":
    main()
