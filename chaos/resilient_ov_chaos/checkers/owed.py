"""Which messages the server owes the host at the end; shared by the checkers of writes.

Pure. Source: the definition of "lost" in the design of the write path, section 5.6.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from resilient_ov_chaos.history import Call, Event, History, Operation, ProcessEvent, Result

WRITES = (Call.ADD, Call.ADD_NOWAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What was accepted.

    Attributes:
        standing: mark -> how it was accepted by a process that had to deliver it.
        abandoned: process -> marks that only its memory held when it ended, as far as the host
            knows: nobody presented them again.

    """

    standing: Mapping[str, Call]
    abandoned: Mapping[int, frozenset[str]]


def accepted(history: History) -> tuple[Operation, ...]:
    """Return the writes that returned."""
    return tuple(each for each in history.calls(*WRITES) if each.result is Result.ACCEPTED)


def gone(history: History) -> frozenset[int]:
    """Return the processes that ended without saying that nothing is left."""
    killed = {e.process for e in history.of(ProcessEvent) if e.event is Event.KILLED}
    left = {f.process for f in history.calls(Call.FLUSH) if f.result is not Result.DRAINED}
    drained = {f.process for f in history.calls(Call.FLUSH) if f.result is Result.DRAINED}
    return frozenset(killed | (left - drained))


def owed(history: History) -> Owed:
    """Return what was accepted by processes that had to deliver it, and by those that could not."""
    ended = gone(history)
    standing: dict[str, Call] = {}
    for write in accepted(history):
        if write.process not in ended:
            for mark in write.presented:
                # An `add` is the stronger promise: the host presents its messages again.
                if write.call is Call.ADD or mark not in standing:
                    standing[mark] = write.call
    abandoned = {
        process: frozenset(
            mark
            for write in accepted(history)
            if write.process == process
            for mark in write.presented
            if mark not in standing
        )
        for process in ended
    }
    return Owed(standing=standing, abandoned=abandoned)
