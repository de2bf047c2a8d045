"""Many seeds, few promises: nothing lost, nothing stored twice, every call inside its budget."""

from collections import Counter

import pytest

from tests.simulation.story import Story

TURNS_A_STORY = 200
STORIES = 100


def play(seed: int, turns: int = TURNS_A_STORY) -> Story:
    story = Story(seed)
    story.run(turns)
    return story


@pytest.mark.parametrize("block", range(10))
def test_promises_hold_over_many_seeds(block: int) -> None:
    met: Counter[str] = Counter()
    turns = 0
    for seed in range(block * STORIES // 10, (block + 1) * STORIES // 10):
        story = play(seed)
        met += story.met + story.server.met
        turns += story.turns
    print(turns, dict(met))
