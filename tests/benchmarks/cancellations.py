"""Gate: what ten thousand cancelled calls leave behind.

Run `python -m tests.benchmarks.cancellations`; exits 1 unless it is nothing. The calls fight for
four connections, for places in the bulkheads and for the locks of three sessions, and are cancelled
at a random moment; a second after the last one every slot is counted and every lock asked for.
"""

import argparse
import asyncio
import fcntl
import os
import random
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, run
from tests.benchmarks.ground import managed, turn

CALLS = 10_000
_AT_ONCE = 40
_CONNECTIONS = 4
_SESSIONS = 3
_LONGEST_S = 0.03
_LIMITS = {
    "max_connections": _CONNECTIONS,
    "max_keepalive": _CONNECTIONS,
    "read_in_flight": 6,
    "write_in_flight": 3,
}
_SHOWN = [one for number in range(10) for one in turn(number)]


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    calls = 1_000 if asked.quick else CALLS
    rng = random.Random(asked.seed)
    slow = Rule(on="any", do="delay", seconds=0.004)
    with ScriptedServer(slow) as server, managed(server, limits=_LIMITS) as manager:
        storage = Path(manager.backend_config["storage_path"])
        cancelled, unanswered = asyncio.run(_play(manager, server, calls, rng))
        in_flight = manager._process.backend().gate.snapshot(time.monotonic()).in_flight
        held = _held(storage / "openviking" / "locks")
        stored = [len(session.everything) for session in server.store.sessions().values()]
    yield Figure(
        name="places still taken 1 s later",
        value=sum(in_flight.values()),
        unit="",
        samples=cancelled,
        exactly=0,
    )
    yield Figure(
        name="connections lost: calls without an answer",
        value=unanswered,
        unit="",
        samples=_CONNECTIONS * 3,
        exactly=0,
    )
    yield Figure(
        name="session locks held 1 s later", value=held, unit="", samples=cancelled, exactly=0
    )
    yield Figure(
        name="messages lost or stored twice",
        unit="",
        samples=_SESSIONS,
        value=sum(abs(count - len(_SHOWN)) for count in stored),
        exactly=0,
    )


async def _play(
    manager: OpenVikingMemoryManager, server: ScriptedServer, calls: int, rng: random.Random
) -> tuple[int, int]:
    """Return how many calls were cancelled, and how many honest ones went unanswered afterwards."""
    cancelled = 0

    async def one() -> None:
        nonlocal cancelled
        task = asyncio.create_task(_call(manager, rng))
        await asyncio.sleep(rng.uniform(0.0, _LONGEST_S))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1

    async def lane() -> None:
        while cancelled < calls:
            await one()

    await asyncio.gather(*(lane() for _ in range(_AT_ONCE)))
    await asyncio.to_thread(_settle_down, manager)
    server.script()
    before = len(server.requests_to("find"))
    asks = _CONNECTIONS * 3
    await asyncio.gather(*(manager.asearch("tea", user_id="someone") for _ in range(asks)))
    return cancelled, asks - (len(server.requests_to("find")) - before)


def _call(manager: OpenVikingMemoryManager, rng: random.Random) -> Coroutine[Any, Any, object]:
    roll = rng.random()
    if roll < 0.3:
        return manager.aget_context("someone")
    if roll < 0.5:
        return manager.asearch("tea", user_id="someone")
    thread = f"thread-{rng.randrange(_SESSIONS)}"
    return manager.aadd(thread, list(_SHOWN), user_id="someone")


def _settle_down(manager: OpenVikingMemoryManager) -> None:
    """Let the writer deliver what the cancelled writes left to it; then wait the second."""
    writer = manager._process.backend().writer
    while not writer.idle():
        time.sleep(0.05)
    time.sleep(1.0)


def _held(locks: Path) -> int:
    """Return how many lock files somebody holds."""
    held = 0
    for path in locks.glob("*.lock"):
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held += 1
        finally:
            os.close(descriptor)
    return held


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
