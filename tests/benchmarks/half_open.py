"""Gate: how many probes a half-open breaker lets through, threads and tasks mixed.

Run `python -m tests.benchmarks.half_open`; exits 1 unless it is exactly one in every period. The
gate, the flow and both drivers are the product's own; the server is sick in half of the rounds, and
time stands still until a round is over.
"""

import argparse
import asyncio
import random
import threading
import time
from collections.abc import Iterable

from resilient_ov import events
from resilient_ov.adapters.stamina_retry import StaminaAttempts
from resilient_ov.domain.exchange import Answer, Evidence, Failure, FailureKind
from resilient_ov.domain.ports import Attempt
from resilient_ov.drivers import AsyncDriver, SyncDriver
from resilient_ov.policy.breaker import BreakerState
from resilient_ov.policy.permits import Gate
from resilient_ov.policy.refusals import Refusal
from resilient_ov.policy.rules import Group
from resilient_ov.settings import BreakerSettings, LimitSettings, RetrySettings
from resilient_ov.testing.clock import ManualClock, ScriptedDice
from resilient_ov.testing.workers import ManualWorkers
from resilient_ov.usecases.call import CallContext, Calls, Result
from resilient_ov.usecases.steps import Flow
from tests.benchmarks.commands import FIND, FOUND
from tests.benchmarks.frame import Figure, run

THREADS = 8
TASKS = 8
_OPEN_S = 5.0
_HELD_AT_MOST_S = 5.0
_DOWN = Failure(
    kind=FailureKind.SERVER_ERROR, evidence=Evidence.ANSWERED, status=503, enveloped=True
)


class Server:
    """Counts whom it hears; may keep a probe waiting until all others were turned away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin(answer=_DOWN, held=False)

    def begin(self, *, answer: Answer, held: bool) -> None:
        """Begin a round."""
        self._answer = answer
        self.heard = 0
        self._turned_away = 0
        self._free = threading.Event()
        if not held:
            self._free.set()

    def turned_away(self) -> None:
        """Hear that one more was refused."""
        with self._lock:
            self._turned_away += 1
            if self._turned_away == THREADS + TASKS - 1:
                self._free.set()

    def _hear(self) -> None:
        with self._lock:
            self.heard += 1

    def send(self, attempt: Attempt) -> Answer:
        self._hear()
        self._free.wait(_HELD_AT_MOST_S)
        return self._answer

    def close(self) -> None: ...

    async def asend(self) -> Answer:
        self._hear()
        await asyncio.to_thread(self._free.wait, _HELD_AT_MOST_S)
        return self._answer


class AsyncServer:
    """The same server for tasks."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def send(self, attempt: Attempt) -> Answer:
        return await self._server.asend()

    async def aclose(self) -> None: ...


class Ground:
    """One gate, its flow and both drivers in front of one server; time is moved by hand."""

    def __init__(self, rng: random.Random) -> None:
        self.clock = ManualClock()
        self.server = Server()
        self.gate = Gate(
            breaker=BreakerSettings(open_s=_OPEN_S, max_open_s=_OPEN_S),
            limits=LimitSettings(read_in_flight=THREADS + TASKS),
            retry=RetrySettings(max_attempts=1),
            fraction=rng.random,
        )
        self._calls = Calls(
            gate=self.gate,
            series=StaminaAttempts,
            max_attempts=1,
            sink=events.NullSink(),
            on_changes=lambda _: None,
            clock=self.clock,
            dice=ScriptedDice(),
        )
        workers = ManualWorkers()
        self._sync = SyncDriver(self.server, workers, self.clock, time.sleep)
        self._async = AsyncDriver(AsyncServer(self.server), workers, self.clock, asyncio.sleep)

    def ask(self) -> None:
        """Ask on this thread."""
        self._told(self._sync.run(self._flow()))

    async def aask(self) -> None:
        """Ask on this loop."""
        self._told(await self._async.run(self._flow()))

    def _flow(self) -> Flow[Result]:
        context = CallContext.starting(self.clock, budget_s=2.0, origin=events.NOBODY)
        return self._calls.perform(context, FIND)

    def _told(self, result: Result) -> None:
        if isinstance(result, Refusal):
            self.server.turned_away()

    def state(self) -> BreakerState:
        """Return the state of the breaker of reads."""
        return self.gate.snapshot(self.clock.monotonic_s()).breakers[Group.RECALL].state

    async def crowd(self) -> None:
        """Let threads and tasks ask at the same moment."""
        start = threading.Barrier(THREADS + 1)

        def one_of_many() -> None:
            start.wait()
            self.ask()

        threads = [threading.Thread(target=one_of_many) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        start.wait()
        await asyncio.gather(*(self.aask() for _ in range(TASKS)))
        for thread in threads:
            thread.join()


async def probes_of(ground: Ground, rng: random.Random) -> int:
    """Open the breaker, let its period end and a crowd come; return how many were let through."""
    ground.server.begin(answer=_DOWN, held=False)
    while ground.state() is BreakerState.CLOSED:
        ground.ask()
    ground.clock.advance(_OPEN_S + 1.0)
    healthy = rng.random() < 0.5
    # After a healthy probe everybody may come in, so that one is kept until the others are gone.
    ground.server.begin(answer=FOUND if healthy else _DOWN, held=healthy or rng.random() < 0.5)
    await ground.crowd()
    if ground.state() is not (BreakerState.CLOSED if healthy else BreakerState.OPEN):
        raise SystemExit("the breaker did not follow its probe")
    return ground.server.heard


def measure(asked: argparse.Namespace) -> Iterable[Figure]:
    rounds = 100 if asked.quick else 1_000
    rng = random.Random(asked.seed)
    ground = Ground(rng)

    async def play() -> list[int]:
        return [await probes_of(ground, rng) for _ in range(rounds)]

    probes = asyncio.run(play())
    for name, value in (("most", max(probes)), ("fewest", min(probes))):
        yield Figure(
            name=f"probes of a half-open period, the {name}",
            value=value,
            unit="",
            samples=rounds,
            exactly=1,
        )


if __name__ == "__main__":
    raise SystemExit(run(__doc__ or "", measure))
