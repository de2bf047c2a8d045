"""Every true message of a thread is stored once, in order, whatever happens to it.

A model host shows its thread in every way a host does, a model server loses answers, and the
process is killed or loses its state; the oracle knows the true messages. Windows are far smaller
than the threads.

Where the model holds back, planning cannot know better: an abandoned message (its process was
killed) that the host shows again before stored ones may be taken for an old one. Equal texts
without ids are a story of their own below.
"""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from resilient_ov.domain.messages import Role
from tests.unit.domain.thread_host import Host, seeded_thread
from tests.unit.domain.thread_model import Fates, Shown, Thread

STORIES = 60

moves = {
    "turn": Host.turn,
    "rekey": Host.rekey,
    "compact": Host.compact,
    "edit": Host.edit,
    "rewind": Host.rewind,
    "branch": Host.branch,
    "write": Host.write,
    "kill": Host.kill,
    "lose state": Host.lose_state,
}
usual = ["turn"] * 5 + ["write"] * 3 + ["compact", "edit", "rekey"]


class ThreadMachine(RuleBasedStateMachine):
    @initialize(window=st.sampled_from([16, 17, 32]), ids=st.sampled_from(["all", "none", "some"]))
    def start(self, window: int, ids: str) -> None:
        self.thread = Thread(window=window, fates=Fates(lambda _, answers: answers[0]))
        self.host = Host(self.thread, lambda low, _: low, ids)

    @rule(data=st.data(), move=st.sampled_from([*usual, *moves]))
    def move(self, data: st.DataObject, move: str) -> None:
        def choose(_: str, answers: Sequence[str]) -> str:
            # Most requests of a healthy day go well, or no story gets anywhere.
            return data.draw(st.sampled_from([*[answers[0]] * len(answers), *answers]))

        self.thread.fates = Fates(choose)
        self.host.number = lambda low, high: data.draw(st.integers(low, high))
        moves[move](self.host)

    @rule()
    def quiet_day(self) -> None:
        self.thread.drain()
        self.thread.check()

    @invariant()
    def nothing_is_stored_twice(self) -> None:
        stored = self.thread.stored_uids()
        assert len(stored) == len(set(stored))

    def teardown(self) -> None:
        if hasattr(self, "thread"):
            self.thread.drain()
            self.thread.check()
            for kind in sorted(self.thread.met):
                event(kind)


ThreadMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestThread = ThreadMachine.TestCase


def test_every_kind_of_trouble_is_met_and_survived() -> None:
    threads = [seeded_thread(seed) for seed in range(STORIES)]

    met = Counter(kind for thread in threads for kind in thread.met)
    met["longer than four windows"] = sum(len(t.stored_uids()) > 4 * t.window for t in threads)
    shares = {kind: count / STORIES for kind, count in sorted(met.items())}
    print({kind: f"{share:.0%}" for kind, share in shares.items()})
    assert set(shares) == {
        "branched",
        "compacted",
        "compared",
        "edited",
        "given up",
        "ids: all",
        "ids: none",
        "ids: some",
        "killed",
        "longer than four windows",
        "lost answer",
        "re-keyed",
        "refused",
        "rewound",
        "settled absent",
        "settled present",
        "state lost",
        "turn",
        "waited together",
    }
    assert min(shares.values()) > 0.1


# -- equal texts without ids ------------------------------------------------------------------


def equal_texts(seed: int, *, window: int, trouble: float, compacted: bool) -> Thread:
    """A thread without ids of few different words that grows and is cut to its tail."""
    dice = random.Random(seed)

    def choose(_: str, answers: Sequence[str]) -> str:
        bad = [a for a in answers[1:] if "killed" not in a and a != "rejected"]
        return dice.choice(bad) if bad and dice.random() < trouble else answers[0]

    thread = Thread(window=window, fates=Fates(choose))
    for _ in range(40):
        move = dice.choice(["turn", "turn", "turn", "compact", "write", "lose state"])
        if move == "turn":
            for role in [*Role] * dice.randint(1, 2):
                word = dice.choice(["ok", "done", "1"])
                text = word if not compacted or dice.random() < 0.3 else None
                thread.shown.append(thread.new(role, text=text, host_id=None))
            thread.add(thread.shown)
        elif move == "compact" and thread.shown and compacted:
            cut = dice.randint(1, len(thread.shown))
            thread.hand_over(thread.shown[:cut])
            thread.shown = thread.shown[cut:]
        elif move == "write":
            thread.write()
        elif move == "lose state" and trouble:
            thread.lose_state()
    thread.drain()
    return thread


def words(messages: Sequence[Shown]) -> list[tuple[Role, str]]:
    return [(message.role, message.text) for message in messages]


def test_growing_thread_of_equal_texts_is_stored_exactly() -> None:
    for seed in range(40):
        thread = equal_texts(
            seed, window=16 if seed % 2 else 512, trouble=0.2 * (seed % 3), compacted=False
        )
        assert words(thread.stored()) == words(thread.accepted), seed


def test_compacted_thread_with_equal_texts_takes_a_message_for_an_old_one_at_most() -> None:
    """The allowed reading of what is ambiguous in principle.

    `ok, 1` kept of `ok, 1, ok, 1` and a new `ok` is the same list as the first three of them. A
    message that can be one that is stored is taken for it, because the other reading would store
    messages twice: nothing is stored more often than it was shown, and no list showed a text more
    often than it is stored.
    """
    for seed in range(40):
        thread = equal_texts(seed, window=512, trouble=0.0, compacted=True)
        stored = Counter(words(thread.stored()))
        assert not stored - Counter(words(thread.accepted)), seed
        for shown in thread.checkpoints:
            assert not Counter(words(shown)) - stored, seed
