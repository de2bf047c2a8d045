"""Gate: how far a call overshoots its total deadline, per fault, colour and budget.

Run `python -m tests.benchmarks.deadline`; exits 1 above a bound. The overshoot is what a bare sleep
of the same length, in the same run and at the same concurrency, does not explain.
"""

import argparse
import asyncio
import contextlib
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.domain.exchange import (
    AddMessages,
    Command,
    Failure,
    FailureKind,
    Identity,
    Search,
    WireMessage,
)
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.domain.ports import Attempt
from resilient_ov.settings import AuthSettings, LimitSettings, Settings, TimeoutSettings
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.benchmarks.frame import Figure, percentile, run, say

A_CELL = 30
LANES = 5
P99_BOUND_MS = 25.0
MAX_BOUND_MS = 250.0
READS_S = (0.05, 0.15, 0.4)
WRITES_S = (0.5, 1.0)

_ME = Identity(user="df_benchmark")
_FIND = Search(
    identity=_ME, query="anything", targets=(memories_uri(),), limit=8, score_threshold=0.55
)
_ADD = AddMessages(
    identity=_ME,
    session_id="df_benchmark",
    messages=(WireMessage(role="user", content="x" * 2000, source_ids=("df1-0",)),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way of never answering."""

    name: str
    rules: tuple[Rule, ...] = ()
    https: bool = False
    host: str | None = None
    connections: int = 20
    expected: tuple[FailureKind, ...] = (FailureKind.TIMEOUT,)


FAULTS = (
    Fault(name="hang", rules=(Rule(on="any", do="hang"),)),
    Fault(name="drip body", rules=(Rule(on="any", do="drip", every_s=0.02),)),
    Fault(name="drip headers", rules=(Rule(on="any", do="drip", every_s=0.02, part="head"),)),
    Fault(name="dns", host="memory.invalid"),
    Fault(name="tls black hole", rules=(Rule(on="tcp", do="hang"),), https=True),
    Fault(
        name="pool wait",
        rules=(Rule(on="any", do="hang"),),
        connections=1,
        # A call that is only scheduled after its deadline does not even ask for a connection.
        expected=(FailureKind.SATURATED, FailureKind.TIMEOUT),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured call."""

    fault: str
    colour: str
    command: str
    budget_s: float
    overshoot_ms: float


class Ground:
    """A server for one fault and the two clients that meet it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        # Never used for a handshake: it only makes the server's address an https one.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if fault.https else None
        self.server = ScriptedServer(*fault.rules, tls=tls)
        url = self.server.url
        if fault.host is not None:
            url = f"http://{fault.host}:{self.server.port}"
        self.settings = Settings(
            base_url=url,
            allow_insecure_http=True,
            storage_path=Path(),
            auth=AuthSettings(account="bench"),
            limits=LimitSettings(max_connections=fault.connections, max_keepalive=1),
            # Long enough for whoever holds the only connection of a pool.
            timeouts=TimeoutSettings(read_s=120.0),
        )

    def sync(self) -> HttpxMemoryServer:
        return HttpxMemoryServer(self.settings, key=_key, resolver=self._resolver())

    def colour_async(self) -> AsyncHttpxMemoryServer:
        return AsyncHttpxMemoryServer(self.settings, key=_key, resolver=self._resolver())

    def _resolver(self) -> Resolver:
        return Resolver(lookup=_slow_lookup) if self.fault.host is not None else Resolver()


def _key() -> str | None:
    return "test-key"


def _slow_lookup(host: str, port: int) -> Sequence[tuple[Any, ...]]:
    time.sleep(1.3)
    return socket.getaddrinfo("127.0.0.1", port)


def _attempt(command: Command, budget_s: float) -> Attempt:
    return Attempt(command=command, deadline_s=time.monotonic() + budget_s, request_id="bench")


def _plan(samples: int, rng: random.Random) -> list[tuple[Command, float]]:
    cells = [(_FIND, b) for b in READS_S] + [(_ADD, b) for b in WRITES_S]
    plan: list[tuple[Command, float]] = [cell for cell in cells for _ in range(samples)]
    rng.shuffle(plan)
    return plan


def _sample(
    ground: Ground, colour: str, command: Command, budget_s: float, took_s: float
) -> Sample:
    return Sample(
        fault=ground.fault.name,
        colour=colour,
        command="read" if command is _FIND else "write",
        budget_s=budget_s,
        overshoot_ms=(took_s - budget_s) * 1000,
    )


def _checked(answer: object, fault: Fault) -> None:
    if not isinstance(answer, Failure) or answer.kind not in fault.expected:
        raise SystemExit(f"{fault.name}: expected {fault.expected}, got {answer}")


def run_sync(ground: Ground, plan: list[tuple[Command, float]], lanes: int) -> list[Sample]:
    """Measure the sync colour on `lanes` threads at once."""
    client = ground.sync()
    fresh = ground.fault.host is not None

    def one(cell: tuple[Command, float]) -> Sample:
        command, budget_s = cell
        mine = ground.sync() if fresh else client
        began_s = time.monotonic()
        answer = mine.send(_attempt(command, budget_s))
        took_s = time.monotonic() - began_s
        _checked(answer, ground.fault)
        return _sample(ground, "sync", command, budget_s, took_s)

    with _occupied_sync(ground, client), ThreadPoolExecutor(lanes) as pool:
        found = list(pool.map(one, plan))
    client.close()
    return found


async def run_async(ground: Ground, plan: list[tuple[Command, float]], lanes: int) -> list[Sample]:
    """Measure the async colour, `lanes` tasks at once."""
    client = ground.colour_async()
    fresh = ground.fault.host is not None

    async def one(cell: tuple[Command, float]) -> Sample:
        command, budget_s = cell
        mine = ground.colour_async() if fresh else client
        began_s = time.monotonic()
        answer = await mine.send(_attempt(command, budget_s))
        took_s = time.monotonic() - began_s
        _checked(answer, ground.fault)
        return _sample(ground, "async", command, budget_s, took_s)

    occupant: asyncio.Task[Any] | None = None
    if ground.fault.connections == 1:
        occupant = asyncio.create_task(client.send(_attempt(_FIND, 600.0)))
        await asyncio.sleep(0.1)
    found = await _in_lanes(plan, one, lanes)
    if occupant is not None:
        occupant.cancel()
        await asyncio.gather(occupant, return_exceptions=True)
    await client.aclose()
    return found


async def _in_lanes(
    plan: list[tuple[Command, float]],
    one: Callable[[tuple[Command, float]], Awaitable[Sample]],
    lanes: int,
) -> list[Sample]:
    waiting = iter(plan)
    found: list[Sample] = []

    async def lane() -> None:
        for cell in waiting:
            found.append(await one(cell))  # noqa: PERF401 - an await per element

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return found


@contextlib.contextmanager
def _occupied_sync(ground: Ground, client: HttpxMemoryServer) -> Iterator[None]:
    """Hold the only connection of the pool while the others wait for it."""
    if ground.fault.connections > 1:
        yield
        return
    holder = threading.Thread(target=client.send, args=(_attempt(_FIND, 600.0),))
    holder.start()
    time.sleep(0.1)
    try:
        yield
    finally:
        client.close()
        holder.join()


def sleep_sync(plan: list[tuple[Command, float]], lanes: int) -> list[float]:
    """Overshoot of a bare sleep, in ms."""

    def one(cell: tuple[Command, float]) -> float:
        began_s = time.monotonic()
        time.sleep(cell[1])
        return (time.monotonic() - began_s - cell[1]) * 1000

    with ThreadPoolExecutor(lanes) as pool:
        return list(pool.map(one, plan))


async def sleep_async(plan: list[tuple[Command, float]], lanes: int) -> list[float]:
    """Overshoot of a bare `asyncio.sleep`, in ms."""

    async def one(cell: tuple[Command, float]) -> Sample:
        began_s = time.monotonic()
        await asyncio.sleep(cell[1])
        took_s = time.monotonic() - began_s
        return Sample(
            fault="sleep",
            colour="async",
            command="",
            budget_s=cell[1],
            overshoot_ms=(took_s - cell[1]) * 1000,
        )

    return [sample.overshoot_ms for sample in await _in_lanes(plan, one, lanes)]


def _resources() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    a_cell = 6 if asked.quick else A_CELL
    rng = random.Random(asked.seed)
    samples: list[Sample] = []
    asyncio.run(asyncio.sleep(0))
    before = _resources()
    for fault in FAULTS:
        ground = Ground(fault)
        samples += run_sync(ground, _plan(a_cell, rng), LANES)
        samples += asyncio.run(run_async(ground, _plan(a_cell, rng), LANES))
        ground.server.close()
        say(f"measured: {fault.name}")
    bare = {
        "sync": sleep_sync(_plan(a_cell, rng), LANES),
        "async": asyncio.run(sleep_async(_plan(a_cell, rng), LANES)),
    }
    time.sleep(1.0)
    after = _resources()
    _print_cells(samples)
    for colour, sleeps in bare.items():
        found = [s.overshoot_ms for s in samples if s.colour == colour]
        slept = percentile(sleeps, 0.99)
        for name, value, most in (
            ("pooled p99 minus bare sleep p99", percentile(found, 0.99) - slept, P99_BOUND_MS),
            ("max", max(found), MAX_BOUND_MS),
            ("bare sleep p99", slept, None),
        ):
            yield Figure(
                name=f"{colour}: {name}", value=value, unit="ms", samples=len(found), most=most
            )
    for name, was, now in zip(("threads", "file descriptors"), before, after, strict=True):
        yield Figure(name=f"{name} 1 s later", value=now, unit="", samples=1, most=was)


def _print_cells(samples: list[Sample]) -> None:
    """Print the overshoot of each cell, in milliseconds."""
    print(f"{'fault':16}{'colour':8}{'kind':7}{'budget':>8}{'n':>5}{'p50':>8}{'p99':>8}{'max':>8}")
    ordered = sorted(samples, key=_order)
    cells = dict.fromkeys((s.fault, s.colour, s.command, s.budget_s) for s in ordered)
    for cell in cells:
        found = [
            s.overshoot_ms for s in samples if (s.fault, s.colour, s.command, s.budget_s) == cell
        ]
        fault, colour, command, budget_s = cell
        print(
            f"{fault:16}{colour:8}{command:7}{budget_s:8.2f}{len(found):5}"
            f"{percentile(found, 0.5):8.1f}{percentile(found, 0.99):8.1f}{max(found):8.1f}"
        )


def _order(sample: Sample) -> tuple[str, str, str, float]:
    return (sample.fault, sample.colour, sample.command, sample.budget_s)


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
