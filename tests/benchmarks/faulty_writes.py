"""Gate: ten thousand writes through the real transport, each struck by one fault at one request.

Run `python -m tests.benchmarks.faulty_writes`; exits 1 when a message was lost or stored twice, or
a cell of (fault, request) was struck less than a hundred times. Half of the writes go through `add`
on threads, half through `aadd` on one event loop. Breakers are out of the way (they would keep the
faults away) and settling takes half a second; everything else is as shipped.
"""

import argparse
import asyncio
import random
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from resilient_ov.testing.fake_wire import FakeRequest
from resilient_ov.testing.script import Route, Rule, Verb, route_of
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.benchmarks.frame import Figure, run, say
from tests.benchmarks.ground import managed
from tests.benchmarks.lane import CONFIG, Lane, stored_in
from tests.benchmarks.ledger import Ledger, figures_of
from tests.benchmarks.strikes import (
    FAULTS,
    PHASES,
    REFUSED,
    Plan,
    Refusals,
    Write,
    conversation_in,
    session_of,
)

A_CELL = 100
_AT_ONCE = 12
_REFUSED_LANES = 8

# The bulkhead would let the struck calls wait for each other instead of meeting their faults.
_WIDE = {"limits": {"write_in_flight": 64, "max_connections": 64, "max_keepalive": 32}}


def plan_writes(a_cell: int, rng: random.Random) -> list[Write]:
    """Return the writes of all cells but the refused ones, in random order."""
    writes: list[Write] = []
    for phase in PHASES:
        for fault in FAULTS:
            for _ in range(a_cell):
                strikes: deque[tuple[Route, str]] = deque([(phase, fault)])
                if phase in ("session", "content", "list"):
                    # Only a batch that may have been applied is read back to the last line.
                    doubts = ("closed, after the effect", "answer cut, after the effect")
                    strikes.appendleft(("batch", rng.choice(doubts)))
                prelude = phase != "ensure" and rng.random() < 0.5
                writes.append(Write(0, strikes, prelude))
    rng.shuffle(writes)
    for number, write in enumerate(writes):
        write.number = number
    return writes


def run_writes(lane: Lane, writes: list[Write], rng: random.Random) -> None:
    """Make the writes, half on threads and half on a loop, so many at once."""
    waiting = deque((write, rng.random() < 0.5) for write in writes)
    total = len(writes)

    def next_one() -> tuple[Write, bool] | None:
        left = len(waiting)
        if left and left % 500 == 0:
            say(f"{total - left} of {total} writes")
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def thread() -> None:
        while (found := next_one()) is not None:
            lane.until_roomy()
            lane.add(found[0], after=found[1])

    async def task() -> None:
        while (found := next_one()) is not None:
            await asyncio.to_thread(lane.until_roomy)
            await lane.aadd(found[0], after=found[1])

    async def tasks() -> None:
        await asyncio.gather(*(task() for _ in range(_AT_ONCE)))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(thread) for _ in range(_AT_ONCE)]
        asyncio.run(tasks())
        for future in futures:
            future.result()


_BEFORE: dict[Route, tuple[Route, Verb] | None] = {
    "ensure": None,
    "batch": ("ensure", "ok_then_close"),
    "commit": ("batch", "ok_then_close"),
    "session": ("batch", "apply_then_drop"),
    "list": ("session", "ok_then_close"),
    "content": ("list", "ok_then_close"),
}
"""For each request: the one before it, after whose answer connects are refused."""


def refused_writes(
    phases: list[Route], plan: Plan, ledger: Ledger, refusals: Refusals, first: int
) -> list[tuple[str, list[str]]]:
    """Make writes whose connection is refused at one request, one at a time; return what is stored.

    One connection, closed after the request before, so that the next one has to connect.
    """
    turns: deque[tuple[str, Route]] = deque()

    def closes(verb: Verb, request: FakeRequest) -> bool:
        if not turns or conversation_in(request) != turns[0][0]:
            return False
        phase = turns[0][1]
        route = route_of(request)
        if phase in ("list", "content") and route == "batch":
            return verb == "apply_then_drop"
        if _BEFORE[phase] != (route, verb):
            return False
        refusals.ports.add(server.port)
        return True

    rules = [
        Rule(on="any", do=verb, when=partial(closes, verb))
        for verb in ("ok_then_close", "apply_then_drop")
    ]
    one = {"limits": {"max_connections": 1, "max_keepalive": 1}}
    with ScriptedServer(*rules) as server, managed(server, **CONFIG, **one) as manager:
        lane = Lane(manager, plan, ledger)
        for number, phase in enumerate(phases, start=first):
            write = Write(number, deque(), prelude=False)
            lane.until_delivered()
            before = refusals.refused[server.port]
            turns.append((session_of(write.thread), phase))
            if phase == "ensure":
                server.drop_connections()
                refusals.ports.add(server.port)
            lane.add(write, after=False)
            refusals.ports.discard(server.port)
            turns.clear()
            if refusals.refused[server.port] > before:
                plan.hit(phase, REFUSED)
        lane.until_delivered()
        return stored_in(server)


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    a_cell = 5 if asked.quick else A_CELL
    rng = random.Random(asked.seed)
    plan, ledger = Plan(), Ledger()
    writes = plan_writes(a_cell, rng)
    stored: dict[str, list[str]] = {}
    with ScriptedServer(*plan.rules()) as server, managed(server, **CONFIG, **_WIDE) as manager:
        lane = Lane(manager, plan, ledger)
        run_writes(lane, writes, rng)
        say("all writes were made; waiting for the writer")
        lane.until_delivered()
        counted = manager.status()
        stored |= dict(stored_in(server))
    say("refused connections")
    refusals = Refusals()
    phases = [phase for phase in PHASES for _ in range(a_cell)]
    rng.shuffle(phases)
    lanes = [phases[n::_REFUSED_LANES] for n in range(_REFUSED_LANES)]
    firsts = [len(writes) + n * len(phases) for n in range(_REFUSED_LANES)]
    with ThreadPoolExecutor(_REFUSED_LANES) as pool:
        running = [
            pool.submit(refused_writes, lane, plan, ledger, refusals, first)
            for lane, first in zip(lanes, firsts, strict=True)
        ]
        for one in running:
            stored |= dict(one.result())
    _print_cells(plan)
    verdict = ledger.judge(stored)
    samples = len(writes) + len(phases)
    yield from figures_of(verdict, samples)
    yield Figure(
        name="messages given up, as counted by the product",
        value=sum(counted["dropped"].values()),
        unit="",
        samples=verdict.messages,
        exactly=0,
    )
    yield Figure(
        name="strikes of the emptiest cell (fault, request)",
        value=min(plan.struck[phase, fault] for phase in PHASES for fault in (*FAULTS, REFUSED)),
        unit="",
        samples=sum(plan.struck.values()),
        least=a_cell,
    )


def _print_cells(plan: Plan) -> None:
    print(f"{'strikes':30}" + "".join(f"{phase:>9}" for phase in PHASES))
    for fault in (*FAULTS, REFUSED):
        print(f"{fault:30}" + "".join(f"{plan.struck[phase, fault]:9}" for phase in PHASES))


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
