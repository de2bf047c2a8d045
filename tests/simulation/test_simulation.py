"""Many seeds, few promises: nothing lost, nothing stored twice, every call inside its budget."""

import os

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulate import Outcome, play_all
from tests.simulation.story import Story, Violation

STORIES = 100
FOUND = {
    1_000_548: "a backup was restored while a batch was under way, which then landed earlier",
    1_001_050: "what waited here was overtaken by another process, in a window that overflowed",
    1_001_259: "a backup was restored before a batch; part of it stood where older lines had been",
    1_001_448: "a restored backup, the batch and an unheard commit left equal totals",
    1_001_640: "a restored backup and the batch left equal totals and equal live messages",
    1_001_715: "a restored backup, and a session deleted in the middle of a look",
}
"""Seeds of stories that once broke a promise."""
MOST_STORIES_TO_FIND_A_MUTATION = 100


@pytest.mark.timeout(900)
def test_promises_hold_over_20_000_turns_and_each_fault_is_met() -> None:
    total = Outcome()
    for outcome in play_all(range(STORIES), os.cpu_count() or 1):
        total.add(outcome)
    print(total.turns, "turns", {name: f"{share:.1%}" for name, share in total.shares.items()})
    assert total.broken == []
    assert total.turns >= 20_000
    assert {name: share for name, share in total.shares.items() if share < 0.01} == {}
    assert len(total.shares) >= 20


@pytest.mark.parametrize("seed", sorted(FOUND))
def test_what_once_broke_a_promise_holds(seed: int) -> None:
    Story(seed).run(200)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_each_mutation_is_found_within_20_000_turns(name: str) -> None:
    for seed in range(MOST_STORIES_TO_FIND_A_MUTATION):
        with MUTATIONS[name]():
            story = Story(seed)
            try:
                story.run(200)
            except Violation as broken:
                print(name, "found:", broken)
                return
    pytest.fail(f"{name} was not found")
