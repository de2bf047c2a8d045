"""The order in which a person is erased.

Rule: the state is marked first and last, so that a gateway that goes on meanwhile sends nothing
old again; a run that dies anywhere is finished by the next, because each step looks at what is
there and not at what an earlier run did.
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


@dataclass(slots=True)
class Erased:
    """What was removed; counts of what was there when it was looked at first."""

    sessions: int = 0
    tasks: int = 0
    memories: int = 0
    states: int = 0


def erase(
    server: ServerSide,
    local: LocalSide,
    user: str,
    *,
    forget: bool,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Erased:
    """Erase a person and look again until nothing is left.

    Raises:
        CommandError: the server or the state cannot be used, or something comes back each time;
            what is left is erased by the next run.

    """
    erased = Erased()
    known = local.sessions_of(user)
    erased.states = len(known)
    for session in known:
        local.mark(session)
    for _ in range(_ROUNDS):
        sessions, memories = server.sessions(), server.memories()
        if not sessions and not memories:
            break
        erased.sessions += len(sessions)
        erased.memories += memories
        for session in sessions:
            # A task that ends after its session was deleted would bring the session back.
            erased.tasks += _end_tasks(server, session, sleep, now)
            server.delete_session(session)
        if memories:
            server.delete_memories()
    else:
        raise CommandError(
            "sessions or memories of this user keep coming back: a gateway still writes for them."
            " Stop it, or lock the user out of DeerFlow, and run the same command again",
            ExitCode.NOT_USABLE,
        )
    for session in local.sessions_of(user):
        if forget:
            local.forget(session)
        else:
            local.mark(session)
    return erased


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
