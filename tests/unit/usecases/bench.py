"""A gateway process on a simulated world in which only what a test asks for goes wrong."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from resilient_ov import events
from resilient_ov.domain.exchange import Answer, Command, Evidence, Failure, FailureKind
from resilient_ov.domain.identity import openviking_user, scope, session_id
from resilient_ov.memory import Who
from resilient_ov.settings import Settings
from resilient_ov.testing.memory_store import MemoryPlace
from tests.simulation.model_server import ModelServer
from tests.simulation.process import SETTINGS, Process
from tests.simulation.world import World

Twist = Callable[[Command], Answer | None]


class TwistedServer(ModelServer):
    """Answers as the model does, unless a test's twist answers first."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.twists: list[Twist] = []
        self.seen: list[Command] = []

    def apply(self, command: Command) -> Answer:
        self.seen.append(command)
        for twist in self.twists:
            answer = twist(command)
            if answer is not None:
                return answer
        return super().apply(command)

    def count(self, kind: type) -> int:
        return sum(isinstance(command, kind) for command in self.seen)


class Recorder:
    """Keeps every event."""

    def __init__(self) -> None:
        self.all: list[events.Event] = []

    def emit(self, event: events.Event) -> None:
        self.all.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]


class Bench:
    def __init__(self, settings: Settings = SETTINGS, place: MemoryPlace | None = None) -> None:
        self.world = World(1)
        self.server = TwistedServer(self.world)
        self.place = place or MemoryPlace()
        self.settings = settings
        self.told = Recorder()
        self.process = self.another()
        self.who = Who(user_id="alice", thread_id="thread-1", trace_id="trace-1")

    def another(self) -> Process:
        """Another process on the same place; its events are recorded too."""
        made = Process(self.world, self.server, self.place, self.settings, sink=self.told)
        self.let(0.0)
        return made

    @property
    def session(self) -> tuple[str, str]:
        owner = scope("default", "alice", None)
        return openviking_user(owner), session_id(owner, "thread-1")

    @property
    def stored(self) -> list[str]:
        session = self.server.sessions.get(self.session)
        return [] if session is None else session.digests()

    @property
    def state(self) -> Any:
        return self.place.states.get(self.session[1])

    def let(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(lambda: False, limit_s=seconds)

    def until(self, condition: Callable[[], bool], limit_s: float = 120.0) -> None:
        assert self.world.run(condition, limit_s=limit_s), "it did not happen in time"

    def call(self, flow: Any, process: Process | None = None) -> Any:
        """Run a call to its end."""
        box: list[tuple[Any, BaseException | None]] = []
        (process or self.process).start(flow, lambda result, error: box.append((result, error)))
        self.until(lambda: bool(box))
        result, error = box[0]
        if error is not None:
            raise error
        return result

    def add(self, messages: list[Any], process: Process | None = None) -> str:
        """Call ``add``; return the outcome that was told."""
        used = process or self.process
        self.call(used.assembly.memory.add(self.who, messages, None), used)
        return self.told.of(events.CallFinished)[-1].outcome.value

    def dropped(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for event in self.told.of(events.MessagesDropped):
            found[event.reason.value] = found.get(event.reason.value, 0) + event.count
        return found


def thread(count: int, first: int = 1, ids: bool = True) -> list[Any]:
    """A thread of alternating messages."""
    return [
        SimpleNamespace(
            type="human" if n % 2 else "ai",
            content=f"words {n}",
            id=f"m{n}" if ids else None,
            additional_kwargs={},
            tool_calls=[],
        )
        for n in range(first, first + count)
    ]


def changed(**groups: Any) -> Settings:
    """The default settings with some groups changed."""
    return replace(SETTINGS, **groups)


def refusal(status: int, code: str = "INVALID_ARGUMENT", **facts: Any) -> Failure:
    kinds = {401: FailureKind.AUTH, 403: FailureKind.AUTH, 429: FailureKind.RATE_LIMITED}
    kind = kinds.get(status, FailureKind.CLIENT_ERROR if status < 500 else FailureKind.SERVER_ERROR)
    return Failure(
        kind=kind,
        evidence=Evidence.ANSWERED,
        status=status,
        code=code,
        enveloped=True,
        byte_received=True,
        **facts,
    )
