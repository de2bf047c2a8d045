"""The embedded server in a child process."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from resilient_ov_chaos.processes import Child, free_port
from resilient_ov_chaos.targets.target import Ability

KEY: Final = "chaos-root-key-5d1f0c7a"
_UP_S: Final = 30.0


class EmbeddedTarget:
    """The embedded server; implements ``Target``."""

    name = "embedded"
    key = KEY
    account = "chaos"
    slow = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self._port}"

    def can(self, ability: Ability) -> bool:  # noqa: ARG002 - everything
        """Tell that everything can be done to it."""
        return True

    def do(self, ability: Ability, *, on: bool) -> None:
        """Begin or end something."""
        child = self._running()
        match ability:
            case Ability.KILL if on:
                child.kill()
            case Ability.KILL:
                self.start()
            case Ability.FREEZE if on:
                child.stop()
            case Ability.FREEZE:
                child.go_on()
            case _:
                self._tell(f"{ability.value} {'on' if on else 'off'}")

    def start(self) -> None:
        """Start it and return once it answers.

        Raises:
            RuntimeError: it did not come up; its log says why.

        """
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder.with_suffix(".log").open("ab")
        command = [sys.executable, "-m", "resilient_ov_chaos.targets.embedded_process"]
        process = subprocess.Popen(
            [*command, str(self._port), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self._child = Child(process)
        end_s = time.monotonic() + _UP_S
        while True:
            try:
                httpx.get(f"http://{self.address}/health", timeout=2.0, trust_env=False)
            except httpx.TransportError:
                if time.monotonic() > end_s or not self._child.alive:
                    raise RuntimeError("the embedded server did not come up") from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.end()

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("the server was never started")
        return self._child

    def _tell(self, command: str) -> None:
        pipe = self._running().process.stdin
        answer = self._running().process.stdout
        if pipe is None or answer is None:
            raise RuntimeError("the server has no input")
        pipe.write(command.encode() + b"\n")
        pipe.flush()
        if answer.readline().strip() != b"done":
            raise RuntimeError(f"the server did not do {command!r}")


@contextmanager
def embedded(folder: Path) -> Generator[EmbeddedTarget]:
    """Give an embedded server that answers; it ends with the block."""
    target = EmbeddedTarget(folder)
    target.start()
    try:
        yield target
    finally:
        target.stop()
