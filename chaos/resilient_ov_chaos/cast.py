"""Who takes part in a run: personas, and their conversations in each process.

Pure.
"""

import random
from collections.abc import Sequence
from typing import Final

from resilient_ov_chaos.agent.job import Persona, Talk
from resilient_ov_chaos.history import Call, Colour, History
from resilient_ov_chaos.marks import RUN_CHARS, mark, seed_mark, thread_of

_PEOPLE: Final = (("alice", None), ("alice", "researcher"), ("bob", None))


def run_name(seed: int) -> str:
    """Return a run's name, from its seed: six hexadecimal characters."""
    return f"{random.Random(seed).getrandbits(4 * RUN_CHARS):0{RUN_CHARS}x}"


def personas(run: str) -> tuple[Persona, ...]:
    """Return two users, one of them with a custom agent."""
    return tuple(
        Persona(
            number=number,
            user=f"{name}-{run}@chaos.example",
            agent=agent,
            seed=seed_mark(run, number),
        )
        for number, (name, agent) in enumerate(_PEOPLE)
    )


def talks(run: str, of: Sequence[Persona], first: int) -> tuple[Talk, ...]:
    """Return two conversations for each persona, one of each colour, numbered from ``first``."""
    numbered = enumerate(((p, colour) for p in of for colour in Colour), start=first)
    return tuple(
        Talk(
            persona=persona.number,
            thread=thread_of(mark(run, persona.number, number, 0, "h")),
            number=number,
            colour=colour,
        )
        for number, (persona, colour) in numbered
    )


def resumed(before: Sequence[Talk], history: History) -> tuple[Talk, ...]:
    """Return the conversations as the host has checkpointed them, for a process that follows.

    The messages of a turn are in the checkpoint before they are handed over.
    """
    return tuple(_resumed(talk, history) for talk in before)


def _resumed(talk: Talk, history: History) -> Talk:
    writes = [
        each for each in history.calls(Call.ADD, Call.ADD_NOWAIT) if each.thread == talk.thread
    ]
    messages: tuple[str, ...] = talk.messages
    cut: set[str] = set()
    for write in writes:
        if write.call is Call.ADD:
            messages = write.presented
        else:
            cut.update(write.presented)
    known = [int(m[-5:-1]) for write in writes for m in write.presented]
    return Talk(
        persona=talk.persona,
        thread=talk.thread,
        number=talk.number,
        colour=talk.colour,
        messages=tuple(each for each in messages if each not in cut),
        next_turn=max(known, default=talk.next_turn - 1) + 1,
    )
