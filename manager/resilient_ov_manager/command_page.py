"""The page of all commands, made of their own help. `python -m resilient_ov_manager.command_page`.

Rule: says nothing of its own, so it cannot differ from what the commands do.
"""

import os
import subprocess
import sys
from typing import Final

COMMANDS: Final = (
    (),
    ("check",),
    ("recall",),
    ("purge",),
    ("state", "show"),
    ("state", "reset"),
    ("status",),
    ("switch",),
    ("identity",),
    ("serve",),
    ("demo",),
)
_WIDTH: Final = "96"
_OPENING: Final = """\
<!-- made by: python -m resilient_ov_manager.command_page -->
# Commands

What each command prints with `--help`. `chaos` and `dashboards` come with their extras.
"""


def command_page() -> str:
    """Return the page; runs each command once."""
    parts = [_OPENING]
    for words in COMMANDS:
        title = " ".join(("resilient-ov", *words))
        parts.append(f"## {title}\n\n```text\n{_help(words)}\n```\n")
    return "\n".join(parts)


def _help(words: tuple[str, ...]) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    ended = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "resilient_ov_manager.cli", *words, "--help"],
        env={**environ, "COLUMNS": _WIDTH, "TERMINAL_WIDTH": _WIDTH, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in ended.stdout.strip("\n").splitlines())


def main() -> None:
    """Print the page."""
    sys.stdout.write(command_page())


if __name__ == "__main__":
    main()
