"""What a host does to its thread, and stories of such moves from a seed.

Rule: a move only changes what the host shows; what becomes of it is the thread's business.
"""

import random
from collections.abc import Callable, Sequence

from resilient_ov.domain.messages import Role
from tests.unit.domain.thread_model import Fates, Thread


class Host:
    """The moves of a host, each with the choices left to the caller.

    `ids`: "all" messages have one, "none" or "some"; without one, texts are unique.
    """

    def __init__(self, thread: Thread, number: Callable[[int, int], int], ids: str) -> None:
        self.thread = thread
        self.number = number
        self.ids = ids
        thread.met[f"ids: {ids}"] += 1

    def turn(self) -> None:
        """Questions and answers: several where earlier runs of the host ended without showing."""
        thread = self.thread
        bare = self.ids == "none" or (self.ids == "some" and self.number(0, 1) == 0)
        host_id = None if bare else ""
        thread.met["turn"] += 1
        for _ in range(self.number(1, 6)):
            thread.shown.append(thread.new(Role.USER, host_id=host_id))
            thread.shown.append(thread.new(Role.ASSISTANT, host_id=host_id))
        thread.add(thread.shown)

    def rekey(self) -> None:
        """The host gives messages other ids; every later list has them."""
        thread = self.thread
        if thread.shown:
            for _ in range(self.number(1, 3)):
                message = thread.shown[-1 - self.number(0, min(9, len(thread.shown) - 1))]
                if message.host_id is not None:
                    thread.suffixes[message.uid] += 1
                    thread.met["re-keyed"] += 1

    def compact(self) -> None:
        """The head of the list is handed over and removed; a few of it are kept."""
        thread = self.thread
        cut = self.number(0, len(thread.shown))
        removed, tail = thread.shown[:cut], thread.shown[cut:]
        if removed:
            thread.met["compacted"] += 1
            thread.hand_over(removed)
            rescued = [m for m in removed if self.number(0, 9) == 0]
            thread.shown = [*rescued, *tail]

    def edit(self) -> None:
        """A message gets another text under its id; what followed it is answered anew."""
        thread = self.thread
        if thread.shown:
            thread.met["edited"] += 1
            at = len(thread.shown) - 1 - self.number(0, min(5, len(thread.shown) - 1))
            old = thread.shown[at]
            thread.shown = [*thread.shown[:at], thread.new(old.role, host_id=old.host_id)]
            if self.number(0, 1):
                answered = None if old.host_id is None else ""
                thread.shown.append(thread.new(Role.ASSISTANT, host_id=answered))
            thread.add(thread.shown)

    def rewind(self) -> None:
        """The list is cut back, by little or by much."""
        thread = self.thread
        if thread.shown:
            thread.met["rewound"] += 1
            thread.shown = thread.shown[: self.number(0, len(thread.shown) - 1)]
            if thread.shown:
                thread.add(thread.shown)

    def branch(self) -> None:
        """The host goes back to a list that it showed before."""
        thread = self.thread
        if thread.checkpoints:
            thread.met["branched"] += 1
            thread.shown = list(thread.checkpoints[self.number(0, len(thread.checkpoints) - 1)])
            thread.add(thread.shown)

    def write(self) -> None:
        """The writer's turn, sometimes with a hand-over while it sends."""
        meanwhile = self.thread.shown if self.number(0, 2) == 0 else ()
        self.thread.write(meanwhile)

    def lose_state(self) -> None:
        self.thread.met["state lost"] += 1
        self.thread.lose_state()

    def kill(self) -> None:
        self.thread.met["killed"] += 1
        self.thread.kill()


def seeded_thread(seed: int, *, window: int = 16, steps: int = 60) -> Thread:
    """One thread of random moves, drained and checked at its end and now and then."""
    dice = random.Random(seed)
    trouble = dice.choice((0.0, 0.1, 0.3))

    def choose(_: str, answers: Sequence[str]) -> str:
        return dice.choice(answers[1:]) if dice.random() < trouble else answers[0]

    thread = Thread(window=window, fates=Fates(choose))
    host = Host(thread, dice.randint, dice.choice(("all", "all", "some", "none")))
    moves = [host.turn] * 6 + [host.write] * 3 + [host.rekey, host.compact, host.edit] * 2
    moves += [host.rewind, host.branch]
    if trouble:
        moves += [host.lose_state, host.kill]
    for step in range(steps):
        dice.choice(moves)()
        if step % 20 == 19:
            thread.drain()
            thread.check()
    thread.drain()
    thread.check()
    return thread
