"""Memory for programs without DeerFlow: the same use cases behind a small facade.

Rule: translates words, decides nothing; what a call does when memory is away is said by the
settings (by default reads are empty, writes go on in the background, and nothing raises).
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar, cast

from resilient_ov import events
from resilient_ov.composition import Surroundings, plain_surroundings
from resilient_ov.domain.errors import OpenVikingError
from resilient_ov.memory import Memory, Who
from resilient_ov.per_process import BackendOfProcess
from resilient_ov.settings import Settings
from resilient_ov.usecases.steps import Flow

R = TypeVar("R")
Hit = dict[str, str | float]


class _Shared:
    """What both colours have in common: the process's backend and the calls that do no I/O."""

    def __init__(self, settings: Settings, *, around: Surroundings | None = None) -> None:
        self._settings = settings
        surroundings = plain_surroundings(settings) if around is None else around
        self._process = BackendOfProcess(settings, around=lambda: surroundings)

    def add_nowait(
        self,
        thread_id: str,
        messages: Sequence[object],
        *,
        user_id: str,
        agent_name: str | None = None,
    ) -> None:
        """Hand messages over for delivery in the background: no I/O, never raises.

        For messages that will not be presented again; the list is copied.
        """
        who = Who(user_id=user_id, agent_name=agent_name, thread_id=thread_id)
        self._process.backend().memory.hand_over(who, messages, None)


class Client(_Shared):
    """Memory for threads. Safe from many threads and after ``fork``; a context manager.

    Nothing is opened before the first call. One client serves all users: whose memory is meant is
    said in each call.

    Args:
        settings: see the README's table; ``resilient_ov_manager.host_config.settings_from_config``
            makes and checks them from a mapping.
        around: where events go; None = nowhere. ``resilient_ov_manager.sinks.Sinks`` makes log
            lines, metrics and spans of them.

    """

    def get_context(
        self, *, user_id: str, agent_name: str | None = None, query: str | None = None
    ) -> str:
        """Return a text for the prompt, ``""`` when there is none or memory is away.

        Takes at most ``budgets.get_context_seconds``. ``query`` None = the configured one.

        Raises:
            OpenVikingError: the read failed and ``failure_policy.read`` is fail-fast.

        """
        who = Who(user_id=user_id, agent_name=agent_name)
        return self._run(events.Call.GET_CONTEXT, lambda memory: memory.get_context(who, query))

    def search(
        self,
        query: str,
        *,
        user_id: str,
        agent_name: str | None = None,
        top_k: int = 5,
        category: str | None = None,
    ) -> list[Hit]:
        """Return up to ``top_k`` (1..100) hits, best first, ``[]`` when memory is away.

        A hit has ``id, content, category, confidence, source, score`` and maybe ``createdAt``.
        Takes at most ``budgets.search_seconds``.

        Raises:
            OpenVikingError: the read failed and ``failure_policy.read`` is fail-fast.

        """
        who = Who(user_id=user_id, agent_name=agent_name)
        return self._run(
            events.Call.SEARCH, lambda memory: memory.search(who, query, top_k, category)
        )

    def add(
        self,
        thread_id: str,
        messages: Sequence[object],
        *,
        user_id: str,
        agent_name: str | None = None,
    ) -> None:
        """Present a thread; what memory does not know of it yet is stored and committed.

        Idempotent: present the whole thread after every turn. A message is a mapping or an object
        with ``role`` (``user``, ``assistant``) or LangChain's ``type``, ``content`` and, best,
        ``id``. What does not fit into ``budgets.add_seconds`` is delivered in the background.

        Raises:
            OpenVikingError: no accepted commit, and ``failure_policy.write`` is fail-fast.

        """
        who = Who(user_id=user_id, agent_name=agent_name, thread_id=thread_id)
        self._run(events.Call.ADD, lambda memory: memory.add(who, messages, None))

    def warm(self) -> bool:
        """Tell whether memory is usable.

        Raises:
            OpenVikingError: it is not, and ``startup_policy`` is fail-fast.

        """
        return self._run(events.Call.WARM, lambda memory: memory.warm())

    def flush(self, timeout_s: float | None = None) -> bool:
        """Deliver what waits; True = nothing is left. Afterwards writes are refused.

        ``timeout_s`` None = ``shutdown_flush_timeout_seconds``.
        """
        limit_s = self._settings.shutdown.flush_timeout_s
        return self._process.flush(limit_s if timeout_s is None else timeout_s)

    def close(self) -> None:
        """Release threads, sockets and locks within a second; idempotent. Does not flush."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush and close."""
        self.flush()
        self.close()

    def _run(self, call: events.Call, begin: Callable[[Memory], Flow[R]]) -> R:
        backend = self._process.backend()
        with backend.memory.surroundings(call):
            return backend.sync.run(begin(backend.memory))


class AsyncClient(_Shared):
    """The same for event loops: natively asynchronous, one client for several loops.

    The arguments and the methods are those of ``Client``; an asynchronous context manager.
    """

    async def get_context(
        self, *, user_id: str, agent_name: str | None = None, query: str | None = None
    ) -> str:
        """Return a text for the prompt; as ``Client.get_context``."""
        who = Who(user_id=user_id, agent_name=agent_name)
        return await self._run(
            events.Call.GET_CONTEXT, lambda memory: memory.get_context(who, query)
        )

    async def search(
        self,
        query: str,
        *,
        user_id: str,
        agent_name: str | None = None,
        top_k: int = 5,
        category: str | None = None,
    ) -> list[Hit]:
        """Return hits, best first; as ``Client.search``."""
        who = Who(user_id=user_id, agent_name=agent_name)
        return await self._run(
            events.Call.SEARCH, lambda memory: memory.search(who, query, top_k, category)
        )

    async def add(
        self,
        thread_id: str,
        messages: Sequence[object],
        *,
        user_id: str,
        agent_name: str | None = None,
    ) -> None:
        """Present a thread; as ``Client.add``. Cancelled, its messages are delivered later."""
        who = Who(user_id=user_id, agent_name=agent_name, thread_id=thread_id)
        await self._run(events.Call.ADD, lambda memory: memory.add(who, messages, None))

    async def warm(self) -> bool:
        """Tell whether memory is usable; as ``Client.warm``."""
        return await self._run(events.Call.WARM, lambda memory: memory.warm())

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Deliver what waits; as ``Client.flush``."""
        limit_s = self._settings.shutdown.flush_timeout_s if timeout_s is None else timeout_s
        return await _on_a_thread(lambda: self._process.flush(limit_s))

    async def aclose(self) -> None:
        """Release threads, sockets and locks within a second; idempotent. Does not flush."""
        await _on_a_thread(self._process.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush and close."""
        await self.flush()
        await self.aclose()

    async def _run(self, call: events.Call, begin: Callable[[Memory], Flow[R]]) -> R:
        backend = self._process.backend()
        with backend.memory.surroundings(call):
            return await backend.asynchronous.run(begin(backend.memory))


async def _on_a_thread(work: Callable[[], R]) -> R:
    """Run what blocks on a thread of its own: the default executor belongs to the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def tell(result: R | None, failure: BaseException | None) -> None:
        if done.done():
            return
        if failure is not None:
            done.set_exception(failure)
        else:
            done.set_result(cast("R", result))

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - told to the caller
            failure = error
        # A caller that was cancelled may have closed its loop: then nobody wants to know.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, name="resilient-ov-close", daemon=True).start()
    return await done


__all__ = ["AsyncClient", "Client", "Hit", "OpenVikingError"]
