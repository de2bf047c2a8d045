"""`resilient-ov demo`: the main job on a server that dies in the middle, in under a minute."""

from typing import Annotated

import typer

from resilient_ov.settings import ServerProfile
from resilient_ov_manager.terminal import ExitCode, out, require_extra


def demo(
    profile: Annotated[
        ServerProfile, typer.Option(help="Server contract to show it on.")
    ] = ServerProfile.V0_5,
) -> None:
    """Show the whole thing: remember, recall, keep apart, lose the server, get it back.

    Starts an embedded server on a free port with a folder of its own, talks to it as DeerFlow
    would, kills it, starts it again, and reads back what it holds. Takes about half a minute and
    leaves nothing behind. With --profile namespace the server shares sessions in an account whose
    policy says what the agents of a user share; the checks are the same.

    Exit codes:

    - 0: every check of the demo held
    - 1: one did not, or the server did not start
    - 2: the server's packages are not installed
    """
    require_extra("server", "starlette", "uvicorn")

    from resilient_ov_manager.demo.play import play
    from resilient_ov_manager.demo.stage import Stage

    if not play(Stage(out()), profile):
        raise typer.Exit(ExitCode.NOT_USABLE)
