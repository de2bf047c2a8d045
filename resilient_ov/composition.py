"""The composition root: builds one backend from settings; the only place that makes adapters.

Rule: a pure function of its arguments. Nothing is read, opened, bound or started here; threads,
sockets and files come with the first use.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from resilient_ov import events
from resilient_ov.adapters.background import Background
from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.adapters.pybreaker_state import PybreakerMirror
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.stamina_retry import StaminaAttempts
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.identity import server_id
from resilient_ov.domain.ports import Clock
from resilient_ov.drivers import AsyncDriver, SyncDriver
from resilient_ov.memory import Memory
from resilient_ov.policy.breaker import BreakerState, Transition
from resilient_ov.policy.permits import Gate
from resilient_ov.policy.refusals import Change
from resilient_ov.settings import Settings
from resilient_ov.usecases.backlog import Backlog
from resilient_ov.usecases.call import Calls
from resilient_ov.usecases.changes import told
from resilient_ov.usecases.deliver import Deliver
from resilient_ov.usecases.drain import Drain
from resilient_ov.usecases.extraction import Extractions
from resilient_ov.usecases.look import Looks
from resilient_ov.usecases.rebuild import Rebuilds
from resilient_ov.usecases.recall import Recall
from resilient_ov.usecases.remember import Remember
from resilient_ov.usecases.settle import Settler
from resilient_ov.usecases.sweep import Sweeper
from resilient_ov.usecases.warm import Warm
from resilient_ov.usecases.writer import Writer

_DISK_THREADS = 8
_DISK_WAITING = 512
# Four deliveries, a list being read, a sweep, an extraction look-up, a tick.
_JOB_THREADS = 8
_CLOSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the outside lends to a backend: where its events go, its key, transports around ours.

    ``key`` gives the current key without I/O; ``refresh_key`` reads it again (blocks) and tells
    whether it changed.
    """

    sink: events.EventSink
    key: Callable[[], str | None]
    refresh_key: Callable[[], bool] = lambda: False
    scope_call: events.CallScope = events.no_scope
    wrap: Callable[[httpx.BaseTransport], httpx.BaseTransport] = lambda inner: inner
    wrap_async: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport] = lambda inner: inner


class Backend:
    """A whole memory backend of one process, ready to run flows in both colours.

    Thread-safe. In a forked child it is useless: make a new one there (``pid`` tells).
    """

    def __init__(
        self,
        *,
        memory: Memory,
        drain: Drain,
        sync: SyncDriver,
        background: Background,
        gate: Gate,
        breakers: PybreakerMirror,
        store: FileWatermarkStore,
        writer: Writer,
        sweeper: Sweeper,
        clock: Clock,
        make_async: Callable[[], tuple[AsyncDriver, Callable[[], None]]],
        close: Callable[[], None],
    ) -> None:
        self.memory = memory
        self.drain = drain
        self.sync = sync
        self.background = background
        self.gate = gate
        self.breakers = breakers
        self.store = store
        self.writer = writer
        self.sweeper = sweeper
        self.clock = clock
        self.pid = os.getpid()
        self._make_async = make_async
        self._close = close
        self._lock = threading.Lock()
        self._async: tuple[AsyncDriver, Callable[[], None]] | None = None
        self._closed = False

    @property
    def asynchronous(self) -> AsyncDriver:
        """The driver for event loops; made at first use."""
        with self._lock:
            if self._async is None:
                self._async = self._make_async()
            return self._async[0]

    def close(self) -> None:
        """Release threads, sockets and locks within a second; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            asynchronous = self._async
        self.memory.closed = True
        self.background.stop(_CLOSE_S)
        if asynchronous is not None:
            asynchronous[1]()
        self._close()


def compose(settings: Settings, around: Surroundings) -> Backend:
    """Build a backend; nothing is touched before its first call."""
    clock, dice = SystemClock(), SystemDice()
    sink = around.sink
    disk = WorkerPool(threads=_DISK_THREADS, waiting=_DISK_WAITING, name="resilient-ov-disk")
    jobs = WorkerPool(threads=_JOB_THREADS, waiting=0, name="resilient-ov-job")
    resolver = Resolver(now=clock.monotonic_s)

    def healed() -> None:
        sink.emit(events.PoolHealed())

    server = HttpxMemoryServer(
        settings,
        key=around.key,
        on_healed=healed,
        resolver=resolver,
        wrap=around.wrap,
        now=clock.monotonic_s,
    )
    sync = SyncDriver(server, disk, clock, time.sleep)
    background = Background(sync, jobs, clock)
    breakers = PybreakerMirror(lambda: sink.emit(events.SinkError(sink=events.SinkName.LISTENER)))
    gate = Gate(
        breaker=settings.breaker,
        limits=settings.limits,
        retry=settings.retry,
        fraction=dice.fraction,
    )
    recovered: list[Callable[[], None]] = []

    def on_changes(changes: tuple[Change, ...]) -> None:
        if not changes:
            return
        for event in told(changes, clock.monotonic_s()):
            sink.emit(event)
        breakers.apply(changes)
        if any(isinstance(c, Transition) and c.to_state is BreakerState.CLOSED for c in changes):
            for tell in recovered:
                tell()

    calls = Calls(
        gate=gate,
        series=StaminaAttempts,
        max_attempts=settings.retry.max_attempts,
        sink=sink,
        on_changes=on_changes,
        clock=clock,
        dice=dice,
    )
    store = FileWatermarkStore(
        settings.storage_path,
        dice=dice,
        workers=disk,
        on_lock_missing=lambda: sink.emit(
            events.StateError(reason=events.StateErrorReason.LOCK_MISSING)
        ),
    )
    deliver = Deliver(
        calls=calls,
        store=store,
        settler=Settler(
            Looks(clock),
            sink,
            clock,
            settle_s=settings.session.settle_s,
            window=settings.watermark.window,
        ),
        rebuilds=Rebuilds(),
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
        wake=background.wake,
    )
    recovered.append(writer.recovered)
    sweeper = Sweeper(
        store=store,
        deliver=deliver,
        writer_holds=writer.holds,
        sink=sink,
        clock=clock,
        dice=dice,
        settle_s=settings.session.settle_s,
        commit_min_s=settings.session.commit_min_s,
    )
    background.serve((writer, extractions, sweeper))
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
        gate=gate,
        sink=sink,
        clock=clock,
        scope_call=around.scope_call,
    )

    def make_async() -> tuple[AsyncDriver, Callable[[], None]]:
        asynchronous = AsyncHttpxMemoryServer(
            settings,
            key=around.key,
            on_healed=healed,
            resolver=resolver,
            wrap=around.wrap_async,
            now=clock.monotonic_s,
        )
        return AsyncDriver(asynchronous, disk, clock, asyncio.sleep), asynchronous.close

    def close() -> None:
        server.close()
        store.close()
        jobs.close()
        disk.close()

    return Backend(
        memory=memory,
        drain=Drain(
            backlog=backlog,
            writer=writer,
            deliver=deliver,
            sink=sink,
            clock=clock,
            calls_in_flight=memory.writes_in_flight,
        ),
        sync=sync,
        background=background,
        gate=gate,
        breakers=breakers,
        store=store,
        writer=writer,
        sweeper=sweeper,
        clock=clock,
        make_async=make_async,
        close=close,
    )
