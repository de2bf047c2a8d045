"""Asks the configured server something beside a gateway: one attempt, a deadline, the same wire.

Rule: no policy, no state, no retry; what went wrong comes back and can be told in words.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from resilient_ov.adapters.clock import SystemDice
from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.adapters.memory_server import HttpxMemoryServer
from resilient_ov.domain.exchange import Answer, Command, Failure, Health, Identity, ServerHealth
from resilient_ov.domain.namespace import View
from resilient_ov.domain.ports import Attempt
from resilient_ov.settings import AuthMode, Settings
from resilient_ov.usecases.addressing import view_of
from resilient_ov_manager.terminal import CommandError


class LiveServer:
    """The server of a configuration. A context manager that closes its connections."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._source = ApiKeySource(settings.auth, environ=environ)
        self._source.refresh()
        self._server = HttpxMemoryServer(settings, key=self._key)

    def ask(self, command: Command, budget_s: float) -> tuple[Answer, float]:
        """Make one attempt; return the answer and how many seconds it took."""
        began_s = time.monotonic()
        answer = self._server.send(
            Attempt(command=command, deadline_s=began_s + budget_s, request_id=SystemDice().token())
        )
        return answer, time.monotonic() - began_s

    def view(self, identity: Identity) -> View | Failure:
        """Return what an identity reads; with a key of one user the server is asked for its name.

        The failure is the one of the health check.
        """
        if self._settings.auth.mode is not AuthMode.API_KEY:
            return view_of(self._settings, identity, own_user=identity.user)
        answer, _ = self.ask(Health(identity=identity), self._settings.budgets.health_s)
        if isinstance(answer, Failure):
            return answer
        told = answer.value
        user = told.user if isinstance(told, ServerHealth) else None
        return view_of(self._settings, identity, own_user=user)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _key(self) -> str | None:
        current = self._source.current()
        return None if current is None else current.reveal()


def settings_of(config: Path) -> Settings:
    """Return the settings of a configuration file whose key and files are there.

    Raises:
        CommandError: it cannot be used; names every fault.

    """
    from resilient_ov_manager.config_file import load_config_file
    from resilient_ov_manager.host_config import ConfigError, settings_from_config

    try:
        return settings_from_config(load_config_file(config))
    except ConfigError as error:
        raise CommandError(f"{config}: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
