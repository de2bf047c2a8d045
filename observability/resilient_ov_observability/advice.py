"""Says in plain words what is wrong with memory, why, and what to do next.

Rule: pure; fixed sentences with closed words and numbers in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from resilient_ov.events import (
    BreakerState,
    Group,
    HoldKind,
    StateErrorReason,
    SwitchMode,
)

_WORKING_MODES = frozenset({SwitchMode.NORMAL, SwitchMode.SHADOW, SwitchMode.RETRIES_OFF})

_MODES = {
    SwitchMode.SHADOW: "decisions of the policy are counted but not enforced",
    SwitchMode.FORCED_OPEN: "its requests are refused and what is to be written waits",
    SwitchMode.FORCED_CLOSED: "its breaker and holds are ignored",
    SwitchMode.RETRIES_OFF: "nothing is tried twice",
    SwitchMode.DISABLED: "memory is off: nothing is read, and new messages are dropped",
}

_CHECK_SERVER = (
    "Look at the OpenViking server and the way to it (`resilient-ov check`); memory comes back by "
    "itself when the server does."
)
_CHECK_KEY = (
    "Look at the API key and its account (`resilient-ov check`); a changed key is taken up "
    "without a restart."
)

_STATE_ERRORS = {
    StateErrorReason.FOREIGN_WRITER: (
        "Somebody else writes into our sessions.",
        "Let only one host write.",
    ),
    StateErrorReason.NEWER_SCHEMA: (
        "State of a newer version was found and left untouched.",
        "Run the newer version, or reset that session (`resilient-ov state reset`).",
    ),
    StateErrorReason.SERVER_CHANGED: (
        "State belongs to another server; it is compared with this one before the next write.",
        "Nothing, if base_url was changed on purpose.",
    ),
    StateErrorReason.UNREADABLE: (
        "A state file could not be read; it was kept aside and rebuilt from the server.",
        "Look at the disk if it happens again.",
    ),
    StateErrorReason.LOCK_MISSING: (
        "File locks do not work where the state lies, so only one process may write.",
        "Run one worker, or move storage_path to a file system with working locks.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing worth knowing; ``healthy`` False = memory does not do its work because of it."""

    why: str
    next: str
    healthy: bool = False


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is known of one process's memory. Durations are left-over seconds."""

    up: bool | None = None
    breakers: dict[Group, BreakerState] = field(default_factory=dict[Group, BreakerState])
    holds: dict[tuple[Group, HoldKind], float] = field(
        default_factory=dict[tuple[Group, HoldKind], float]
    )
    switches: dict[Group, SwitchMode] = field(default_factory=dict[Group, SwitchMode])
    persistent: bool = True
    writes: int = 0
    in_doubt: int = 0
    dropped: int = 0
    state_errors: frozenset[StateErrorReason] = frozenset()


def is_healthy(facts: Facts) -> bool | None:
    """Tell whether memory does its work; None before anything is known."""
    if any(not problem.healthy for problem in problems(facts)):
        return False
    return facts.up


def problems(facts: Facts) -> list[Problem]:
    """Return everything worth knowing; what keeps memory from its work comes first."""
    kinds = (_of_switches, _of_holds, _of_breakers, _of_state, _of_messages)
    found = [problem for kind in kinds for problem in kind(facts)]
    return sorted(found, key=lambda problem: problem.healthy)


def _of_switches(facts: Facts) -> Iterator[Problem]:
    by_mode: dict[SwitchMode, list[str]] = {}
    for group, mode in facts.switches.items():
        if mode is not SwitchMode.NORMAL:
            by_mode.setdefault(mode, []).append(group.value)
    for mode, groups in by_mode.items():
        yield Problem(
            why=f"The switch of {', '.join(groups)} stands on {mode}: {_MODES[mode]}.",
            next="Set it back with `resilient-ov switch GROUP normal` when it is no longer wanted.",
            healthy=mode in _WORKING_MODES or mode is SwitchMode.FORCED_CLOSED,
        )


def _of_holds(facts: Facts) -> Iterator[Problem]:
    for (group, kind), left_s in facts.holds.items():
        if kind is HoldKind.AUTH:
            yield Problem(
                why=f"The server refuses our key or identity; the next try is in {left_s:.0f} s.",
                next=_CHECK_KEY,
            )
        else:
            yield Problem(
                why=f"The server asked {group} to wait; {left_s:.0f} s are left.",
                next="Wait; if it goes on, look at the rate limits of the server and its models.",
            )


def _of_breakers(facts: Facts) -> Iterator[Problem]:
    opened = [group for group, state in facts.breakers.items() if state is not BreakerState.CLOSED]
    for group in opened:
        if group is Group.HOST:
            yield Problem(why="The server cannot be reached.", next=_CHECK_SERVER)
        else:
            yield Problem(
                why=f"The breaker of {group} is {facts.breakers[group]}: too many of its requests "
                "failed.",
                next=_CHECK_SERVER,
            )
    if facts.up is False and not opened and not facts.holds:
        yield Problem(why="The last three attempts failed.", next=_CHECK_SERVER)


def _of_state(facts: Facts) -> Iterator[Problem]:
    if not facts.persistent:
        yield Problem(
            why="State cannot be written, so nothing is sent and what is to be written waits.",
            next="Free space or mend the rights of storage_path (`resilient-ov check` names it).",
        )
    for reason in StateErrorReason:
        if reason in facts.state_errors and reason in _STATE_ERRORS:
            why, then = _STATE_ERRORS[reason]
            yield Problem(why=why, next=then, healthy=True)


def _of_messages(facts: Facts) -> Iterator[Problem]:
    if facts.in_doubt:
        yield Problem(
            why=f"Batches whose outcome is unknown: {facts.in_doubt}.",
            next="Nothing; they are settled by reading back from the server.",
            healthy=True,
        )
    if facts.writes:
        yield Problem(
            why=f"Messages that wait for delivery: {facts.writes}.",
            next="Nothing; do not kill the process if it can be helped.",
            healthy=True,
        )
    if facts.dropped:
        yield Problem(
            why=f"Messages given up since the start of the process: {facts.dropped}.",
            next="See `dropped` for the reasons.",
            healthy=True,
        )
