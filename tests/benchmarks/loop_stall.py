"""Gate: how long memory keeps an event loop from its other work.

Run `python -m tests.benchmarks.loop_stall`; exits 1 above a bound. A ticker on the loop notes the
longest gap between two of its ticks while every asynchronous call and `add_nowait` is made, on a
server that works, hangs and refuses; the same ticker on an idle loop is the control.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, percentile, run
from tests.benchmarks.ground import managed, message

RUNS = 3
_TICK_S = 0.001
_IDLE_S = 2.0
_MESSAGES = 1_000
_CHARS = 2_000

SERVERS = {
    "working server": (),
    "hanging server": (Rule(on="any", do="hang"),),
    "refusing server": (Rule(on="any", do="refuse"),),
}


def long_list(name: str) -> list[Any]:
    """Return a thread of 1 000 messages of 2 kB."""
    kinds = ("human", "ai")
    return [
        message(kinds[n % 2], f"{name} {n} ".ljust(_CHARS, "x"), f"{name}-{n}")
        for n in range(_MESSAGES)
    ]


async def longest_gap_ms(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return by how much the latest tick was late while ``work`` went on, and the loop's most CPU.

    Both in ms; the second is what this thread itself did between two ticks, other threads and
    processes left out.
    """
    longest_s = most_cpu_s = 0.0
    over = False

    async def tick() -> None:
        nonlocal longest_s, most_cpu_s
        last_s, last_cpu_s = time.perf_counter(), time.thread_time()
        while not over:
            await asyncio.sleep(_TICK_S)
            now_s, cpu_s = time.perf_counter(), time.thread_time()
            longest_s = max(longest_s, now_s - last_s - _TICK_S)
            most_cpu_s = max(most_cpu_s, cpu_s - last_cpu_s)
            last_s, last_cpu_s = now_s, cpu_s

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    await work()
    over = True
    await ticker
    return longest_s * 1e3, most_cpu_s * 1e3


async def every_call(manager: OpenVikingMemoryManager, run_name: str, long: Sequence[Any]) -> None:
    """Make every asynchronous call, short and long, alone and many at once."""
    await manager.aget_context("someone")
    await manager.asearch("tea", user_id="someone")
    await manager.aadd(f"{run_name}-short", list(long[:2]), user_id="someone")
    await manager.aadd(f"{run_name}-long", list(long), user_id="someone")
    await manager.aadd(f"{run_name}-long", list(long), user_id="someone")
    manager.add_nowait(f"{run_name}-nowait", list(long), user_id="someone")
    await asyncio.gather(
        *(manager.aget_context(f"user-{n}") for n in range(4)),
        *(manager.aadd(f"{run_name}-{n}", list(long[:20]), user_id="someone") for n in range(4)),
    )
    await asyncio.sleep(0.5)


def stalls_ms(rules: tuple[Rule, ...], number: int) -> tuple[float, float]:
    """Return the longest gap and the most CPU of the loop in one run on one kind of server."""
    long = long_list(f"r{number}")
    with ScriptedServer(*rules) as server, managed(server) as manager:
        return asyncio.run(longest_gap_ms(lambda: every_call(manager, f"r{number}", long)))


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    runs = 1 if asked.quick else RUNS
    idle = [asyncio.run(longest_gap_ms(lambda: asyncio.sleep(_IDLE_S))) for _ in range(RUNS)]
    control_ms = statistics.median(gap_ms for gap_ms, _ in idle)
    yield Figure(name="idle loop, longest gap", value=control_ms, unit="ms", samples=RUNS)
    for name, rules in SERVERS.items():
        found = [stalls_ms(rules, number) for number in range(runs)]
        yield Figure(
            name=f"{name}: longest stall minus the idle loop's",
            value=statistics.median(gap_ms for gap_ms, _ in found) - control_ms,
            unit="ms",
            samples=runs,
            most=50.0,
        )
        yield Figure(
            name=f"{name}: most CPU of the loop's thread between two ticks",
            value=statistics.median(cpu_ms for _, cpu_ms in found),
            unit="ms",
            samples=runs,
        )
    spent_ms = asyncio.run(hand_over_cpu_ms(5 if asked.quick else 30))
    yield Figure(
        name="add_nowait of 1 000 x 2 kB, thread CPU, p99",
        value=percentile(spent_ms, 0.99),
        unit="ms",
        samples=len(spent_ms),
        most=5.0,
    )


async def hand_over_cpu_ms(samples: int) -> list[float]:
    """Return what each hand-over of a long list cost the thread of the loop."""
    spent: list[float] = []
    with ScriptedServer() as server, managed(server) as manager:
        for number in range(samples):
            long = long_list(f"n{number}")
            began_s = time.thread_time()
            manager.add_nowait(f"nowait-{number}", long, user_id="someone")
            spent.append((time.thread_time() - began_s) * 1e3)
            await asyncio.sleep(0.2)
    return spent


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
