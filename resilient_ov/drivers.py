"""The only two places that perform a flow's steps: one for a thread, one for an event loop.

Rule: a driver adds no decision of its own. An exception of a step, cancellation included, is
thrown into the flow at its yield, so the flow's contexts see the true reason and release what
they hold; then it passes on.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from resilient_ov.domain.ports import AsyncMemoryServer, Clock, MemoryServer, Workers
from resilient_ov.usecases.steps import Compute, Flow, Send, Step, Wait, Work, WorkLateError

R = TypeVar("R")


class SyncDriver:
    """Runs flows on the calling thread. Stateless: safe from many threads at once."""

    def __init__(
        self, server: MemoryServer, workers: Workers, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        self._server = server
        self._workers = workers
        self._clock = clock
        self._sleep = sleep

    def run(self, flow: Flow[R]) -> R:
        """Run ``flow`` to its end; its errors pass through."""
        result: Any = None
        error: BaseException | None = None
        try:
            while True:
                step = flow.send(result) if error is None else flow.throw(error)
                result = error = None
                try:
                    result = self._perform(step)
                except BaseException as raised:  # noqa: BLE001 - the flow decides what to do with it
                    error = raised
        except StopIteration as end:
            # The flow's own end: what a step raises never gets here.
            return cast("R", end.value)
        finally:
            flow.close()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Send):  # first, because it is on the path of every success
            return self._server.send(step.attempt)
        match step:
            case Wait(delay_s):
                return self._sleep(delay_s)
            case Work(run, deadline_s):
                return self._work(run, deadline_s)
            case Compute(run):
                return run()

    def _work(self, run: Callable[[], object], deadline_s: float) -> object:
        finished = threading.Event()
        box: list[tuple[object, BaseException | None]] = []

        def done(result: object, error: BaseException | None) -> None:
            box.append((result, error))
            finished.set()

        if not self._workers.submit(run, done):
            raise WorkLateError
        finished.wait(max(0.0, deadline_s - self._clock.monotonic_s()))
        if not box:
            raise WorkLateError
        result, error = box[0]
        if error is not None:
            raise error
        return result


class AsyncDriver:
    """Runs flows on the running event loop. Stateless: usable from several loops at once."""

    def __init__(
        self,
        server: AsyncMemoryServer,
        workers: Workers,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._server = server
        self._workers = workers
        self._clock = clock
        self._sleep = sleep

    async def run(self, flow: Flow[R]) -> R:
        """Run ``flow`` to its end; its errors and cancellation pass through."""
        result: Any = None
        error: BaseException | None = None
        try:
            while True:
                step = flow.send(result) if error is None else flow.throw(error)
                result = error = None
                try:
                    result = await self._perform(step)
                except BaseException as raised:  # noqa: BLE001 - the flow decides what to do with it
                    error = raised
        except StopIteration as end:
            # The flow's own end: what a step raises never gets here.
            return cast("R", end.value)
        finally:
            flow.close()

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Send):  # first, because it is on the path of every success
            return await self._server.send(step.attempt)
        match step:
            case Wait(delay_s):
                return await self._sleep(delay_s)
            case Work(run, deadline_s):
                return await self._work(run, deadline_s)
            case Compute(run):
                return await self._work(run, None)

    async def _work(self, run: Callable[[], object], deadline_s: float | None) -> object:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def settle(result: object, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def done(result: object, error: BaseException | None) -> None:
            if not loop.is_closed():
                try:
                    loop.call_soon_threadsafe(settle, result, error)
                except RuntimeError:
                    # The loop closed between the two lines; nobody waits for this any more.
                    return

        if not self._workers.submit(run, done):
            if deadline_s is None:
                return run()  # pure work with no free worker: better late here than not at all
            raise WorkLateError
        if deadline_s is None:
            return await future
        left_s = max(0.0, deadline_s - self._clock.monotonic_s())
        try:
            async with asyncio.timeout(left_s):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled() and future.exception() is None:
                return future.result()
            raise WorkLateError from None
