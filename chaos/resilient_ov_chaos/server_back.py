"""Asks the server itself when it serves a search again, from beside the product.

Rule: straight to the server with the root key, never through the broken network. A server may stay
sick after what broke it is mended (a breaker of its own); the product is judged from then on.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import httpx

from resilient_ov.domain.identity import openviking_user, scope
from resilient_ov.domain.namespace import memories_uri
from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.agent.messages import QUERY
from resilient_ov_chaos.history import Record, ServerBack

_EVERY_S: Final = 0.2
_TIMEOUT_S: Final = 5.0


class ServerBackWatcher:
    """Searches from ``begin`` on until a search is served, and records when; a context manager."""

    def __init__(
        self,
        address: str,
        *,
        key: str,
        account: str,
        persona: Persona,
        take: Callable[[Record], None],
    ) -> None:
        self._url = f"http://{address}/api/v1/search/find"
        self._headers = {
            "X-API-Key": key,
            "X-OpenViking-Account": account,
            "X-OpenViking-User": openviking_user(scope(account, persona.user, persona.agent)),
        }
        self._take = take
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-back", daemon=True)
        self.at_s: float | None = None
        """When the server served a search; None = not yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def begin(self) -> None:
        """Begin to ask; once."""
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False, headers=self._headers) as http:
            while not self._over.is_set():
                if self._served(http):
                    self.at_s = time.monotonic()
                    self._take(ServerBack(at_s=self.at_s))
                    return
                self._over.wait(_EVERY_S)

    def _served(self, http: httpx.Client) -> bool:
        asked = {"query": QUERY, "target_uri": memories_uri(), "limit": 1}
        try:
            return http.post(self._url, json=asked).is_success
        except httpx.TransportError:
            return False
