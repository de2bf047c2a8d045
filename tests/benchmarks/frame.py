"""What all gates share: options, figures against their bounds, the table, the exit code.

Rule: a gate measures and nothing else; whether a figure passes is judged and printed here.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

SEED = 20261130

Measure = Callable[[argparse.Namespace], Iterable["Figure"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number. Without a bound it is only told."""

    name: str
    value: float
    unit: str
    samples: int
    most: float | None = None
    least: float | None = None
    exactly: float | None = None

    @property
    def passed(self) -> bool:
        if self.exactly is not None:
            return self.value == self.exactly
        if self.least is not None:
            return self.value >= self.least
        return self.most is None or self.value <= self.most

    @property
    def bound(self) -> str:
        if self.exactly is not None:
            return f"= {_number(self.exactly)}"
        if self.least is not None:
            return f">= {_number(self.least)}"
        return "" if self.most is None else f"<= {_number(self.most)}"


def run(
    title: str, measure: Measure, options: Callable[[argparse.ArgumentParser], None] | None = None
) -> int:
    """Measure, print the table; 1 when a figure is over its bound."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--quick", action="store_true", help="fewer samples: a look, no verdict")
    if options is not None:
        options(parser)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    figures = list(measure(asked))
    print(title.splitlines()[0])
    print(
        f"seed {asked.seed}, {'quick' if asked.quick else 'full'}, Python"
        f" {platform.python_version()}, {os.cpu_count()} cores, load before {load:.1f}"
    )
    width = max(len(figure.name) for figure in figures) + 2
    print(f"{'figure':{width}}{'value':>12}  {'unit':6}{'bound':>12}{'samples':>10}")
    for figure in figures:
        print(
            f"{figure.name:{width}}{_number(figure.value):>12}  {figure.unit:6}"
            f"{figure.bound:>12}{figure.samples:>10}{'' if figure.passed else '  OVER'}"
        )
    failed = not all(figure.passed for figure in figures)
    print("FAILED" if failed else "passed")
    return int(failed)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the samples do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def say(text: str) -> None:
    """Tell how far a long gate is."""
    print(text, file=sys.stderr, flush=True)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
