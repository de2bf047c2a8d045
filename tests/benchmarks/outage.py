"""Gate: how often a server that refuses connections is asked, by ten thousand calls.

Run `python -m tests.benchmarks.outage`; exits 1 above a bound. Once with the breakers forced closed
and three attempts a call, so that only the retry budget bounds it; once with the breakers on.
Counted is every connect of this process, by the interpreter's own audit events.
"""

import argparse
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager.manager import default_sync_reads
from tests.benchmarks.frame import Figure, run
from tests.benchmarks.ground import managed

CALLS = 10_000
# Back-off is only waiting; without it the same retries are made in a minute less.
_NO_WAITING = {"max_attempts": 3, "initial_seconds": 0, "max_seconds": 0}


class Connects:
    """Counts connects to one port."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._port = 0
        self.count = 0
        sys.addaudithook(self._hear)

    def watch(self, port: int) -> None:
        """Begin to count anew."""
        self._port, self.count = port, 0

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and arguments[1][1] == self._port:
            with self._lock:
                self.count += 1


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    calls = 1_000 if asked.quick else CALLS
    connects = Connects()
    for name, most, forced in (
        ("breakers forced closed, 3 attempts", 1.10 * calls + 10, True),
        ("breakers on, 3 attempts", 100, False),
    ):
        with (
            ScriptedServer(Rule(on="any", do="refuse")) as server,
            managed(server, retry=_NO_WAITING) as manager,
        ):
            if forced:
                manager.switch("all", "forced_closed")
            connects.watch(server.port)
            with ThreadPoolExecutor(default_sync_reads()) as pool:
                found = list(pool.map(manager.get_context, ["someone"] * calls))
            if any(found):
                raise SystemExit("a server that refuses everything was heard")
            if forced and connects.count < calls:
                raise SystemExit("forced closed, every call should have reached the server")
            yield Figure(
                name=f"attempts, {name}", value=connects.count, unit="", samples=calls, most=most
            )


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
