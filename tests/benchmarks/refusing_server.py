"""Gate: how long a turn waits for memory while the server refuses connections.

Run `python -m tests.benchmarks.refusing_server`; exits 1 above a bound. Five conversations go on at
once; counted is each `add` that began after the breaker had opened.
"""

import argparse
import threading
import time
from collections.abc import Iterable
from typing import Any

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from tests.benchmarks.frame import Figure, percentile, run
from tests.benchmarks.ground import managed, turn

THREADS = 5
TURNS = 30


def measure(_: argparse.Namespace) -> Iterable[Figure]:
    opened = threading.Event()
    before_ms: list[float] = []
    after_ms: list[float] = []

    def talk(manager: OpenVikingMemoryManager, name: str) -> None:
        shown: list[Any] = []
        for number in range(TURNS):
            manager.get_context("someone")
            shown += turn(number)
            counted = after_ms if opened.is_set() else before_ms
            began_s = time.perf_counter()
            manager.add(name, list(shown), user_id="someone")
            counted.append((time.perf_counter() - began_s) * 1e3)

    with ScriptedServer(Rule(on="any", do="refuse")) as server, managed(server) as manager:
        manager.breaker("host").add_listeners(_Opening(opened))
        threads = [
            threading.Thread(target=talk, args=(manager, f"thread-{n}")) for n in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not after_ms:
        raise SystemExit("the breaker never opened")
    yield Figure(
        name="add after the breaker opened, p99",
        value=percentile(after_ms, 0.99),
        unit="ms",
        samples=len(after_ms),
        most=50.0,
    )
    yield Figure(
        name="add after the breaker opened, p50",
        value=percentile(after_ms, 0.5),
        unit="ms",
        samples=len(after_ms),
    )
    if before_ms:
        yield Figure(
            name="add before that, the longest",
            value=max(before_ms),
            unit="ms",
            samples=len(before_ms),
        )


class _Opening:
    """A listener of pybreaker, as a host would write one."""

    def __init__(self, opened: threading.Event) -> None:
        self._opened = opened

    def before_call(self, *_: Any, **__: Any) -> None: ...

    def success(self, _: Any) -> None: ...

    def failure(self, *_: Any) -> None: ...

    def state_change(self, _breaker: Any, _old: Any, new: Any) -> None:
        if new.name == "open":
            self._opened.set()


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
