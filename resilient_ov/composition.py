"""The composition root: builds one backend from settings; the only place that makes adapters.

Rule: ``compose`` is a pure function of its arguments. Nothing is read, opened, bound or started by
it; threads, sockets and files come with the first use.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import httpx

from resilient_ov import events
from resilient_ov.adapters.background import Background
from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.adapters.pybreaker_state import PybreakerMirror
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.stamina_retry import StaminaAttempts
from resilient_ov.adapters.status_file import StatusFiles
from resilient_ov.adapters.status_teller import Board, StatusTeller
from resilient_ov.adapters.switch_file import SwitchFile
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.assembly import Assembly, Outside, assemble
from resilient_ov.domain.ports import Clock
from resilient_ov.drivers import AsyncDriver, SyncDriver
from resilient_ov.policy.switches import SwitchError
from resilient_ov.settings import Settings
from resilient_ov.usecases.steps import JobSource
from resilient_ov.usecases.ticks import Tick

_DISK_THREADS = 8
_DISK_WAITING = 512
# Four deliveries, a list being read, a sweep, an extraction look-up, a tick.
_JOB_THREADS = 8
_CLOSE_S = 0.5
_KEY_EVERY_S = 5.0
_SWITCHES_EVERY_S = 0.5
_STATUS_EVERY_S = 0.5

_LOG = logging.getLogger("resilient_ov")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the outside lends to a backend: where its events go, its key, transports around ours.

    ``key`` gives the current key without I/O; ``refresh_key`` reads it again (blocks; may raise
    ValueError) and tells whether it changed. ``board`` is written to the status file.
    """

    sink: events.EventSink
    key: Callable[[], str | None]
    board: Board | None = None
    refresh_key: Callable[[], bool] = lambda: False
    scope_call: events.CallScope = events.no_scope
    wrap: Callable[[httpx.BaseTransport], httpx.BaseTransport] = lambda inner: inner
    wrap_async: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport] = lambda inner: inner


def plain_surroundings(settings: Settings) -> Surroundings:
    """Return surroundings without sinks; the key is read when they are made, and again later.

    Raises:
        ValueError: the key is missing or unusable; names its source, never the value.
    """
    source = ApiKeySource(settings.auth)
    source.refresh()

    def key() -> str | None:
        current = source.current()
        return None if current is None else current.reveal()

    return Surroundings(
        sink=events.NullSink(), key=key, refresh_key=lambda: source.refresh(force=True)
    )


class Backend:
    """A whole memory backend of one process, ready to run flows in both colours.

    Thread-safe. In a forked child it is useless: make a new one there (``pid`` tells).
    """

    def __init__(
        self,
        *,
        assembly: Assembly,
        sync: SyncDriver,
        background: Background,
        breakers: PybreakerMirror,
        store: FileWatermarkStore,
        clock: Clock,
        make_async: Callable[[], tuple[AsyncDriver, Callable[[], None]]],
        close: Callable[[], None],
    ) -> None:
        self.memory = assembly.memory
        self.drain = assembly.drain
        self.gate = assembly.gate
        self.writer = assembly.writer
        self.sweeper = assembly.sweeper
        self.switching = assembly.switching
        self.sync = sync
        self.background = background
        self.breakers = breakers
        self.store = store
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
    clock, dice, sink = SystemClock(), SystemDice(), around.sink
    disk = WorkerPool(threads=_DISK_THREADS, waiting=_DISK_WAITING, name="resilient-ov-disk")
    jobs = WorkerPool(threads=_JOB_THREADS, waiting=0, name="resilient-ov-job")
    resolver = Resolver(now=clock.monotonic_s)
    server = HttpxMemoryServer(
        settings,
        key=around.key,
        on_healed=lambda: sink.emit(events.PoolHealed()),
        resolver=resolver,
        wrap=around.wrap,
        now=clock.monotonic_s,
    )
    sync = SyncDriver(server, disk, clock, time.sleep)
    background = Background(sync, jobs, clock)
    breakers = PybreakerMirror(lambda: sink.emit(events.SinkError(sink=events.SinkName.LISTENER)))
    store = FileWatermarkStore(
        settings.storage_path,
        dice=dice,
        workers=disk,
        on_lock_missing=lambda: sink.emit(
            events.StateError(reason=events.StateErrorReason.LOCK_MISSING)
        ),
    )

    status_files = StatusFiles(store.place, store.owners, clock)

    def look_at_key() -> None:
        if around.refresh_key():
            assembly.on_changes(assembly.gate.clear_auth_holds())

    key_tick = Tick(look_at_key, every_s=_KEY_EVERY_S, clock=clock, expected=(OSError, ValueError))
    assembly = assemble(
        settings,
        Outside(
            clock=clock,
            dice=dice,
            sink=sink,
            store=store,
            series=StaminaAttempts,
            wake=background.wake,
            mirror=breakers.apply,
            auth_held=key_tick.hurry,
            scope_call=around.scope_call,
            bury_dead=status_files.bury_dead,
        ),
    )
    switch_file = SwitchFile(store.place, clock)

    def look_at_switches() -> None:
        try:
            changed = switch_file.changed()
        except SwitchError as error:
            _LOG.warning("the switch file is left alone, the switches stay as they are: %s", error)
            changed = None
        if changed is None:
            assembly.switching.look()
        else:
            assembly.switching.put(changed)

    switch_tick = Tick(look_at_switches, every_s=_SWITCHES_EVERY_S, clock=clock)
    sources: list[JobSource] = [*assembly.sources, key_tick, switch_tick]
    teller = (
        StatusTeller(
            around.board,
            status_files,
            assembly.writer.waiting_messages,
            assembly.writer.waiting_sessions,
        )
        if around.board is not None
        else None
    )
    if teller is not None:
        sources.append(Tick(teller.tell, every_s=_STATUS_EVERY_S, clock=clock))
    background.serve(sources)

    def make_async() -> tuple[AsyncDriver, Callable[[], None]]:
        asynchronous = AsyncHttpxMemoryServer(
            settings,
            key=around.key,
            on_healed=lambda: sink.emit(events.PoolHealed()),
            resolver=resolver,
            wrap=around.wrap_async,
            now=clock.monotonic_s,
        )
        return AsyncDriver(asynchronous, disk, clock, asyncio.sleep), asynchronous.close

    def close() -> None:
        server.close()
        if teller is not None:
            with suppress(OSError):  # a place that is gone has no file to remove
                teller.close()
        store.close()
        jobs.close()
        disk.close()

    return Backend(
        assembly=assembly,
        sync=sync,
        background=background,
        breakers=breakers,
        store=store,
        clock=clock,
        make_async=make_async,
        close=close,
    )
