"""What the server holds of one person, and its deletion. Server profile 0.5.

Rule: every deletion is idempotent; what is gone already is no error. No sentence of an error holds
a key, an address, a text or an id of the server.
"""

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, cast
from urllib.parse import quote

import httpx

from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.adapters.tls import TlsContexts, TlsFilesError
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.settings import AuthMode, Settings
from resilient_ov_manager.terminal import CommandError, ExitCode

_TIMEOUT_S: Final = 30.0
_OPEN: Final = frozenset({"pending", "running", "cancelling"})
_GONE: Final = frozenset({404, 412})


class ServerSide:
    """The person's data on the server. A context manager; not thread-safe.

    Every method raises CommandError when the server cannot be used.
    """

    def __init__(
        self, settings: Settings, identity: Identity, environ: Mapping[str, str] = os.environ
    ) -> None:
        source = ApiKeySource(settings.auth, environ=environ)
        source.refresh()
        key = source.current()
        headers = {} if key is None else {"X-API-Key": key.reveal()}
        if settings.auth.mode is not AuthMode.API_KEY and identity.user is not None:
            headers |= {
                "X-OpenViking-Account": settings.auth.scope_account,
                "X-OpenViking-User": identity.user,
            }
        try:
            verify = TlsContexts(settings.tls).context(time.monotonic() + _TIMEOUT_S)
        except (TlsFilesError, TimeoutError) as error:
            raise CommandError(str(error)) from None
        self._client = httpx.Client(
            base_url=settings.base_url,
            headers=headers,
            verify=verify,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def sessions(self) -> tuple[str, ...]:
        """Return the ids of the person's sessions."""
        listed = cast("list[dict[str, Any]]", self._ask("GET", "/api/v1/sessions") or [])
        return tuple(str(entry["session_id"]) for entry in listed)

    def open_tasks(self, session_id: str) -> tuple[str, ...]:
        """Return the ids of the session's extraction tasks that have not ended."""
        told = self._ask("GET", "/api/v1/tasks", resource_id=session_id, limit="200")
        listed = cast("list[dict[str, Any]]", told or [])
        return tuple(str(task["task_id"]) for task in listed if task.get("status") in _OPEN)

    def cancel(self, task_id: str) -> None:
        """Ask for a task's end."""
        self._ask("POST", f"/api/v1/tasks/{quote(task_id, safe='')}/cancel")

    def delete_session(self, session_id: str) -> None:
        """Delete a session with its archives."""
        self._ask("DELETE", f"/api/v1/sessions/{quote(session_id, safe='')}")

    def memories(self) -> int:
        """Return how many entries lie directly in the person's memories."""
        told = self._ask("GET", "/api/v1/fs/ls", uri=memories_uri(None))
        return len(cast("list[Any]", told or []))

    def delete_memories(self) -> None:
        """Delete everything that was extracted."""
        self._ask("DELETE", "/api/v1/fs", uri=memories_uri(None), recursive="true")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, **query: str) -> Any:
        """Return the result, None for what is not there (any more)."""
        try:
            answer = self._client.request(method, path, params=query)
        except httpx.TransportError as error:
            raise CommandError(
                f"the server could not be reached ({type(error).__name__}). Run the same command"
                " again: it goes on where it stopped",
                ExitCode.NOT_USABLE,
            ) from None
        if answer.status_code in _GONE:
            return None
        try:
            content = answer.json()
            if answer.is_success:
                return content["result"]
        except (ValueError, KeyError, TypeError):
            pass
        advice = (
            "Check the key and auth_mode with 'resilient-ov check'"
            if answer.status_code in {401, 403}
            else "Look in the log of the server, then run the same command again"
        )
        raise CommandError(
            f"the server answered {answer.status_code} to {method}. {advice}", ExitCode.NOT_USABLE
        )
