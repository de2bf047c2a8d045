"""What is watched inside the product's process, from its edges: wire, breakers, loops, resources.

Rule: the product's own metrics are not used here. Wrapped are the places every attempt and every
move of a breaker goes through; nothing of what they do is changed.
"""

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.adapters.pybreaker_state import PybreakerMirror
from resilient_ov.domain.exchange import AddMessages, Answer, Command, FailureKind, Success
from resilient_ov.domain.ports import Attempt
from resilient_ov.operations import OPERATIONS
from resilient_ov.policy.breaker import Transition
from resilient_ov.policy.refusals import Change
from resilient_ov_chaos.agent.recorder import Recorder
from resilient_ov_chaos.history import (
    BreakerMoved,
    Connected,
    Loop,
    Resources,
    Sending,
    Stall,
    WireAttempt,
)
from resilient_ov_chaos.marks import marks_in

_BEAT_S = 0.005
_WORTH_TELLING_S = 0.01
_SYSTEM_CALLS = 8
_OURS = "resilient-ov"


def watch_wire(recorder: Recorder) -> None:
    """Record every attempt the product makes, in both colours."""
    sync_server: Any = HttpxMemoryServer
    async_server: Any = AsyncHttpxMemoryServer
    send: Callable[[Any, Attempt], Answer] = sync_server.send
    send_async: Callable[[Any, Attempt], Coroutine[Any, Any, Answer]] = async_server.send

    @functools.wraps(send)
    def watched(server: Any, attempt: Attempt) -> Answer:
        began_s = _tell_sending(recorder, attempt)
        try:
            answer = send(server, attempt)
        except BaseException as error:
            _tell_attempt(recorder, attempt, began_s, ok=False, outcome=type(error).__name__)
            raise
        _tell_answer(recorder, attempt, began_s, answer)
        return answer

    @functools.wraps(send_async)
    async def watched_async(server: Any, attempt: Attempt) -> Answer:
        began_s = _tell_sending(recorder, attempt)
        try:
            answer = await send_async(server, attempt)
        except BaseException as error:
            _tell_attempt(recorder, attempt, began_s, ok=False, outcome=type(error).__name__)
            raise
        _tell_answer(recorder, attempt, began_s, answer)
        return answer

    sync_server.send = watched
    async_server.send = watched_async


def _tell_sending(recorder: Recorder, attempt: Attempt) -> float:
    """Return when the attempt began."""
    began_s = time.monotonic()
    if carried := _carried(attempt.command):
        recorder.write(Sending(process=recorder.process, at_s=began_s, carried=carried))
    return began_s


def _tell_answer(recorder: Recorder, attempt: Attempt, began_s: float, answer: Answer) -> None:
    if isinstance(answer, Success):
        _tell_attempt(recorder, attempt, began_s, ok=True, outcome=str(answer.status))
        return
    nowhere = answer.kind is FailureKind.SATURATED
    outcome = "no_slot" if nowhere else str(answer.status or answer.kind.value)
    _tell_attempt(recorder, attempt, began_s, ok=False, outcome=outcome)


def _tell_attempt(
    recorder: Recorder, attempt: Attempt, began_s: float, *, ok: bool, outcome: str
) -> None:
    operation = attempt.command.operation
    group = OPERATIONS[operation].group
    request, _, number = attempt.request_id.partition("-a")
    recorder.write(
        WireAttempt(
            process=recorder.process,
            began_s=began_s,
            ended_s=time.monotonic(),
            operation=operation.value,
            group=None if group is None else group.value,
            request=request,
            attempt=int(number or 1),
            ok=ok,
            outcome=outcome,
            carried=_carried(attempt.command),
        )
    )


def _carried(command: Command) -> tuple[str, ...]:
    if not isinstance(command, AddMessages):
        return ()
    return tuple(mark for message in command.messages for mark in marks_in(message.content))


def watch_connections(recorder: Recorder, port: int) -> None:
    """Record every connection that anything in this process tries to open to a port."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and _port_of(arguments[1]) == port:
            recorder.write(Connected(process=recorder.process, at_s=time.monotonic()))

    sys.addaudithook(hook)


def _port_of(address: object) -> object:
    return cast("tuple[object, ...]", address)[1] if isinstance(address, tuple) else None


def watch_breakers(recorder: Recorder) -> None:
    """Record every move of every breaker, with the time the policy gave it."""
    mirror: Any = PybreakerMirror
    apply: Callable[[Any, Iterable[Change]], None] = mirror.apply

    @functools.wraps(apply)
    def watched(mirror: Any, changes: Iterable[Change]) -> None:
        moves = tuple(changes)
        for move in moves:
            if isinstance(move, Transition):
                recorder.write(
                    BreakerMoved(
                        process=recorder.process,
                        at_s=move.at_s,
                        group=move.group.value,
                        number=move.number,
                        to_state=move.to_state.value,
                        open_until_s=move.open_until_s,
                    )
                )
        apply(mirror, moves)

    mirror.apply = watched


async def beat(recorder: Recorder, loop: Loop) -> None:
    """Record when the running event loop comes back late; never ends.

    The control lets go of the interpreter as often as a turn's system calls do: when other threads
    compute, each of them costs it a wait that is nobody's blocking.
    """
    due_s = time.monotonic() + _BEAT_S
    thread = _ThisThread()
    cpu_s, queued_s = thread.times_s()
    while True:
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        if loop is Loop.CONTROL:
            for _ in range(_SYSTEM_CALLS):
                time.sleep(0)  # noqa: ASYNC251 - waits for nothing
        now_s, cpu_before_s, queued_before_s = time.monotonic(), cpu_s, queued_s
        cpu_s, queued_s = thread.times_s()
        if now_s - due_s > _WORTH_TELLING_S:
            recorder.write(
                Stall(
                    process=recorder.process,
                    at_s=now_s,
                    length_s=now_s - due_s,
                    cpu_s=cpu_s - cpu_before_s,
                    queued_s=queued_s - queued_before_s,
                    loop=loop,
                )
            )
        due_s = max(due_s, now_s) + _BEAT_S


class _ThisThread:
    """What the kernel says of the thread that made this object: computing, and waiting to."""

    def __init__(self) -> None:
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def times_s(self) -> tuple[float, float]:
        """Return seconds on a processor and seconds waiting for one, so far."""
        computed, queued, _ = os.pread(self._file, 100, 0).split()
        return int(computed) / 1e9, int(queued) / 1e9


def start_control_loop(recorder: Recorder) -> None:
    """Start an event loop with nothing to do, on a thread of its own, and record its stalls."""
    threading.Thread(
        target=lambda: asyncio.run(beat(recorder, Loop.CONTROL)), name="control-loop", daemon=True
    ).start()


def resources(process: int, moment: str, port: int) -> Resources:
    """Return what this process holds; ``port`` is that of the server's address."""
    threads = threading.enumerate()
    return Resources(
        process=process,
        at_s=time.monotonic(),
        moment=moment,
        threads=len(threads),
        own_threads=sum(each.name.startswith(_OURS) for each in threads),
        sockets=_connections_to(port),
        files=len(os.listdir("/proc/self/fd")),
        rss_bytes=_rss_bytes(),
    )


def _connections_to(port: int) -> int:
    """Return how many TCP connections to a loopback port are established in this process."""
    own: set[str] = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith("socket:["):
            own.add(target[8:-1])
    count = 0
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            fields = line.split()
            established = fields[3] == "01"
            if established and int(fields[2].rpartition(":")[2], 16) == port and fields[9] in own:
                count += 1
    return count


def _rss_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
