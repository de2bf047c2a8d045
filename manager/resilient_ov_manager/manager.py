"""DeerFlow's memory manager on an OpenViking server.

Rule: translates between the host's words and ``Memory``; decides nothing else. No method raises
into a run unless the operator chose fail-fast, and then only the host's own error.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, cast

from pydantic import PrivateAttr

from resilient_ov import events
from resilient_ov.domain.errors import OpenVikingError
from resilient_ov.memory import Memory, Who
from resilient_ov.policy.classify import DegradeReason
from resilient_ov.policy.refusals import RefusalReason
from resilient_ov.policy.switches import Mode
from resilient_ov.settings import ReadFailurePolicy, Settings
from resilient_ov.usecases.steps import Flow
from resilient_ov_manager.contract import MemoryManager, MemoryManagerError
from resilient_ov_manager.host_config import settings_from_config
from resilient_ov_manager.process import PerProcess

R = TypeVar("R")

_LOG = logging.getLogger("resilient_ov")
_SYNC_READ_WAIT_S = 0.05
_NO_LOGIN_USER = "default"


class OpenVikingMemoryManager(MemoryManager):
    """Remembers through an OpenViking server; stays out of the way when the server is sick.

    Built by ``from_config``. Safe from many threads, several event loops and after ``fork``.
    """

    supports_search: ClassVar[bool] = True

    _settings: Settings = PrivateAttr()
    _process: PerProcess = PrivateAttr()
    _keep_hidden: Callable[[Mapping[str, object]], bool] | None = PrivateAttr(default=None)
    _sync_reads: threading.BoundedSemaphore = PrivateAttr()
    _warned_no_login: bool = PrivateAttr(default=False)
    _warned_sync_on_loop: bool = PrivateAttr(default=False)

    @classmethod
    def from_config(
        cls,
        backend_config: dict[str, Any],
        *,
        mode: Literal["middleware", "tool"] = "middleware",
        **host_hooks: Any,
    ) -> "OpenVikingMemoryManager":
        """Validate the configuration and build the manager: no network, no writes, no ports.

        Args:
            backend_config: the host's ``memory.backend_config``.
            mode: the host's memory mode; only ``middleware`` is served.
            host_hooks: ``should_keep_hidden_message``, ``trace_context_manager`` and
                ``metrics_registry`` are used, every other keyword is accepted and ignored.

        Raises:
            ValueError: a setting is unknown, of the wrong type or out of range, or the mode is
                not served; the message names the key, the allowed values and what to do.

        """
        if mode != "middleware":
            raise ValueError(
                f"memory.mode: {mode!r} is not served; use 'middleware'. The tool mode also lets"
                " the model add, change and delete single facts, which OpenViking's extracted"
                " memories do not have."
            )
        settings = settings_from_config(backend_config)
        manager = cls(
            backend_config=_shown(backend_config, settings),
            mode=mode,
            callbacks=host_hooks.get("callbacks"),
        )
        limit = settings.limits.sync_read_in_flight
        manager._settings = settings
        manager._keep_hidden = host_hooks.get("should_keep_hidden_message")
        manager._sync_reads = threading.BoundedSemaphore(limit or default_sync_reads())
        manager._process = PerProcess(
            settings,
            trace_context_manager=host_hooks.get("trace_context_manager"),
            metrics_registry=host_hooks.get("metrics_registry"),
        )
        return manager

    # -- reading ---------------------------------------------------------------------------

    def get_context(
        self,
        user_id: str | None,
        *,
        agent_name: str | None = None,
        thread_id: str | None = None,  # noqa: ARG002 - the host's signature
        query: str | None = None,
    ) -> str:
        """Return text to inject, ``""`` when there is none or memory is away.

        ``thread_id`` is not used: memory is per user and agent. ``query`` replaces the configured
        injection query.

        Raises:
            MemoryManagerError: the read failed and ``failure_policy.read`` is fail-fast.

        """
        who = self._who(user_id, agent_name)
        return self._read(
            events.Call.GET_CONTEXT, lambda memory: memory.get_context(who, query), empty=""
        )

    async def aget_context(
        self,
        user_id: str | None,
        *,
        agent_name: str | None = None,
        thread_id: str | None = None,  # noqa: ARG002 - the host's signature
        query: str | None = None,
    ) -> str:
        """Return the same on an event loop, natively asynchronous."""
        who = self._who(user_id, agent_name)
        return await self._on_loop(
            events.Call.GET_CONTEXT, lambda memory: memory.get_context(who, query)
        )

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return up to ``top_k`` (clamped to 1..100) hits, ``[]`` when memory is away.

        Raises:
            MemoryManagerError: the read failed and ``failure_policy.read`` is fail-fast.

        """
        who = self._who(user_id, agent_name)
        found = self._read(
            events.Call.SEARCH,
            lambda memory: memory.search(who, query, top_k, category),
            empty=cast("list[dict[str, str | float]]", []),
        )
        return cast("list[dict[str, Any]]", found)

    async def asearch(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the same on an event loop, natively asynchronous."""
        who = self._who(user_id, agent_name)
        found = await self._on_loop(
            events.Call.SEARCH, lambda memory: memory.search(who, query, top_k, category)
        )
        return cast("list[dict[str, Any]]", found)

    # -- writing ---------------------------------------------------------------------------

    def add(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """Store a thread's new messages and commit them, within ``budgets.add_seconds``.

        What does not fit into the budget is delivered in the background. On a thread with a
        running event loop it only hands over, like ``add_nowait``.

        Raises:
            MemoryManagerError: no accepted commit, and ``failure_policy.write`` is fail-fast.

        """
        who = self._who(user_id, agent_name, thread_id, trace_id)
        if _loop_is_running():
            self._warn_sync_on_loop("add")
            self._hand_over(who, messages)
            return
        self._run(events.Call.ADD, lambda memory: memory.add(who, messages, self._keep_hidden))

    async def aadd(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """Store the same on an event loop, natively asynchronous."""
        who = self._who(user_id, agent_name, thread_id, trace_id)
        await self._on_loop(
            events.Call.ADD, lambda memory: memory.add(who, messages, self._keep_hidden)
        )

    def add_nowait(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> None:
        """Keep messages that are about to leave the thread; never raises.

        On an event loop: no I/O, the list is copied and delivered in the background.
        """
        who = self._who(user_id, agent_name, thread_id)
        if _loop_is_running():
            self._hand_over(who, messages)
            return
        try:
            self._run(events.Call.ADD, lambda memory: memory.add(who, messages, self._keep_hidden))
        except MemoryManagerError:
            # Told by its events; the text is kept by the writer, and the host would only log it.
            return

    # -- life ------------------------------------------------------------------------------

    def warm(self) -> bool | None:
        """Tell whether memory is usable: True, or False under ``startup_policy: warn``.

        Raises:
            MemoryManagerError: it is not, and ``startup_policy`` is fail-fast. The host logs it
                and goes on, so run ``resilient-ov check`` before the gateway starts.

        """
        try:
            return self._run(events.Call.WARM, lambda memory: memory.warm())
        except MemoryManagerError:
            _LOG.warning(
                "memory is not usable at start-up; the gateway goes on without it."
                " Run 'resilient-ov check' to see why"
            )
            raise

    def shutdown_flush(self, timeout: float) -> bool:
        """Deliver what waits within ``timeout`` seconds (hard).

        Returns:
            True only if nothing of this process is undelivered, in doubt or uncommitted.
            Afterwards writes are refused and counted, reads are empty, and nothing raises.

        """
        return self._process.flush(min(timeout, self._settings.shutdown.flush_timeout_s))

    def close(self) -> None:
        """Release threads, sockets and locks within a second; idempotent."""
        self._process.close()

    def status(self) -> dict[str, Any]:
        """Return whether memory is healthy, since when, what waits, why, and what to do next."""
        return self._process.sinks.board.snapshot()

    def switch(self, group: str, mode: str, *, for_s: float | None = None) -> None:
        """Switch a group of this process (see ``resilient-ov switch --help``).

        Args:
            group: recall, append, commit, session, read, write or all.
            mode: normal, shadow, forced_open, forced_closed, retries_off; for all also disabled.
            for_s: seconds until it ends by itself; None = until it is switched again.

        Raises:
            ValueError: a group, mode or time that cannot be.

        """
        self._process.backend().switching.switch(group, Mode(mode), for_s=for_s)

    def metrics_app(self) -> Any:
        """Return an ASGI app that serves the metrics page, for a host to mount."""
        return self._process.sinks.metrics_app()

    def breaker(self, group: str) -> Any:
        """Return the ``pybreaker.CircuitBreaker`` that mirrors a group, for its listeners.

        Args:
            group: recall, append, commit, session or host.

        """
        return self._process.backend().breakers.breaker(events.Group(group))

    # -- small parts -----------------------------------------------------------------------

    def _who(
        self,
        user_id: object,
        agent_name: object,
        thread_id: object = None,
        trace_id: str | None = None,
    ) -> Who:
        if user_id == _NO_LOGIN_USER and not self._warned_no_login:
            self._warned_no_login = True
            _LOG.warning(
                "user id 'default': nobody is logged in, so everybody shares one memory;"
                " set require_authenticated_user: true to refuse that"
            )
        return Who(user_id=user_id, agent_name=agent_name, thread_id=thread_id, trace_id=trace_id)

    def _read(self, call: events.Call, begin: Callable[[Memory], Flow[R]], *, empty: R) -> R:
        if _loop_is_running():
            self._warn_sync_on_loop(call.value)
            self._refuse(call, DegradeReason.SYNC_ON_LOOP)
            return empty
        if not self._sync_reads.acquire(timeout=_SYNC_READ_WAIT_S):
            self._refuse(call, DegradeReason.REFUSED)
            return empty
        try:
            return self._run(call, begin)
        finally:
            self._sync_reads.release()

    def _run(self, call: events.Call, begin: Callable[[Memory], Flow[R]]) -> R:
        backend = self._process.backend()
        try:
            with backend.memory.surroundings(call):
                return backend.sync.run(begin(backend.memory))
        except OpenVikingError as error:
            raise MemoryManagerError(str(error)) from error

    async def _on_loop(self, call: events.Call, begin: Callable[[Memory], Flow[R]]) -> R:
        backend = self._process.backend()
        try:
            with backend.memory.surroundings(call):
                return await backend.asynchronous.run(begin(backend.memory))
        except OpenVikingError as error:
            raise MemoryManagerError(str(error)) from error

    def _hand_over(self, who: Who, messages: list[Any]) -> None:
        self._process.backend().memory.hand_over(who, messages, self._keep_hidden)

    def _refuse(self, call: events.Call, reason: DegradeReason) -> None:
        try:
            self._process.backend().memory.refused_read(call, reason, RefusalReason.EXECUTOR)
        except OpenVikingError as error:
            raise MemoryManagerError(str(error)) from error

    def _warn_sync_on_loop(self, method: str) -> None:
        if not self._warned_sync_on_loop:
            self._warned_sync_on_loop = True
            _LOG.warning(
                "%s was called on an event loop, which it would block; call a%s there",
                method,
                method,
            )


def default_sync_reads() -> int:
    """Return how many sync reads may run: two threads of the host's executor stay free."""
    return max(1, min(32, (os.cpu_count() or 1) + 4) - 2)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _shown(backend_config: dict[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Return the configuration as the host shows it and reads its failure policy from it."""
    shown = dict(backend_config or {})
    policy = dict(shown.get("failure_policy") or {})
    if settings.failure_policy.read is ReadFailurePolicy.FAIL_FAST:
        policy["read"] = "fail_closed"  # the only spelling the host honours
    shown["failure_policy"] = policy
    return shown


__all__ = ["OpenVikingMemoryManager", "default_sync_reads"]
