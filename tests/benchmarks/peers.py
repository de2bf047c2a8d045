"""The same reads through us and through what people use otherwise, side by side in one run.

Run `make bench-peers`; it prints the table that the README shows. No gate: nothing is judged. Ten
reads follow one another on a server with one fault; a client that is not done after 30 seconds is
stopped, and what it had not read by then is told. Throughput is on the healthy server.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.progress import track

from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.benchmarks.peer_reads import ACCOUNT, PEERS

READS = 10
LATEST_S = 30.0
CALLERS = (1, 16, 64)
READS_OF_THROUGHPUT = 1_920

FAULTS = {
    "accepts and never answers": Rule(on="find", do="hang"),
    "one byte each 0.2 s": Rule(on="find", do="drip", every_s=0.2),
    "503": Rule(on="find", do="status", code=503),
    "connection reset": Rule(on="find", do="reset"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What one client did. ``all_s`` None = it was stopped."""

    seconds: list[float]
    found: int
    all_s: float | None
    requests: int


def play(python: str, peer: str, server: ScriptedServer, callers: int, reads: int) -> Run:
    """Let one client read."""
    user = openviking_user(scope(ACCOUNT, "someone", None))
    before = len(server.requests)
    child = subprocess.Popen(
        [
            *(python, "-m", "tests.benchmarks.peer_reads"),
            *(peer, server.url, user, str(callers), str(reads)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OTEL_SDK_DISABLED": "true"},
    )
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        child.kill()
        raise SystemExit(f"{peer} did not start; is it installed for {python}?")
    late = threading.Timer(LATEST_S, child.kill)
    late.start()
    seconds: list[float] = []
    found = 0
    all_s: float | None = None
    for line in child.stdout:
        first, second = line.split()
        if first == "all":
            all_s = float(second)
        else:
            seconds.append(float(first))
            found += int(second)
    child.wait()
    late.cancel()
    return Run(seconds, found, all_s, len(server.requests) - before)


@contextlib.contextmanager
def server_with(*rules: Rule) -> Iterator[ScriptedServer]:
    """A server that knows one memory of the benchmark's user."""
    user = openviking_user(scope(ACCOUNT, "someone", None))
    hit = {
        "context_type": "memory",
        "uri": f"viking://user/{user}/memories/preferences/tea.md",
        "level": 2,
        "score": 0.9,
        "abstract": "The user likes green tea.",
        "tags": [],
    }
    result = {"memories": [hit], "resources": [], "skills": [], "total": 1}
    known = Rule(on="find", do="ok", json={"status": "ok", "result": result})
    with ScriptedServer(*rules, known) as server:
        yield server


def cell(run: Run) -> str:
    """Return one cell of the faults: all reads, the longest, requests that reached the server."""
    if run.all_s is None:
        return f"> {LATEST_S:g} s, {len(run.seconds)} of {READS} done ({run.requests})"
    return f"{run.all_s:.2f} s, longest {max(run.seconds):.2f} s ({run.requests})"


def rate(run: Run) -> str:
    """Return one cell of the throughput: answered reads per second, and how many were not."""
    if run.all_s is None:
        return f"> {LATEST_S:g} s"
    missed = len(run.seconds) - run.found
    return f"{run.found / run.all_s:.0f}" + (f" ({missed} without answer)" if missed else "")


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="where the peers are installed")
    asked = parser.parse_args()
    rows: dict[str, list[str]] = {peer: [] for peer in PEERS}
    steps = [(peer, name) for name in FAULTS for peer in PEERS]
    console = Console(stderr=True)
    for peer, name in track(steps, "faults", console=console):
        with server_with(FAULTS[name]) as server:
            run = play(asked.python, peer, server, 1, READS)
        if run.found and name != "one byte each 0.2 s":
            raise SystemExit(f"{peer} found something on a server with the fault: {name}")
        rows[peer].append(cell(run))
    for peer, callers in track(
        [(peer, callers) for callers in CALLERS for peer in PEERS], "throughput", console=console
    ):
        with server_with() as server:
            run = play(asked.python, peer, server, callers, READS_OF_THROUGHPUT)
        rows[peer].append(rate(run))
    load = os.getloadavg()[0]
    print(f"httpx {version('httpx')}, 2 s timeouts, {READS} reads a cell, load {load:.1f}\n")
    heads = ["client", *FAULTS, *(f"reads/s, {n} callers" for n in CALLERS)]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for peer, cells in rows.items():
        print("| " + " | ".join([peer, *cells]) + " |")


if __name__ == "__main__":
    main()
