"""A simulated gateway process: the product's own assembly, driven by the world.

Rule: the same wiring as production; only the ports are the world's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from resilient_ov import events
from resilient_ov.assembly import Outside, assemble
from resilient_ov.memory import Who
from resilient_ov.settings import Settings
from resilient_ov.testing.memory_store import MemoryPlace, MemoryWatermarkStore
from resilient_ov.usecases.steps import Flow, Work
from tests.simulation.model_server import ModelServer
from tests.simulation.world import Task, World

SETTINGS = Settings(base_url="http://127.0.0.1:1933", storage_path=Path("/simulated"))


class Counts:
    """The events that the judge reads; everything else is dropped."""

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.duplicated = 0
        self.calls: list[tuple[str, str, float]] = []
        self.degraded = 0

    def emit(self, event: events.Event) -> None:
        if isinstance(event, events.MessagesDropped):
            reason = event.reason.value
            self.dropped[reason] = self.dropped.get(reason, 0) + event.count
        elif isinstance(event, events.MessagesCounted):
            if event.result is events.MessageResult.DUPLICATED:
                self.duplicated += event.count
        elif isinstance(event, events.CallFinished):
            self.calls.append((event.call.value, event.outcome.value, event.overshoot_s))


class Series:
    def __init__(self, max_attempts: int) -> None:
        self._left = max_attempts - 1

    def again(self) -> bool:
        self._left -= 1
        return self._left >= 0


class Process:
    """One life of a gateway on one volume."""

    def __init__(
        self,
        world: World,
        server: ModelServer,
        place: MemoryPlace,
        settings: Settings = SETTINGS,
        sink: events.EventSink | None = None,
    ) -> None:
        self.world = world
        self.server = server
        self.alive = True
        self.store = MemoryWatermarkStore(place)
        self.counts = Counts()
        self._tasks: set[Task] = set()
        self._waking = False
        self._next_look_s = float("inf")
        self.asleep_until_s = 0.0
        self.assembly = assemble(
            settings,
            Outside(
                clock=world,
                dice=world,
                sink=sink or self.counts,
                store=self.store,
                series=Series,
                wake=self.wake,
            ),
        )
        self.wake()

    def start(self, flow: Flow[Any], done: Callable[[Any, BaseException | None], None]) -> Task:
        """Begin a flow of this process."""

        def over(result: Any, error: BaseException | None) -> None:
            self._tasks.discard(task)
            done(result, error)

        task = Task(
            self.world, flow, self.server.send, over, self._disk, lambda: self.asleep_until_s
        )
        self._tasks.add(task)
        return task

    def add(
        self, who: Who, messages: list[Any], done: Callable[[Any, BaseException | None], None]
    ) -> Task:
        """Begin the host's ``aadd``."""
        return self.start(self.assembly.memory.add(who, messages, None), done)

    def add_nowait(self, who: Who, messages: list[Any]) -> None:
        """The host's ``add_nowait`` on its event loop."""
        self.assembly.memory.hand_over(who, messages, None)

    def kill(self) -> None:
        """SIGKILL: no line of this process runs any more."""
        self.alive = False
        for task in self._tasks:
            task.abandon()
        self._tasks.clear()
        self.store.kill()

    def stop(self, for_s: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.asleep_until_s = max(self.asleep_until_s, self.world.now_s + for_s)

    def wake(self) -> None:
        """The background looks at its sources again."""
        if not self._waking and self.alive:
            self._waking = True
            self.world.after(0.0, self._look)

    def _look(self) -> None:
        self._waking = False
        if not self.alive:
            return
        if self.asleep_until_s > self.world.now_s:
            self._waking = True
            self.world.at(self.asleep_until_s, self._look)
            return
        now_s = self.world.now_s
        for source in self.assembly.sources:
            for flow in source.jobs(now_s):
                self.start(flow, self._job_over)
        times = [t for s in self.assembly.sources if (t := s.next_s(now_s)) is not None]
        soonest_s = min(times, default=now_s + 30.0)
        self._next_look_s = max(now_s + 0.001, min(soonest_s, now_s + 30.0))
        self.world.at(self._next_look_s, self.wake)

    def _job_over(self, _: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self.wake()

    def _disk(self, work: Work) -> Any:
        return work.run()
