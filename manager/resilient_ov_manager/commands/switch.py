"""`resilient-ov switch`: switches memory off, on, or into shadow, in every running gateway.

Writes one file below storage_path; each process sees it within a second. No restart.
"""

import re
from pathlib import Path
from typing import Annotated

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def switch(
    group: Annotated[
        str,
        typer.Argument(
            help="recall, append, commit, session; read (= recall), write (= the other three), all."
        ),
    ],
    mode: Annotated[
        str,
        typer.Argument(
            help="normal; shadow (count what would be refused, refuse nothing); forced_open"
            " (refuse, hand-overs wait); forced_closed (ignore breakers and holds); retries_off;"
            " and for all: disabled (memory is off)."
        ),
    ],
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="How long, such as 90s, 30m, 2h or 1d."),
    ] = None,
    storage: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The gateway's storage_path.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="DeerFlow's config.yaml or a bare backend_config."),
    ] = None,
) -> None:
    """Switch a group of memory operations in every process that shares the storage.

    To take memory out of the way at once: `resilient-ov switch all disabled --for 1h`. Without
    --for the switch stands until `resilient-ov switch all normal`, and each process warns hourly.

    Exit codes: 0 = written, 2 = a wrong argument, 4 = the storage folder.
    """
    from resilient_ov.adapters.clock import SystemClock
    from resilient_ov.adapters.switch_file import SwitchFile
    from resilient_ov.policy.switches import Mode, SwitchError
    from resilient_ov_manager.commands.place import storage_of

    clock = SystemClock()
    file = SwitchFile(storage_of(storage, config), clock)
    if mode not in list(Mode):
        raise CommandError(f"mode {mode!r} is not one of {', '.join(Mode)}")
    try:
        try:
            before = file.current()
        except SwitchError as error:
            raise CommandError(
                f"the switch file cannot be understood ({error}); remove it, and all is normal"
            ) from None
        after = before.switched(group, Mode(mode), now_s=clock.monotonic_s(), for_s=_seconds(for_))
        file.write(after)
    except SwitchError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(
            f"the switch file cannot be written: {error.strerror}", ExitCode.STORAGE
        ) from None
    console = out()
    until = "" if for_ is None or mode == Mode.NORMAL else f" for {for_}"
    console.print(f"{group} is {mode}{until}; every running process follows within a second.")
    if for_ is None and mode != Mode.NORMAL:
        console.print(f"It stays so until: resilient-ov switch {group} normal", style="yellow")


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise CommandError(f"--for {text}: give a number and s, m, h or d, such as 30m")
    return float(found.group(1)) * _UNITS_S[found.group(2)]
