"""Runs the gates one after another, each in a process of its own, and tells which failed.

Run `python -m tests.benchmarks [--quick] [--seed N] [GATE ...]`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.benchmarks.frame import SEED

GATES = (
    "policy_cost",
    "breaker_open",
    "silent_server",
    "refusing_server",
    "loop_stall",
    "half_open",
    "outage",
    "cancellations",
    "fork",
    "deadline",
    "recovery",
    "faulty_writes",
    "killed_writes",
)
_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what was asked for; 1 when a gate failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gates", nargs="*", metavar="GATE", help=", ".join(GATES))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--quick", action="store_true", help="fewer samples: a look, no verdict")
    asked = parser.parse_args()
    unknown = set(asked.gates) - set(GATES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(GATES)}")
    gates = asked.gates or GATES
    options = ["--seed", str(asked.seed), *(["--quick"] if asked.quick else [])]
    failed: list[str] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("gates", total=len(gates))
        for gate in gates:
            progress.update(task, description=gate)
            command = [sys.executable, "-m", f"tests.benchmarks.{gate}", *options]
            ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
            print(ran.stdout, flush=True)
            if ran.returncode:
                failed.append(gate)
                print(ran.stderr, file=sys.stderr)
            progress.advance(task)
    print(f"FAILED: {', '.join(failed)}" if failed else f"all {len(gates)} gates passed")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
