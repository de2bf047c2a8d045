"""Lets stamina drive the attempts after the first, so that a host's stamina switches reach them.

Rule: our own policy has decided before stamina is asked; stamina counts attempts and may say no.
The wait is not its: it is told to wait 0.0 s.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import stamina
from stamina import instrumentation

T = TypeVar("T")


class _NextAttempt(Exception):  # noqa: N818 - a signal to stamina, not an error
    """What stamina is told instead of the real failure: nothing of a request can leak from it."""


class _OthersOnly:
    """A host's retry hook that does not see our attempts.

    stamina's hooks are process-global and by default log each retry with its arguments.
    """

    def __init__(self, hook: instrumentation.RetryHook) -> None:
        self._hook = hook

    def __call__(self, details: instrumentation.RetryDetails) -> Any:
        return None if isinstance(details.caused_by, _NextAttempt) else self._hook(details)


_hooks_lock = threading.Lock()


def _keep_out_of_hooks() -> None:
    """Wrap the hooks that are set now; a host may have set new ones since the last time."""
    with _hooks_lock:
        hooks = instrumentation.get_on_retry_hooks()
        if not all(isinstance(hook, _OthersOnly) for hook in hooks):
            instrumentation.set_on_retry_hooks(
                hook if isinstance(hook, _OthersOnly) else _OthersOnly(hook) for hook in hooks
            )


def _at_once(_: Exception) -> float:
    return 0.0


class StaminaAttempts:
    """The attempts of one call; made when the first one failed and the policy wants another.

    ``max_attempts`` counts the first one. No colour: usable from a generator that a sync or an
    async driver runs, never sleeps and never suspends. All calls of one series come from one
    thread: stamina's engine keeps its place in thread-local data.
    """

    def __init__(self, max_attempts: int) -> None:
        self._left = max_attempts - 1
        self._max_attempts = max_attempts
        self._next: Callable[[], stamina.Attempt] | None = None
        self._current: stamina.Attempt | None = None

    def again(self) -> bool:
        """Tell stamina that the current attempt failed; False = there is to be no other, for good.

        One attempt is all there is under ``stamina.set_active(False)``; its test mode can lower
        ``max_attempts`` but not raise it.
        """
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            _keep_out_of_hooks()
        except Exception:  # noqa: BLE001 - a host's stamina that cannot start its hooks (a broken
            # prometheus-client is enough) must not cost the agent its answer: one attempt it is.
            self._left = 0
            return False
        try:
            if self._next is None or self._current is None:
                self._next = self._iterator()
                self._current = self._next()
            _fail(self._current)
            self._current = self._next()
        except _NextAttempt:
            self._left = 0
            return False
        return True

    def _iterator(self) -> Callable[[], stamina.Attempt]:
        context = stamina.retry_context(on=_at_once, attempts=self._max_attempts, timeout=None)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return iter(context).__next__
        # stamina's sync iterator ends each wait, also one of 0.0 s, in time.sleep, which guards
        # against blocking calls forbid on a loop. Its async one waits in asyncio.sleep.
        steps = aiter(context)
        return lambda: _finish(anext(steps))


def _fail(attempt: stamina.Attempt) -> None:
    with attempt:
        raise _NextAttempt


def _finish(awaitable: Awaitable[T]) -> T:
    """Run to its end what suspends in ``asyncio.sleep(0.0)`` at most, which is a bare yield."""
    steps = awaitable.__await__()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
