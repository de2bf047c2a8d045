"""What happened in a run, as the outside saw it: one record per line, and questions about them.

Rule: pure. Times are readings of the machine's monotonic clock, which all processes share. The
product's own view (its metrics page) is one record among others and never answers for the rest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, TypeAdapter


class Call(StrEnum):
    """What the host asks for; the names of the manager's methods."""

    WARM = "warm"
    GET_CONTEXT = "get_context"
    SEARCH = "search"
    ADD = "add"
    ADD_NOWAIT = "add_nowait"
    FLUSH = "flush"


class Colour(StrEnum):
    """How it is called: from a thread, or on an event loop."""

    SYNC = "sync"
    ASYNC = "async"


class Result(StrEnum):
    """What the host saw at the end of a call."""

    SERVED = "served"
    """A read that gave the memory that is known to be there."""
    EMPTY = "empty"
    """A read that gave nothing: the turn goes on without memory."""
    ACCEPTED = "accepted"
    """A write that returned; its messages are owed to the server."""
    DRAINED = "drained"
    """A flush that says nothing is left."""
    LEFT = "left"
    """A flush that says something is left, or a warm that says memory is not usable."""
    READY = "ready"
    RAISED = "raised"


class Loop(StrEnum):
    """Whose event loop: the one that calls the product, or the idle one beside it."""

    TRAFFIC = "traffic"
    CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegan:
    """A call was made. ``presented`` = marks of the messages handed over, in order."""

    kind: Literal["began"] = "began"
    process: int
    number: int
    at_s: float
    call: Call
    colour: Colour
    persona: int | None = None
    thread: str | None = None
    presented: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call returned or raised. ``got`` = marks seen in what it returned."""

    kind: Literal["ended"] = "ended"
    process: int
    number: int
    at_s: float
    result: Result
    error: str | None = None
    got: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAttempt:
    """One attempt of the product on the wire.

    ``outcome``: an HTTP status or what went wrong. ``carried``: marks of the messages in it.
    """

    kind: Literal["wire"] = "wire"
    process: int
    began_s: float
    ended_s: float
    operation: str
    group: str | None
    request: str
    attempt: int
    ok: bool
    outcome: str
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The product is about to send messages; the attempt may outlive what is written down."""

    kind: Literal["sending"] = "sending"
    process: int
    at_s: float
    carried: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The product tried to open a connection to the server's address."""

    kind: Literal["connect"] = "connect"
    process: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerMoved:
    """A breaker changed. ``open_until_s``: the end of the period, when it opened."""

    kind: Literal["breaker"] = "breaker"
    process: int
    at_s: float
    group: str
    number: int
    to_state: str
    open_until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """An event loop came back ``length_s`` later than it wanted to, at ``at_s``.

    In that time its thread computed for ``cpu_s`` and waited for a processor for ``queued_s``.
    """

    kind: Literal["stall"] = "stall"
    process: int
    at_s: float
    length_s: float
    cpu_s: float
    queued_s: float
    loop: Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The server took ``took_s`` for next to nothing, asked from beside the traffic."""

    kind: Literal["pulse"] = "pulse"
    at_s: float
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a process holds. ``moment``: ``baseline``, ``end`` or ``closed``."""

    kind: Literal["resources"] = "resources"
    process: int
    at_s: float
    moment: str
    threads: int
    own_threads: int
    sockets: int
    files: int
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """The product's metrics; keys like ``openviking_calls_total{call="add",outcome="ok"}``."""

    kind: Literal["metrics"] = "metrics"
    process: int
    at_s: float
    samples: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A process has done what it was told."""

    kind: Literal["done"] = "done"
    process: int
    at_s: float
    command: str


class Event(StrEnum):
    """What became of a process."""

    STARTED = "started"
    KILLED = "killed"
    STOPPED = "stopped"
    WENT_ON = "went_on"
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvent:
    """Something was done to a process of the product, or it ended."""

    kind: Literal["process"] = "process"
    process: int
    at_s: float
    event: Event
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The fault began (``on``), or its mending did."""

    kind: Literal["fault"] = "fault"
    at_s: float
    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """All that was broken works again; mending has taken its time."""

    kind: Literal["mended"] = "mended"
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBack:
    """The server served a search that was asked of it beside the product, after the mending."""

    kind: Literal["server_back"] = "server_back"
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Everything that was accepted before the fault ended was seen on the server."""

    kind: Literal["delivered"] = "delivered"
    at_s: float


Record = (
    CallBegan
    | CallEnded
    | WireAttempt
    | Sending
    | Connected
    | BreakerMoved
    | Stall
    | Pulse
    | Resources
    | MetricsPage
    | Acknowledged
    | ProcessEvent
    | Trouble
    | Mended
    | ServerBack
    | Delivered
)

RecordT = TypeVar("RecordT", bound=Record)

_RECORDS: Final[TypeAdapter[Record]] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def to_line(record: Record) -> bytes:
    """Return the record as one line of JSON, its end included."""
    return _RECORDS.dump_json(record, exclude_defaults=False) + b"\n"


def from_line(line: bytes) -> Record:
    """Return a line's record.

    Raises:
        ValueError: it is none.

    """
    return _RECORDS.validate_json(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call from begin to end; ``ended_s`` None = its process did not live to see the end."""

    process: int
    number: int
    call: Call
    colour: Colour
    persona: int | None
    thread: str | None
    presented: tuple[str, ...]
    began_s: float
    ended_s: float | None = None
    result: Result | None = None
    error: str | None = None
    got: tuple[str, ...] = ()

    @property
    def took_s(self) -> float:
        """Its length; infinite while it has no end."""
        return float("inf") if self.ended_s is None else self.ended_s - self.began_s

    @property
    def status(self) -> Literal["ok", "failed", "unknown"]:
        """Return Jepsen's word for it."""
        if self.result is None:
            return "unknown"
        return "failed" if self.result in _FAILED else "ok"


_ABOUT_S: Final = 2.0
_FAILED: Final = frozenset({Result.EMPTY, Result.RAISED, Result.LEFT})


class History:
    """All records of one run."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = tuple(records)
        self.operations = _operations(self.records)
        self._idle_stalls = [
            each for each in self.records if isinstance(each, Stall) and each.loop is Loop.CONTROL
        ]

    def of(self, kind: type[RecordT]) -> tuple[RecordT, ...]:
        """Return the records of one kind, in the order they were written down."""
        return tuple(record for record in self.records if isinstance(record, kind))

    def calls(self, *calls: Call) -> tuple[Operation, ...]:
        """Return the operations of these calls, by their begin."""
        return tuple(each for each in self.operations if each.call in calls)

    def processes(self, role: str) -> tuple[int, ...]:
        """Return the processes that had a role, in the order of their start."""
        started = [each for each in self.of(ProcessEvent) if each.event is Event.STARTED]
        return tuple(each.process for each in started if each.role == role)

    @property
    def fault_s(self) -> tuple[float, float]:
        """Begin of the trouble and of its mending; an empty window when there was none."""
        on = [each.at_s for each in self.of(Trouble) if each.on]
        off = [each.at_s for each in self.of(Trouble) if not each.on]
        return (min(on), max(off)) if on and off else (float("inf"), float("inf"))

    @property
    def mended_s(self) -> float:
        """From when on everything worked again."""
        return max((each.at_s for each in self.of(Mended)), default=self.fault_s[1])

    @property
    def server_back_s(self) -> float:
        """From when on the server itself served a search; it may stay sick after the mending."""
        told_s = min((each.at_s for each in self.of(ServerBack)), default=self.mended_s)
        return max(self.mended_s, told_s)

    def hiccup_s(self, process: int, began_s: float, ended_s: float) -> float:
        """Return how long an idle event loop of the process stood still once, about this time.

        What the machine does to a loop with nothing to do it may do to anything at that time.
        """
        return max(
            (
                each.length_s
                for each in self._idle_stalls
                if each.process == process
                and began_s - _ABOUT_S <= each.at_s <= ended_s + each.length_s + _ABOUT_S
            ),
            default=0.0,
        )

    def noise_s(self, process: int, began_s: float, ended_s: float) -> float:
        """Return how long an idle event loop of the process stood still in this time.

        That is the machine's doing (or the suite's, when it stopped the process), so it is taken
        off whatever the product is measured by.
        """
        return sum(
            max(0.0, min(ended_s, each.at_s) - max(began_s, each.at_s - each.length_s))
            for each in self._idle_stalls
            if each.process == process
        )


def _operations(records: Iterable[Record]) -> tuple[Operation, ...]:
    found: dict[tuple[int, int], Operation] = {}
    for record in records:
        if isinstance(record, CallBegan):
            found[record.process, record.number] = Operation(
                process=record.process,
                number=record.number,
                call=record.call,
                colour=record.colour,
                persona=record.persona,
                thread=record.thread,
                presented=record.presented,
                began_s=record.at_s,
            )
        elif isinstance(record, CallEnded):
            began = found.get((record.process, record.number))
            if began is not None:
                found[record.process, record.number] = replace(
                    began,
                    ended_s=record.at_s,
                    result=record.result,
                    error=record.error,
                    got=record.got,
                )
    return tuple(sorted(found.values(), key=lambda each: each.began_s))


def lines_of(records: Iterable[Record]) -> Iterator[bytes]:
    """Return the records as lines."""
    return map(to_line, records)
