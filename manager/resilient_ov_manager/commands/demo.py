"""`resilient-ov demo`: the main job on a server that dies in the middle, in under a minute."""

import typer

from resilient_ov_manager.terminal import ExitCode, out, require_extra


def demo() -> None:
    """Show the whole thing: remember, recall, keep apart, lose the server, get it back.

    Starts an embedded server on a free port with a folder of its own, talks to it as DeerFlow
    would, kills it, starts it again, and reads back what it holds. Takes about half a minute and
    leaves nothing behind.

    Exit codes:

    - 0: every check of the demo held
    - 1: one did not, or the server did not start
    - 2: the server's packages are not installed
    """
    require_extra("server", "starlette", "uvicorn")

    from resilient_ov_manager.demo.play import play
    from resilient_ov_manager.demo.stage import Stage

    if not play(Stage(out())):
        raise typer.Exit(ExitCode.NOT_USABLE)
