"""Builds histories by hand: a run of one gateway with a fault from 10 s to 20 s."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resilient_ov_chaos.checkers.catalogue import CHECKERS
from resilient_ov_chaos.expectation import Expectation, Reads
from resilient_ov_chaos.history import (
    BreakerMoved,
    Call,
    CallBegan,
    CallEnded,
    Colour,
    Connected,
    Delivered,
    Event,
    History,
    Loop,
    MetricsPage,
    ProcessEvent,
    Record,
    Resources,
    Result,
    Stall,
    Trouble,
    WireAttempt,
)
from resilient_ov_chaos.knobs import QUICK, Knobs
from resilient_ov_chaos.ledger import Ledger, Leftovers, Shelf
from resilient_ov_chaos.marks import owner_of, thread_of
from resilient_ov_chaos.verdict import Finding, Run, Status

RUN = "abc123"
THREAD = f"mk{RUN}p00t000"
SEED = f"mk{RUN}p00seed"


def msg(number: int, role: str = "h", thread: str = THREAD) -> str:
    return f"{thread}n{number:04d}{role}"


class Story:
    """A run in the making; every method adds to it and returns it."""

    def __init__(self, expectation: Expectation | None = None, knobs: Knobs = QUICK) -> None:
        self.records: list[Record] = [
            self.event(0, Event.STARTED, 0.0),
            Trouble(at_s=10.0, on=True),
            Trouble(at_s=20.0, on=False),
        ]
        self.shelves: list[Shelf] = []
        self.texts: dict[str, str] = {}
        self.canaries: dict[str, str] = {}
        self.knobs = knobs
        self.expectation = expectation or Expectation(told="", reads=Reads.SERVED)
        self._numbers = 0

    @staticmethod
    def event(process: int, event: Event, at_s: float, role: str = "gateway") -> ProcessEvent:
        return ProcessEvent(process=process, at_s=at_s, event=event, role=role)

    def add(self, *records: Record) -> "Story":
        self.records += records
        return self

    def process(self, number: int, role: str = "gateway", at_s: float = 0.0) -> "Story":
        return self.add(self.event(number, Event.STARTED, at_s, role))

    def ended(self, number: int, event: Event, at_s: float) -> "Story":
        return self.add(self.event(number, event, at_s))

    def call(
        self,
        call: Call,
        began_s: float,
        took_s: float | None = 0.01,
        result: Result | None = None,
        *,
        process: int = 0,
        presented: Sequence[str] = (),
        got: Sequence[str] = (),
        colour: Colour = Colour.SYNC,
        persona: int = 0,
        error: str | None = None,
    ) -> "Story":
        """Add a call; ``took_s`` None = it never ended."""
        self._numbers += 1
        self.add(
            CallBegan(
                process=process,
                number=self._numbers,
                at_s=began_s,
                call=call,
                colour=colour,
                persona=persona,
                thread=thread_of(presented[0]) if presented else None,
                presented=tuple(presented),
            )
        )
        if took_s is None:
            return self
        return self.add(
            CallEnded(
                process=process,
                number=self._numbers,
                at_s=began_s + took_s,
                result=result or RESULTS[call],
                error=error,
                got=tuple(got),
            )
        )

    def wire(self, began_s: float, took_s: float = 0.01, **rest: Any) -> "Story":
        known: dict[str, Any] = {
            "process": 0, "operation": "search", "group": "recall", "request": f"r{began_s}",
            "attempt": 1, "ok": True, "outcome": "200",
        }  # fmt: skip
        return self.add(WireAttempt(began_s=began_s, ended_s=began_s + took_s, **{**known, **rest}))

    def breaker(
        self, *moves: tuple[float, str], group: str = "recall", process: int = 0
    ) -> "Story":
        for number, (at_s, state) in enumerate(moves, 1):
            self.add(
                BreakerMoved(
                    process=process,
                    at_s=at_s,
                    group=group,
                    number=number,
                    to_state=state,
                    open_until_s=at_s + 1.0 if state == "open" else None,
                )
            )
        return self

    def stall(
        self,
        at_s: float,
        length_s: float,
        loop: Loop = Loop.TRAFFIC,
        *,
        queued_s: float = 0.0,
        process: int = 0,
    ) -> "Story":
        return self.add(
            Stall(
                process=process, at_s=at_s, length_s=length_s, cpu_s=0.0, queued_s=queued_s,
                loop=loop,
            )
        )  # fmt: skip

    def connect(self, *at_s: float) -> "Story":
        return self.add(*(Connected(process=0, at_s=each) for each in at_s))

    def resources(self, moment: str, **rest: int) -> "Story":
        known: dict[str, Any] = {
            "threads": 10, "own_threads": 4, "sockets": 4, "files": 20, "rss_bytes": 10**8,
        }  # fmt: skip
        return self.add(Resources(process=0, at_s=30.0, moment=moment, **{**known, **rest}))

    def metrics(self, samples: dict[str, float], process: int = 0, at_s: float = 40.0) -> "Story":
        return self.add(MetricsPage(process=process, at_s=at_s, samples=samples))

    def delivered(self, at_s: float) -> "Story":
        return self.add(Delivered(at_s=at_s))

    def stored(self, *marks: str, persona: int | None = None, thread: str | None = "") -> "Story":
        """Put messages onto the server, by default where they belong."""
        self.shelves.append(
            Shelf(
                persona=owner_of(marks[0]) if persona is None else persona,
                thread=thread_of(marks[0]) if thread == "" else thread,
                marks=marks,
            )
        )
        return self

    def expect(self, **changes: Any) -> "Story":
        self.expectation = replace(self.expectation, **changes)
        return self

    def run(self) -> Run:
        return Run(
            history=History(self.records),
            ledger=Ledger(shelves=tuple(self.shelves)),
            leftovers=Leftovers(texts=self.texts, canaries=self.canaries),
            knobs=self.knobs,
            expectation=self.expectation,
        )

    def say(self, checker: str, call: Call | None = None) -> Finding:
        """Return what a checker says about one call."""
        (found,) = [each for each in CHECKERS[checker](self.run()) if each.call is call]
        assert found.checker == checker
        assert bool(found.text) is (found.status is not Status.GREEN)
        return found

    def status(self, checker: str, call: Call | None = None) -> Status:
        return self.say(checker, call).status


RESULTS = {
    Call.WARM: Result.READY,
    Call.GET_CONTEXT: Result.SERVED,
    Call.SEARCH: Result.SERVED,
    Call.ADD: Result.ACCEPTED,
    Call.ADD_NOWAIT: Result.ACCEPTED,
    Call.FLUSH: Result.DRAINED,
}
