"""The order in which a person is erased.

Rule: the state is marked first and last, so that a gateway that goes on meanwhile sends nothing
old again; a run that dies anywhere is finished by the next, because each step looks at what is
there and not at what an earlier run did.

What waits in the memory of a gateway is dropped by that gateway, which reads the mark when it
tries next: under the session's lock, so nothing of it is on its way then. What comes while the
gateways drop may be dropped too; nothing that comes afterwards is, because the last mark takes
the order back.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from resilient_ov_manager.purging.local_side import LocalSide
from resilient_ov_manager.purging.server_side import ServerSide
from resilient_ov_manager.terminal import CommandError, ExitCode

_TASKS_END_S: Final = 120.0
_POLL_S: Final = 0.5
_ROUNDS: Final = 5
_DROPPED_S: Final = 90.0
_STATUS_LATE_S: Final = 2.5
"""Longer than a gateway takes to say that something waits."""


@dataclass(slots=True)
class Erased:
    """What was removed; counts of what was there when it was looked at first."""

    sessions: int = 0
    tasks: int = 0
    memories: int = 0
    states: int = 0
    held: int = 0
    """Sessions of which gateways dropped messages."""


def erase(
    server: ServerSide,
    local: LocalSide,
    user: str,
    *,
    forget: bool,
    settle_s: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Erased:
    """Erase a person and look again until nothing is left.

    ``settle_s`` = how long a batch in doubt may take to arrive.

    Raises:
        CommandError: the server or the state cannot be used, or something comes back each time;
            what is left is erased by the next run.

    """
    erased = Erased()
    known = local.sessions_of(user)
    erased.states = len(known)
    doubt = False
    for session in set(known) - local.held(user).keys():
        doubt = local.mark(session) or doubt
    doubt = _dropped(local, user, erased, sleep, now) or doubt
    _empty(server, erased, sleep, now)
    if doubt:
        sleep(settle_s)
        _empty(server, erased, sleep, now)
    for session in local.sessions_of(user):
        if forget:
            local.forget(session)
        else:
            local.mark(session)
    return erased


def _dropped(
    local: LocalSide,
    user: str,
    erased: Erased,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> bool:
    """Have the gateways drop what waits; return whether a batch was in doubt."""
    until_s = now() + _DROPPED_S
    quiet_s: float | None = None
    dropped: set[str] = set()
    doubt = False
    while local.gateways():
        held = local.held(user)
        for session, one in held.items():
            doubt = local.have_dropped(user, session, one) or doubt
        dropped |= held.keys()
        if held and now() >= until_s:
            raise CommandError(
                f"messages of {len(held)} sessions still wait in gateways, which drop them when"
                " they try them next. Run the same command again later",
                ExitCode.NOT_USABLE,
            )
        if held:
            quiet_s = None
        elif quiet_s is None:
            quiet_s = now()
        elif now() - quiet_s >= _STATUS_LATE_S:
            break
        sleep(_POLL_S)
    erased.held = len(dropped)
    return doubt


def _empty(
    server: ServerSide,
    erased: Erased,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> None:
    """Delete on the server until nothing is left."""
    for _ in range(_ROUNDS):
        sessions, memories = server.sessions(), server.memories()
        if not sessions and not memories:
            return
        erased.sessions += len(sessions)
        erased.memories += memories
        for session in sessions:
            # A task that ends after its session was deleted would bring the session back.
            erased.tasks += _end_tasks(server, session, sleep, now)
            server.delete_session(session)
        if memories:
            server.delete_memories()
    raise CommandError(
        "sessions or memories of this user keep coming back: a gateway still writes for them."
        " Stop it, or lock the user out of DeerFlow, and run the same command again",
        ExitCode.NOT_USABLE,
    )


def _end_tasks(
    server: ServerSide,
    session: str,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> int:
    """Cancel the session's tasks and wait for their end; return how many there were."""
    first = tasks = server.open_tasks(session)
    until_s = now() + _TASKS_END_S
    for task in tasks:
        server.cancel(task)
    while tasks := server.open_tasks(session):
        if now() >= until_s:
            raise CommandError(
                f"{len(tasks)} extraction tasks did not end within {_TASKS_END_S:.0f} s."
                " Run the same command again later",
                ExitCode.NOT_USABLE,
            )
        sleep(_POLL_S)
    return len(first)
