"""A server that runs somewhere: a real OpenViking, a staging server.

Rule: nothing is done to it that its hooks file does not say how to do. A hook is a shell command
of the operator's; it returns when what it does is done (a server that answers again, for one).
"""

import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from resilient_ov_chaos.targets.target import Ability

_HOOK_S: Final = 180.0


class TargetError(Exception):
    """The target cannot be used as it was given; the text says what to do."""


class HookError(OSError):
    """A hook did not do what it is for."""


class RemoteTarget:
    """A server at an address; implements ``Target``.

    Args:
        url: plain http with host and port; the network is broken between, which TLS would notice.
        key: its root key.
        account: account for the traffic; a trusted server needs none to exist.
        hooks: ability -> (command to begin, command to end).
        slow: whether extraction takes seconds.

    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        account: str,
        hooks: Mapping[Ability, tuple[str, str]],
        slow: bool = True,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise TargetError(
                "--target must look like http://host:1933: no TLS and no path, because a proxy"
                " that breaks connections stands in between"
            )
        self.name = f"http://{parts.hostname}:{parts.port or 80}"
        self.address = f"{parts.hostname}:{parts.port or 80}"
        self.key = key
        self.account = account
        self.slow = slow
        self._hooks = dict(hooks)

    def can(self, ability: Ability) -> bool:
        """Tell whether there is a hook for it."""
        return ability in self._hooks

    def do(self, ability: Ability, *, on: bool) -> None:
        """Run the hook.

        Raises:
            HookError: it failed or took too long.

        """
        begin, end = self._hooks[ability]
        command = begin if on else end
        try:
            subprocess.run(["/bin/sh", "-c", command], check=True, timeout=_HOOK_S)
        except (subprocess.SubprocessError, OSError) as error:
            word = "on" if on else "off"
            raise HookError(f"the hook {ability.value}.{word} failed: {error}") from error


def read_hooks(path: Path) -> dict[Ability, tuple[str, str]]:
    """Read a hooks file: one table for each ability, with the commands ``on`` and ``off``.

    Raises:
        TargetError: it cannot be read, or is not of that shape.

    """
    known = ", ".join(each.value for each in Ability)
    try:
        tables: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: {error}") from None
    hooks: dict[Ability, tuple[str, str]] = {}
    for name, table in tables.items():
        if name not in set(Ability):
            raise TargetError(f"{path}: {name!r} is no hook; there are: {known}")
        commands = cast("dict[str, object]", table) if isinstance(table, dict) else {}
        if set(commands) != {"on", "off"} or not all(
            isinstance(each, str) for each in commands.values()
        ):
            raise TargetError(f"{path}: [{name}] needs two commands, on and off, and no more")
        hooks[Ability(name)] = (str(commands["on"]), str(commands["off"]))
    return hooks
