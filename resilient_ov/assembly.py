"""Wires the use cases of one process together, given what they need from the outside.

Rule: knows ports only, so production, tests and the simulation run the very same wiring.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resilient_ov import events
from resilient_ov.domain.identity import server_id
from resilient_ov.domain.ports import Clock, Dice, WatermarkStore
from resilient_ov.memory import Memory
from resilient_ov.policy.breaker import BreakerState, Transition
from resilient_ov.policy.holds import HoldChanged, HoldKind
from resilient_ov.policy.permits import Gate
from resilient_ov.policy.refusals import Change
from resilient_ov.settings import Settings
from resilient_ov.usecases.backlog import Backlog
from resilient_ov.usecases.call import AttemptSeries, Calls
from resilient_ov.usecases.changes import told
from resilient_ov.usecases.committing import Committing
from resilient_ov.usecases.compare import Comparison
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.drain import Drain
from resilient_ov.usecases.extraction import Extractions
from resilient_ov.usecases.look import Looks
from resilient_ov.usecases.persistence import Persistence
from resilient_ov.usecases.rebuild import Rebuilds
from resilient_ov.usecases.recall import Recall
from resilient_ov.usecases.remember import Remember
from resilient_ov.usecases.sending import Sending
from resilient_ov.usecases.settle import Settler
from resilient_ov.usecases.steps import JobSource
from resilient_ov.usecases.sweep import Sweeper
from resilient_ov.usecases.switching import Switching
from resilient_ov.usecases.warm import Warm
from resilient_ov.usecases.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the use cases need.

    ``wake`` makes the background look at its sources again; ``mirror`` hears of every change of
    the gate, ``auth_held`` of a refused key; ``bury_dead`` counts, once, what ended processes held
    in memory (blocks; may raise OSError).
    """

    clock: Clock
    dice: Dice
    sink: events.EventSink
    store: WatermarkStore
    series: Callable[[int], AttemptSeries]
    wake: Callable[[], None]
    mirror: Callable[[tuple[Change, ...]], None] = lambda _: None
    auth_held: Callable[[], None] = lambda: None
    scope_call: events.CallScope = events.no_scope
    bury_dead: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The use cases of one process. ``sources`` is what the background serves."""

    memory: Memory
    gate: Gate
    calls: Calls
    deliver: Deliver
    writer: Writer
    sweeper: Sweeper
    drain: Drain
    switching: Switching
    sources: Sequence[JobSource]
    on_changes: Callable[[tuple[Change, ...]], None]


def assemble(settings: Settings, outside: Outside) -> Assembly:
    """Build the use cases; nothing is touched."""
    clock, dice, sink, store = outside.clock, outside.dice, outside.sink, outside.store
    gate = Gate(
        breaker=settings.breaker,
        limits=settings.limits,
        retry=settings.retry,
        fraction=dice.fraction,
    )

    def on_changes(changes: tuple[Change, ...]) -> None:
        if not changes:
            return
        for event in told(changes, clock.monotonic_s()):
            sink.emit(event)
        outside.mirror(changes)
        if any(_lets_go_on(c) for c in changes):
            writer.recovered()
        if any(_auth_hold_began(c) for c in changes):
            outside.auth_held()

    calls = Calls(
        gate=gate,
        series=outside.series,
        max_attempts=settings.retry.max_attempts,
        sink=sink,
        on_changes=on_changes,
        clock=clock,
        dice=dice,
    )
    persistence = Persistence(store, sink, clock)
    deliver = Deliver(
        calls=calls,
        store=store,
        persistence=persistence,
        settler=Settler(
            Looks(clock),
            sink,
            clock,
            lives=store.owner_lives,
            settle_s=settings.session.settle_s,
            window=settings.watermark.window,
        ),
        comparison=Comparison(
            calls=calls, rebuilds=Rebuilds(), sink=sink, clock=clock, settings=settings
        ),
        sending=Sending(
            calls=calls, sink=sink, clock=clock, dice=dice, window=settings.watermark.window
        ),
        committing=Committing(calls=calls, sink=sink, clock=clock, wanted=settings.session),
        sink=sink,
        clock=clock,
        dice=dice,
        settings=settings,
        server_id=server_id(settings.base_url),
    )
    extractions = Extractions(calls=calls, sink=sink, clock=clock)
    backlog = Backlog(
        max_calls=settings.limits.write_queue, max_chars=settings.limits.write_queue_bytes
    )
    writer = Writer(
        backlog=backlog,
        deliver=deliver,
        extractions=extractions,
        sink=sink,
        clock=clock,
        dice=dice,
        delivery_s=settings.budgets.add_s,
        wake=outside.wake,
    )
    sweeper = Sweeper(
        store=store,
        deliver=deliver,
        writer=writer,
        bury_dead=outside.bury_dead,
        sink=sink,
        clock=clock,
        dice=dice,
        settle_s=settings.session.settle_s,
        commit_min_s=settings.session.commit_min_s,
        server_profile=settings.server_profile.value,
    )
    memory = Memory(
        settings=settings,
        recall=Recall(
            calls=calls,
            sink=sink,
            clock=clock,
            retrieval=settings.retrieval,
            stale_read_s=settings.stale_read_s,
        ),
        remember=Remember(
            deliver=deliver,
            writer=writer,
            extractions=extractions,
            sink=sink,
            clock=clock,
            dice=dice,
            wait_for_extraction=settings.session.wait_for_extraction,
        ),
        warm=Warm(calls=calls, score_threshold=settings.retrieval.score_threshold),
        persistence=persistence,
        gate=gate,
        sink=sink,
        clock=clock,
        scope_call=outside.scope_call,
    )
    drain = Drain(
        backlog=backlog,
        writer=writer,
        deliver=deliver,
        sink=sink,
        clock=clock,
        calls_in_flight=memory.writes_in_flight,
    )
    return Assembly(
        memory=memory,
        gate=gate,
        calls=calls,
        deliver=deliver,
        writer=writer,
        sweeper=sweeper,
        drain=drain,
        switching=Switching(
            gate=gate,
            sink=sink,
            clock=clock,
            on_changes=on_changes,
            on_change=writer.hurry,
        ),
        sources=(writer, extractions, sweeper),
        on_changes=on_changes,
    )


def _lets_go_on(change: Change) -> bool:
    """Tell whether what waits may be sent again: a breaker closed, or the key is good again."""
    if isinstance(change, Transition):
        return change.to_state is BreakerState.CLOSED
    return change.kind is HoldKind.AUTH and change.until_s is None


def _auth_hold_began(change: Change) -> bool:
    return (
        isinstance(change, HoldChanged)
        and change.kind is HoldKind.AUTH
        and change.until_s is not None
    )
