"""One story: hosts talk in threads through gateways while everything around them breaks.

Rule: the seed decides all; the ledger is kept outside the product and judges at the end, after
everything was healed and given time.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from resilient_ov.domain.identity import openviking_user, scope, session_id
from resilient_ov.domain.messages import conversation
from resilient_ov.domain.planning import present
from resilient_ov.memory import Who
from resilient_ov.settings import SessionSettings, WatermarkSettings
from resilient_ov.testing.memory_store import MemoryPlace
from tests.simulation.model_server import CALM, Faults, ModelServer
from tests.simulation.process import SETTINGS, Process
from tests.simulation.scenes import SCENES
from tests.simulation.world import Cancelled, Task, World

ADD_S = SETTINGS.budgets.add_s
HEAL_S = 1500.0
SETTLE_S = SETTINGS.session.settle_s

SICK = Faults(
    refuse=0.05,
    lose_request=0.05,
    lose_reply=0.06,
    late=0.05,
    cut_reply=0.03,
    busy=0.05,
    html=0.03,
    server_error=0.03,
    slow=0.3,
    # A late original lands before absence can have been proven; later ones have their own test.
    late_s=SETTLE_S * 0.9,
)


@dataclass
class Thread:
    """One conversation of the host; ``shown`` is what the host would present now."""

    who: Who
    place: int
    shown: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    # By text: the processes that accepted it, and whether the host can still present it.
    accepted: dict[str, set[Process]] = field(default_factory=dict)
    busy: bool = False
    turns: int = 0
    began_s: float = 0.0
    # Digests that the server lost by itself (a restored backup, a deleted session).
    excused: set[str] = field(default_factory=set)

    @property
    def session(self) -> tuple[str, str]:
        owner = scope("default", self.who.user_id, None)
        return openviking_user(owner), session_id(owner, self.who.thread_id)


class Violation(AssertionError):  # noqa: N818 - the word of the trade
    """A promise was broken."""


class Story:
    """Runs ``turns`` turns from one seed.

    In a third of the stories the server loses messages by itself (a restored backup, a deleted
    session). A thread then stands on the server in another order than it was said, which only
    the window knows; so these have the window of the defaults, the others one that overflows.
    """

    def __init__(self, seed: int, *, processes: int = 3, threads: int = 6) -> None:
        self.seed = seed
        self.world = World(seed)
        self.server = ModelServer(self.world)
        self.loses = seed % 3 == 0
        self.settings = replace(
            SETTINGS,
            watermark=WatermarkSettings(window=512 if self.loses else 24),
            session=SessionSettings(settle_s=SETTLE_S),
        )
        self.places = [MemoryPlace(), MemoryPlace()]
        self.processes = [
            Process(self.world, self.server, self.places[i % 2], self.settings)
            for i in range(processes)
        ]
        self.threads = [
            Thread(
                who=Who(user_id=f"user-{i % 3}", thread_id=f"thread-{seed}-{i}"),
                place=i % 2,
            )
            for i in range(threads)
        ]
        self.turns = 0
        self.met: Counter[str] = Counter()
        self.met_turns: Counter[str] = Counter()
        self._struck_s: dict[str, float] = {}
        self._backup = self.server.backup()
        self.late_calls: list[float] = []
        self.dead_counts: list[Any] = []
        self._ids = 0

    # -- the run ---------------------------------------------------------------------------

    def run(self, turns: int) -> None:
        """Play until ``turns`` turns were begun, heal, and judge."""
        goal = self.turns + turns
        for thread in self.threads:
            self._next_turn(thread)
        self._trouble()
        self.world.run(lambda: self.turns >= goal, limit_s=turns * 60.0)
        self._heal()
        self._judge()
        self._play_scenes()

    def _next_turn(self, thread: Thread) -> None:
        def begin() -> None:
            if not thread.busy and not self._ended:
                self._turn(thread)
            self._next_turn(thread)

        self.world.after(self.world.rng.expovariate(1 / 3.0), begin)

    _ended = False

    def _gateway(self, thread: Thread) -> Process:
        there = [p for p in self.processes if p.store.place is self.places[thread.place]]
        return self.world.rng.choice(there)

    def _turn(self, thread: Thread) -> None:
        rng = self.world.rng
        self.turns += 1
        thread.turns += 1
        process = self._gateway(thread)
        roll = rng.random()
        if roll < 0.10 and len(thread.shown) > 4:
            self._compact(thread, process)
        elif roll < 0.16 and thread.shown:
            self._edit(thread)
        elif roll < 0.20 and thread.shown:
            self._rekey(thread)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            self._say(thread, "human")
            self._say(thread, "ai")
        presented = list(thread.shown)
        thread.busy = True
        began_s = self.world.now_s
        since_s, thread.began_s = thread.began_s, began_s

        def over(_: Any, error: BaseException | None) -> None:
            thread.busy = False
            self._note_met(thread, since_s)
            if process.asleep_until_s < began_s:
                self.late_calls.append(self.world.now_s - began_s - ADD_S)
            if error is not None and not isinstance(error, Cancelled):
                raise error
            for message in presented:
                thread.accepted.setdefault(message.content, set()).add(process)

        task = process.add(thread.who, presented, over)
        if rng.random() < 0.15:
            self.met["cancelled"] += 1
            self.met_turns["cancelled"] += 1
            # Most calls are over in the first tenth; the long ones wait on a sick server.
            self.world.after(rng.choice((0.1, 1.0)) * rng.uniform(0, ADD_S), task.cancel)

    def _note_met(self, thread: Thread, since_s: float) -> None:
        self.met_turns.update(k for k, at_s in self._struck_s.items() if at_s >= since_s)
        self.met_turns.update(self.server.met_by.pop(thread.session[1], ()))

    def _say(self, thread: Thread, kind: str) -> None:
        self._ids += 1
        message = SimpleNamespace(
            type=kind,
            id=f"m{self._ids}",
            content=f"{kind} words {self._ids}",
            additional_kwargs={},
            tool_calls=[],
        )
        thread.shown.append(message)
        thread.said.append(message)

    def _compact(self, thread: Thread, process: Process) -> None:
        self.met["compacted"] += 1
        keep = self.world.rng.randint(1, 4)
        removed, thread.shown = thread.shown[:-keep], thread.shown[-keep:]
        process.add_nowait(thread.who, removed)
        for message in removed:
            thread.accepted.setdefault(message.content, set()).add(process)

    def _edit(self, thread: Thread) -> None:
        """The user edits an earlier message: the thread is rewound to it."""
        self.met["edited"] += 1
        at = self.world.rng.randrange(len(thread.shown))
        old = thread.shown[at]
        self._ids += 1
        new = SimpleNamespace(**{**vars(old), "content": f"edited words {self._ids}"})
        # What is cut off here and was never accepted is the host's own loss.
        cut = thread.shown[at:]
        thread.said = [m for m in thread.said if m not in cut or m.content in thread.accepted]
        thread.shown = [*thread.shown[:at], new]
        thread.said.append(new)

    def _rekey(self, thread: Thread) -> None:
        """The host gives what a user said another spelling of its id, once."""
        plain = [
            at
            for at, message in enumerate(thread.shown)
            if message.type == "human" and not message.id.endswith("__user")
        ]
        if not plain:
            return
        self.met["rekeyed"] += 1
        at = self.world.rng.choice(plain)
        old = thread.shown[at]
        thread.shown[at] = SimpleNamespace(**{**vars(old), "id": f"{old.id}__user"})
        thread.said = [thread.shown[at] if m is old else m for m in thread.said]

    # -- trouble ---------------------------------------------------------------------------

    def _trouble(self) -> None:
        def strike() -> None:
            if not self._ended:
                self._strike()
            self._trouble()

        self.world.after(self.world.rng.expovariate(1 / 5.0), strike)

    def _strike(self) -> None:
        rng, world, server = self.world.rng, self.world, self.server
        what = rng.choices(
            (
                "sick",
                "calm",
                "crash",
                "stop",
                "kill",
                "power",
                "pause",
                "disk",
                "clock",
                "forget",
                "backup",
                "restore",
                "unreadable",
            ),
            (5, 2, 2, 2, 3, 1, 2, 1, 1, *((2, 2, 2) if self.loses else (0, 0, 0)), 1),
        )[0]
        self.met[what] += 1
        self._struck_s[what] = world.now_s
        match what:
            case "sick":
                server.faults = SICK
            case "calm":
                server.faults = CALM
            case "crash":
                server.crash()
                world.after(rng.uniform(0.5, 40.0), server.restart)
            case "stop" if not server.down:
                server.stop()
                world.after(rng.uniform(0.5, 25.0), server.resume)
            case "kill":
                self._kill(rng.randrange(len(self.processes)))
            case "disk":
                place = rng.choice(self.places)
                place.save_problem = "no_space"
                world.after(rng.uniform(0.5, 20.0), lambda: setattr(place, "save_problem", None))
            case "clock":
                world.wall_shift_s += rng.choice((-3600.0, 3600.0))
            case "unreadable":
                # A file that breaks while a batch of its session is under way is a known limit:
                # nothing is left that knows of a late original.
                place = rng.choice(self.places)
                quiet = sorted(s for s, state in place.states.items() if state.in_doubt is None)
                if quiet:
                    place.break_state(rng.choice(quiet))
            case "power":
                side = rng.randrange(2)
                for index in range(len(self.processes)):
                    if index % 2 == side:
                        self._kill(index)
            case "pause":
                rng.choice(self.processes).stop(rng.uniform(0.5, 20.0))
            case "forget":
                thread = rng.choice(self.threads)
                thread.excused.update(server.forget(thread.session))
            case "backup":
                self._backup = server.backup()
            case "restore" if not server.stopped:
                for key, gone in server.restore(self._backup).items():
                    for thread in self.threads:
                        if thread.session == key:
                            thread.excused.update(gone)
                self._backup = server.backup()

    def _kill(self, index: int) -> None:
        dead = self.processes[index]
        dead.kill()
        self.dead_counts.append(dead.counts)
        for thread in self.threads:
            if thread.busy and thread.place == index % 2:
                thread.busy = False
        self.processes[index] = Process(
            self.world, self.server, self.places[index % 2], self.settings
        )

    # -- the end ---------------------------------------------------------------------------

    def _heal(self) -> None:
        self._ended = True
        self.server.faults = CALM
        self.server.restart()
        self.server.resume()
        for place in self.places:
            place.save_problem = None
        waiting: list[Task] = []
        self.world.run(lambda: not any(t.busy for t in self.threads), limit_s=60.0)
        self.world.run(lambda: False, limit_s=90.0)
        for thread in self.threads:
            process = self._gateway(thread)
            presented = list(thread.shown)
            thread.busy = True

            def over(
                _: Any,
                error: BaseException | None,
                thread: Thread = thread,
                process: Process = process,
                presented: list[Any] = presented,
            ) -> None:
                if error is not None:
                    raise error
                thread.busy = False
                for message in presented:
                    thread.accepted.setdefault(message.content, set()).add(process)

            waiting.append(process.add(thread.who, presented, over))
        self.world.run(self._idle, limit_s=HEAL_S)
        self.world.run(lambda: False, limit_s=60.0)

    def _idle(self) -> bool:
        return (
            not any(t.busy for t in self.threads)
            and all(p.assembly.writer.idle() for p in self.processes)
            and not any(place.markers for place in self.places)
        )

    def _judge(self) -> None:
        if not self._idle():
            waiting = [p.assembly.writer.waiting_messages() for p in self.processes]
            markers = [len(place.markers) for place in self.places]
            raise self._broken(f"not idle after healing: waiting {waiting}, unfinished {markers}")
        for thread in self.threads:
            self._judge_thread(thread)
        worst_s = max(self.late_calls, default=0.0)
        if worst_s > 0.01:
            raise self._broken(f"a call returned {worst_s:.3f} s after its budget")

    def _play_scenes(self) -> None:
        """What chance meets too seldom, made with certainty."""
        self.world.run(lambda: False, limit_s=120.0)
        process = self.processes[self.seed % len(self.processes)]
        for scene in SCENES:
            wrong = scene(self.world, self.server, process, str(self.seed))
            if wrong is not None:
                raise self._broken(wrong)

    def _judge_thread(self, thread: Thread) -> None:
        user, session = thread.session
        stored = self.server.sessions.get((user, session))
        digests = stored.digests() if stored is not None else []
        twice = [d for d, n in Counter(digests).items() if n > 1]
        if twice:
            raise self._broken(f"{len(twice)} messages of {thread.who.thread_id} stored twice")
        have = {*digests, *thread.excused}
        shown = {m.content for m in thread.shown}
        for message in thread.said:
            keepers = thread.accepted.get(message.content, set())
            promised = message.content in shown or any(p.alive for p in keepers)
            if promised and keepers and not self._has(session, message, have):
                raise self._broken(f"{message.content!r} of {thread.who.thread_id} is lost")
        self._judge_order(thread, session, digests)

    def _has(self, session: str, message: Any, have: set[str]) -> bool:
        return any(d in have for d in _spellings(session, message))

    @property
    def shares(self) -> dict[str, float]:
        """The share of turns that met each fault."""
        return {name: n / self.turns for name, n in sorted(self.met_turns.items())}

    def _judge_order(self, thread: Thread, session: str, digests: list[str]) -> None:
        """Within what one living process alone accepted, the order is the thread's."""
        if thread.excused:
            return  # what the server lost by itself may be said again later
        place = {d: i for i, d in enumerate(digests)}
        last: dict[Process, int] = {}
        for message in thread.said:
            keepers = thread.accepted.get(message.content, set())
            at = next((place[d] for d in _spellings(session, message) if d in place), None)
            if at is None or len(keepers) != 1:
                continue
            keeper = next(iter(keepers))
            if keeper.alive and at < last.get(keeper, -1):
                raise self._broken(f"{message.content!r} of {thread.who.thread_id} is out of order")
            last[keeper] = at

    def _broken(self, what: str) -> Violation:
        return Violation(f"seed {self.seed}: {what}")


def _spellings(session: str, message: Any) -> tuple[str, ...]:
    plain = SimpleNamespace(**vars(message))
    found: list[str] = []
    while True:
        shown = present(session, conversation([plain]).messages).fingerprints[0]
        found += [shown.exact, *shown.older, *((shown.newer,) if shown.newer else ())]
        return tuple(found)
