"""The demo's server: `resilient-ov serve` as a child process that can be killed and started again.

Rule: always the same port and the same folder; nothing of it outlives the demo.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from resilient_ov.settings import ServerProfile
from resilient_ov_manager.terminal import CommandError, ExitCode

_START_S = 30.0
_STOP_S = 5.0
_KEY_VARIABLE = "RESILIENT_OV_DEMO_KEY"


class ChildServer:
    """Starts, kills and restarts the server. A context manager that ends with it gone."""

    def __init__(self, folder: Path, key: str, profile: ServerProfile = ServerProfile.V0_5) -> None:
        self._folder = folder
        self._key = key
        self._profile = profile
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The base address, the same for the whole demo."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id; None when it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> float:
        """Start and return, in seconds, how long it took until it answered.

        Raises:
            CommandError: it did not start; tells the last line it wrote.

        """
        began_s = time.monotonic()
        command = [
            sys.executable, "-m", "resilient_ov_manager.cli", "serve", f"--port={self._port}",
            f"--data={self._folder / 'server'}", f"--root-key-env={_KEY_VARIABLE}",
            f"--profile={self._profile.value}",
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                env={**os.environ, _KEY_VARIABLE: self._key},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while time.monotonic() - began_s < _START_S and self._process.poll() is None:
            if self._answers():
                return time.monotonic() - began_s
            time.sleep(0.05)
        if self._process.poll() is None:
            why = f"no answer within {_START_S:.0f} s. Try again when the machine is less busy"
        else:
            lines = self._log.read_text(errors="replace").splitlines()
            why = lines[-1] if lines else "it ended without a word"
        raise CommandError(f"the demo's server did not start: {why}", ExitCode.NOT_USABLE)

    def make_account(self, account: str, policy: Mapping[str, bool]) -> None:
        """Make an account with a namespace policy, which only profile namespace knows."""
        made = httpx.post(
            f"{self.url}/api/v1/admin/accounts",
            json={"account_id": account, "admin_user_id": "admin", **policy},
            headers={"X-API-Key": self._key},
            timeout=_STOP_S,
            trust_env=False,
        )
        made.raise_for_status()

    def kill(self) -> None:
        """Kill it at once, as a crash or the kernel would: no handler, no goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _answers(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/health", timeout=1.0, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == 200


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
