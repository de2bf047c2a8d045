"""Plays many stories: ``python -m tests.simulation.simulate --turns 1000000``.

A failing story prints its seed; ``--seed N`` replays exactly that one.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.simulation.story import Story, Violation

TURNS_A_STORY = 200


@dataclass
class Outcome:
    """What came of some stories."""

    turns: int = 0
    met: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.turns += other.turns
        self.met += other.met
        self.broken += other.broken

    @property
    def shares(self) -> dict[str, float]:
        """The share of turns that met each fault."""
        return {name: count / self.turns for name, count in sorted(self.met.items())}


def play(seed: int) -> Outcome:
    """Play one story."""
    story = Story(seed)
    outcome = Outcome()
    try:
        story.run(TURNS_A_STORY)
    except Violation as broken:
        outcome.broken.append(str(broken))
    outcome.turns, outcome.met = story.turns, story.met_turns
    return outcome


def play_all(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Play stories in several processes."""
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(play, seeds, chunksize=4)


def main() -> int:
    """Play, print the shares and the broken seeds; 1 when a promise was broken."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--turns", type=int, default=1_000_000)
    arguments.add_argument("--first-seed", type=int, default=0)
    arguments.add_argument("--seed", type=int, help="replay one story")
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = arguments.parse_args()
    console = Console()
    total = Outcome()
    began_s = time.monotonic()
    if given.seed is not None:
        total.add(play(given.seed))
    else:
        stories = -(-given.turns // TURNS_A_STORY)
        seeds = range(given.first_seed, given.first_seed + stories)
        for outcome in track(
            play_all(seeds, given.processes), "stories", total=stories, console=console
        ):
            total.add(outcome)
    table = Table("fault", "share of turns that met it", title=f"{total.turns} turns")
    for name, share in total.shares.items():
        table.add_row(name, f"{share:.1%}")
    console.print(table)
    console.print(f"{len(total.broken)} broken in {time.monotonic() - began_s:.0f} s")
    for broken in total.broken:
        console.print(broken, style="red")
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main())
