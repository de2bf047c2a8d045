"""Child processes that never outlive their parent, and free ports.

Rule: a process is addressed by the object that started it, never by a name.
"""

import contextlib
import signal
import socket
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_GRACE_S: Final = 5.0

# Ends its program when its own input ends, so when the parent is gone, however it went.
_TIED: Final = (
    '"$@" </dev/null & p=$!; trap "kill $p" TERM; read -r _; kill $p 2>/dev/null; wait $p'
)


def free_port() -> int:
    """Return a loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Tied:
    """A foreign program that ends with this block, and with this process.

    What it prints is thrown away.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = ["/bin/sh", "-c", _TIED, "sh", *command]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A keyboard interrupt must find it alive: the network is mended first.
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            end(self._process)

    def alive(self) -> bool:
        """Tell whether it still runs."""
        return self._process is not None and self._process.poll() is None


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was told to end; kill it when it does not, stopped or not."""
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Child:
    """A process of ours under signals: kill, stop, continue. Not thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Tell whether it still runs; a stopped one does."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it with SIGKILL and wait."""
        self.process.kill()
        self.end()

    def stop(self) -> None:
        """Freeze it with SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on with SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it: its input is closed, then time is given, then SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.go_on()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        end(self.process)
