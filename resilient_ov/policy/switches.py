"""What an operator has switched: one immutable snapshot, and the text of the file that carries it.

No I/O and no clock here: times come in, the file is read and written by an adapter.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeGuard

from resilient_ov.policy.rules import OPERATION_GROUPS, Group


class Mode(StrEnum):
    """Modes of a group; values of ``openviking_switch_state{mode}``."""

    NORMAL = "normal"
    SHADOW = "shadow"
    """What holds, breakers and limits would refuse is counted, and sent all the same."""
    FORCED_OPEN = "forced_open"
    """Everything is refused; hand-overs wait."""
    FORCED_CLOSED = "forced_closed"
    """Breakers and holds are ignored; deadline, limits and retry budget stay."""
    RETRIES_OFF = "retries_off"
    """One attempt a call."""
    DISABLED = "disabled"
    """Memory is off; only for all groups together."""


ALIASES: Mapping[str, tuple[Group, ...]] = MappingProxyType(
    {
        "recall": (Group.RECALL,),
        "append": (Group.APPEND,),
        "commit": (Group.COMMIT,),
        "session": (Group.SESSION,),
        "read": (Group.RECALL,),
        "write": (Group.SESSION, Group.APPEND, Group.COMMIT),
        "all": OPERATION_GROUPS,
    }
)
"""The names a switch accepts, and the groups each stands for."""

_SCHEMA_VERSION = 1
_LONGEST_TEXT_CHARS = 65_536
_LAST_WALL_S = 253_402_300_800  # the year 10000


class SwitchError(ValueError):
    """A switch that cannot be set, or a text that is no switch file; names what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One group's mode. ``until_s`` (monotonic) None = until it is switched again."""

    mode: Mode
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Switches:
    """The snapshot: groups that are not normal. Safe to share between threads.

    There is one snapshot at a time: who sets it last, in code or by the file, has set it whole.
    """

    by_group: Mapping[Group, Switch]

    def mode(self, group: Group, now_s: float) -> Mode:
        """Return the group's mode at this moment."""
        switch = self.by_group.get(group)
        if switch is None or (switch.until_s is not None and now_s >= switch.until_s):
            return Mode.NORMAL
        return switch.mode

    def until_s(self, group: Group) -> float | None:
        """Return when the group's mode ends by itself; None = never, or it is normal."""
        switch = self.by_group.get(group)
        return None if switch is None else switch.until_s

    def disabled(self, now_s: float) -> bool:
        """Tell whether memory is off as a whole."""
        return all(self.mode(group, now_s) is Mode.DISABLED for group in OPERATION_GROUPS)

    def switched(
        self, name: str, mode: Mode, *, now_s: float, for_s: float | None = None
    ) -> "Switches":
        """Return the snapshot with one more switch; ``name`` is one of `ALIASES`.

        Raises:
            SwitchError: unknown name; ``for_s`` is not a positive number; ``disabled`` for less
                than all; one group while all are disabled.
        """
        groups = ALIASES.get(name)
        if groups is None:
            raise SwitchError(f"unknown group {name!r}: use one of {', '.join(ALIASES)}")
        if for_s is not None and not (math.isfinite(for_s) and for_s > 0):
            raise SwitchError(f"a switch lasts a positive number of seconds, not {for_s}")
        if name != "all" and mode is Mode.DISABLED:
            raise SwitchError(
                f"disabled is for all groups together, not for {name}: use forced_open, or all"
            )
        if name != "all" and self.disabled(now_s):
            raise SwitchError(f"memory is disabled: switch all to normal before {name}")
        switch = Switch(mode=mode, until_s=None if for_s is None else now_s + for_s)
        kept = {**self.by_group, **dict.fromkeys(groups, switch)}
        return _snapshot(kept, now_s)


def _snapshot(by_group: Mapping[Group, Switch], now_s: float) -> Switches:
    return Switches(
        MappingProxyType(
            {
                group: switch
                for group, switch in by_group.items()
                if switch.mode is not Mode.NORMAL
                and (switch.until_s is None or switch.until_s > now_s)
            }
        )
    )


NOTHING_SWITCHED = Switches(MappingProxyType({}))


def format_switches(switches: Switches, *, now_s: float, wall_s: float) -> str:
    """Return the text of the switch file.

    Ends are written as wall time (seconds since 1970), because each process has its own monotonic
    clock: ``now_s`` and ``wall_s`` are readings of both at the same moment.
    """
    entries = {
        group.value: {
            "mode": switch.mode.value,
            "until": None if switch.until_s is None else wall_s + (switch.until_s - now_s),
        }
        for group, switch in sorted(_snapshot(switches.by_group, now_s).by_group.items())
    }
    return json.dumps({"schema_version": _SCHEMA_VERSION, "switches": entries}, indent=2) + "\n"


def parse_switches(text: str, *, now_s: float, wall_s: float) -> Switches:
    """Read the text of the switch file; what has ended is left out.

    Raises:
        SwitchError: anything unexpected, so that the caller keeps the snapshot it has.
    """
    if len(text) > _LONGEST_TEXT_CHARS:
        raise SwitchError(f"switch file is longer than {_LONGEST_TEXT_CHARS} characters")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise SwitchError("switch file is not JSON") from None
    if not _is_table(raw) or raw.get("schema_version") != _SCHEMA_VERSION:
        raise SwitchError(f"switch file does not have schema_version {_SCHEMA_VERSION}")
    entries = raw.get("switches")
    if not _is_table(entries):
        raise SwitchError("switch file has no table of switches")
    found = {_group(name): _switch(entry, now_s, wall_s) for name, entry in entries.items()}
    disabled = [group for group, switch in found.items() if switch.mode is Mode.DISABLED]
    if disabled and len(disabled) < len(OPERATION_GROUPS):
        raise SwitchError("switch file disables some groups: disabled is for all of them")
    return _snapshot(found, now_s)


def _is_table(raw: object) -> TypeGuard[dict[str, object]]:
    return isinstance(raw, dict)


def _group(name: str) -> Group:
    for group in OPERATION_GROUPS:
        if name == group.value:
            return group
    raise SwitchError(f"switch file names an unknown group: allowed are {_words(OPERATION_GROUPS)}")


def _mode(raw: object) -> Mode:
    for mode in Mode:
        if raw == mode.value:
            return mode
    raise SwitchError(f"switch file has an unknown mode: allowed are {_words(Mode)}")


def _switch(raw: object, now_s: float, wall_s: float) -> Switch:
    if not _is_table(raw):
        raise SwitchError("switch file has a group that is no table of mode and until")
    mode, until = _mode(raw.get("mode")), raw.get("until")
    if until is None:
        return Switch(mode=mode)
    if (
        isinstance(until, bool)
        or not isinstance(until, int | float)
        or not 0 <= until < _LAST_WALL_S
    ):
        raise SwitchError("switch file has an end that is not a time in seconds since 1970")
    return Switch(mode=mode, until_s=now_s + (until - wall_s))


def _words(values: Iterable[StrEnum]) -> str:
    return ", ".join(value.value for value in values)
