"""Gate: five hundred writers killed at named points of the write path, and the thread goes on.

Run `python -m tests.benchmarks.killed_writes`; exits 1 when a message of a thread that its host
showed again was lost or stored twice, or a point killed nobody. Each writer is a process of its
own on the volume of a gateway that lives on; that gateway is shown the whole thread afterwards, as
a host does that was started again. Every fourth writer is stopped instead, outlives the gateway's
turn, and goes on: two processes on one session.
"""

import argparse
import os
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from resilient_ov.adapters.memory_server import HttpxMemoryServer
from resilient_ov.domain.exchange import AddMessages, CommitSession
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov.usecases.visit import Visit
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, run, say
from tests.benchmarks.ground import manager_at, message
from tests.benchmarks.lane import CONFIG, stored_in
from tests.benchmarks.ledger import Ledger, figures_of
from tests.benchmarks.strikes import session_of

A_POINT = 50
_LATEST_S = 300.0
_NOT_STRUCK: Final = 3

Strike = Callable[[], None]


def _put(owner: type, name: str, struck: Any) -> None:
    """Put a method in the place of the product's, in the writer's process only."""
    setattr(owner, name, struck)


def _around_save(before: bool, doubt: bool) -> Callable[[Strike], None]:
    """Strike before or after the save of an intent, or of what ended one."""

    def arm(strike: Strike) -> None:
        save: Any = Visit.save

        def struck(visit: Visit) -> Any:
            mine = visit.watermark.revision or visit.watermark.submitted or doubt
            here = bool(mine) and (visit.watermark.in_doubt is not None) is doubt
            if here and before:
                strike()
            yield from save(visit)
            if here and not before:
                strike()

        _put(Visit, "save", struck)

    return arm


def _around_send(kind: type, before: bool) -> Callable[[Strike], None]:
    """Strike before a request leaves, or when its answer is here."""

    def arm(strike: Strike) -> None:
        send: Any = HttpxMemoryServer.send

        def struck(server: HttpxMemoryServer, attempt: Any) -> Any:
            here = isinstance(attempt.command, kind)
            if here and before:
                strike()
            answer = send(server, attempt)
            if here:
                strike()
            return answer

        _put(HttpxMemoryServer, "send", struck)

    return arm


def _meanwhile(strike: Strike) -> None:
    """Strike while the batch is on its way, at a random moment of its few milliseconds."""
    signal.signal(signal.SIGALRM, lambda *_: strike())
    send: Any = HttpxMemoryServer.send

    def struck(server: HttpxMemoryServer, attempt: Any) -> Any:
        if isinstance(attempt.command, AddMessages):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.004))
        return send(server, attempt)

    _put(HttpxMemoryServer, "send", struck)


POINTS: Final[dict[str, Callable[[Strike], None]]] = {
    "before the intent is saved": _around_save(before=True, doubt=True),
    "intent saved": _around_save(before=False, doubt=True),
    "before the batch leaves": _around_send(AddMessages, before=True),
    "batch on its way": _meanwhile,
    "batch answered": _around_send(AddMessages, before=False),
    "before the end is saved": _around_save(before=True, doubt=False),
    "end saved": _around_save(before=False, doubt=False),
    "before the commit leaves": _around_send(CommitSession, before=True),
    "commit answered": _around_send(CommitSession, before=False),
}


def thread(number: int, turns: int) -> list[Any]:
    """Return a thread of so many turns."""
    return [
        message(kind, f"{kind} {turn} of thread {number}", f"t{number}-{turn}-{kind}")
        for turn in range(turns)
        for kind in ("human", "ai")
    ]


def writer(url: str, storage: str, point: str, number: int, how: signal.Signals) -> int:
    """Fork a process that adds the thread's second turn and is struck; return its id."""
    with warnings.catch_warnings():
        # The interpreter warns of threads that do not survive; the child makes its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        POINTS[point](lambda: os.kill(os.getpid(), how))
        manager = manager_at(url, storage, **CONFIG)
        manager.add(f"thread-{number}", thread(number, 2), user_id="someone")
        manager.shutdown_flush(10.0)
    finally:
        os._exit(_NOT_STRUCK)


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    rng = random.Random(asked.seed)
    points = [point for point in POINTS for _ in range(3 if asked.quick else A_POINT)]
    points += rng.choices(sorted(POINTS), k=0 if asked.quick else 500 - len(points))
    rng.shuffle(points)
    ledger, struck, stopped = Ledger(), Counter[str](), list[int]()
    with ScriptedServer() as server, tempfile.TemporaryDirectory() as storage:
        gateway = manager_at(server.url, storage, **CONFIG)
        for number, point in enumerate(points):
            name = f"thread-{number}"
            gateway.add(name, thread(number, 1), user_id="someone")
            how = signal.SIGSTOP if number % 4 == 3 else signal.SIGKILL
            pid = writer(server.url, storage, point, number, how)
            _, status = os.waitpid(pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                stopped.append(pid)
            struck[point] += os.WIFSIGNALED(status) or os.WIFSTOPPED(status)
            shown = thread(number, 3)
            gateway.add(name, shown, user_id="someone")
            ledger.present(session_of(name), [m.content for m in shown])
            if len(stopped) > 4:
                _continue(stopped)
            if number % 50 == 49:
                say(f"{number + 1} writers struck")
        _continue(stopped)
        _until_delivered(gateway)
        gateway.close()
        verdict = ledger.judge(dict(stored_in(server)))
    for point in POINTS:
        print(f"{point:30}{struck[point]:6}")
    yield from figures_of(verdict, len(points))
    yield Figure(
        name="strikes of the emptiest point",
        value=min(struck[point] for point in POINTS),
        unit="",
        samples=sum(struck.values()),
        least=1 if asked.quick else A_POINT * 0.9,
    )


def _continue(stopped: list[int]) -> None:
    """Let the stopped writers go on and end."""
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
        end_s = time.monotonic() + 60.0
        while True:
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGCONT)
            elif found:
                break
            if time.monotonic() > end_s:
                raise SystemExit("a stopped writer did not end within 60 s")
            time.sleep(0.005)
    stopped.clear()


def _until_delivered(gateway: OpenVikingMemoryManager) -> None:
    """Wait for the gateway's writer."""
    end_s = time.monotonic() + _LATEST_S
    backend = gateway._process.backend()
    while not backend.writer.idle():
        if time.monotonic() > end_s:
            raise SystemExit(f"not delivered after {_LATEST_S:g} s")
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
