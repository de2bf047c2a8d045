"""What all commands share: exit codes, the way to end with an error, the two consoles.

Rule: nothing is loaded for drawing before something is drawn, so that `--help` stays quick.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class ExitCode(IntEnum):
    """How a command ends; the same numbers mean the same in every command."""

    OK = 0
    NOT_USABLE = 1
    """The server is not usable, or a command found its own check failed."""
    INVALID = 2
    """What was given (option, file, environment) cannot be used."""
    POLICY = 3
    """The account's namespace policy on the server is not the configured one."""
    STORAGE = 4
    """The storage folder cannot be written, or its locks do not lock."""


class CommandError(Exception):
    """Ends a command with a sentence for its user; no traceback is shown.

    The sentence says what is wrong and what to do next, and never holds a key.
    """

    def __init__(self, text: str, code: ExitCode = ExitCode.INVALID) -> None:
        super().__init__(text)
        self.code = code


def out() -> "Console":
    """Return the console of the result."""
    from rich.console import Console

    return Console(highlight=False)


def err() -> "Console":
    """Return the console of notices and errors."""
    from rich.console import Console

    return Console(highlight=False, stderr=True)


def tell_error(text: str) -> None:
    """Print an error; its text is shown as it is, whatever it holds."""
    from rich.text import Text

    err().print(Text.assemble(("Error: ", "bold red"), text), soft_wrap=True)


def require_extra(extra: str, *modules: str) -> None:
    """Make sure that an optional part of the distribution is installed.

    Raises:
        CommandError: one of the modules is missing; names the extra to install.

    """
    from importlib.util import find_spec

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise CommandError(
            f"this command needs {' and '.join(missing)}, which a plain install leaves out."
            f" Install the extra: pip install 'resilient-ov[{extra}]'"
        )
