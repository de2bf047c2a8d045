"""Gate: twenty reads in a row on a server that accepts and never answers, with the defaults.

Run `python -m tests.benchmarks.silent_server`; exits 1 above a bound. Without a breaker and a total
deadline this takes minutes.
"""

import argparse
import asyncio
import time
from collections.abc import Iterable

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, run
from tests.benchmarks.ground import managed

CALLS = 20


def measure(_: argparse.Namespace) -> Iterable[Figure]:
    for colour, ask in (("sync", _sync), ("async", _async)):
        with ScriptedServer(Rule(on="any", do="hang")) as server, managed(server) as manager:
            began_s = time.perf_counter()
            found = ask(manager)
            took_s = time.perf_counter() - began_s
            if any(found):
                raise SystemExit("a server that never answers was heard")
            yield Figure(
                name=f"{colour}: {CALLS} x get_context", value=took_s, unit="s", samples=1, most=8.0
            )
            yield Figure(
                name=f"{colour}: requests that reached the server",
                value=len(server.requests),
                unit="",
                samples=CALLS,
            )


def _sync(manager: OpenVikingMemoryManager) -> list[str]:
    return [manager.get_context("someone") for _ in range(CALLS)]


def _async(manager: OpenVikingMemoryManager) -> list[str]:
    async def ask() -> list[str]:
        return [await manager.aget_context("someone") for _ in range(CALLS)]

    return asyncio.run(ask())


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
