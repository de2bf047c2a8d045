"""Feels the server's pulse from beside the traffic: how long it takes for next to nothing.

Rule: straight to the server, never through the broken network; what it tells is about the machine.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import httpx

from resilient_ov_chaos.history import Pulse, Record

_EVERY_S: Final = 0.1
_WORTH_TELLING_S: Final = 0.05
_TIMEOUT_S: Final = 5.0


class PulseTaker:
    """Asks for ``/health`` again and again for the time of a block; records what took long."""

    def __init__(self, address: str, take: Callable[[Record], None]) -> None:
        self._url = f"http://{address}/health"
        self._take = take
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as http:
            while not self._over.wait(_EVERY_S):
                began_s = time.monotonic()
                try:
                    http.get(self._url)
                except httpx.TransportError:
                    continue  # it is dead or frozen, and that is a scenario's doing
                now_s = time.monotonic()
                if now_s - began_s > _WORTH_TELLING_S:
                    self._take(Pulse(at_s=now_s, took_s=now_s - began_s))
