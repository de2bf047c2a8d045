"""Gate: what a call costs while the breaker is open: the agent must not notice.

Run `python -m tests.benchmarks.breaker_open`; exits 1 above a bound.
"""

import argparse
import asyncio
import time
from collections.abc import Iterable

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, percentile, run
from tests.benchmarks.ground import breaker_state, managed

_STAYS_OPEN = {"open_seconds": 600, "max_open_seconds": 600}


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    calls = 200 if asked.quick else 2_000
    with ScriptedServer(Rule(on="any", do="refuse")) as server:
        for colour, sample in (("sync", _sync), ("async", _async)):
            with managed(server, breaker=_STAYS_OPEN) as manager:
                _open(manager)
                spent = sample(manager, calls)
                if breaker_state(manager, "host") != "open":
                    raise SystemExit("the breaker did not stay open")
            cpu_ms = [cpu_s * 1e3 for cpu_s, _ in spent]
            wall_ms = [wall_s * 1e3 for _, wall_s in spent]
            yield Figure(
                name=f"{colour}: thread CPU of get_context, p99",
                value=percentile(cpu_ms, 0.99),
                unit="ms",
                samples=calls,
                most=1.0,
            )
            yield Figure(
                name=f"{colour}: wall time of get_context, p50",
                value=percentile(wall_ms, 0.5),
                unit="ms",
                samples=calls,
                most=1.0,
            )


def _open(manager: OpenVikingMemoryManager) -> None:
    for _ in range(20):
        manager.get_context("someone")
        if breaker_state(manager, "host") == "open":
            return
    raise SystemExit("20 refused calls did not open the breaker")


def _sync(manager: OpenVikingMemoryManager, calls: int) -> list[tuple[float, float]]:
    spent: list[tuple[float, float]] = []
    for _ in range(calls):
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        found = manager.get_context("someone")
        spent.append((time.thread_time() - cpu_s, time.perf_counter() - wall_s))
        if found:
            raise SystemExit("a refused call found something")
    return spent


def _async(manager: OpenVikingMemoryManager, calls: int) -> list[tuple[float, float]]:
    async def ask() -> list[tuple[float, float]]:
        spent: list[tuple[float, float]] = []
        for _ in range(calls):
            cpu_s, wall_s = time.thread_time(), time.perf_counter()
            await manager.aget_context("someone")
            spent.append((time.thread_time() - cpu_s, time.perf_counter() - wall_s))
        return spent

    return asyncio.run(ask())


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
