"""The runner's end of a process that runs the product.

Rule: everything the process says is kept: records in the history, the rest in its log. Processes
are forked from a server that has imported everything once; a start takes no second then.
"""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from resilient_ov_chaos.agent import process as agent_process
from resilient_ov_chaos.agent.job import JOB, Job
from resilient_ov_chaos.history import Acknowledged, Event, ProcessEvent, Record, from_line
from resilient_ov_chaos.tape import TapeReader

_START_S: Final = 60.0
_END_S: Final = 10.0
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([agent_process.__name__])


class ClientError(Exception):
    """A process of the product did not do what it was told; its log says why."""


class ClientProcess:
    """One process of the product. Used by one thread at a time.

    Args:
        job: what it is to do.
        role: what it is for, in the report's words.
        take: where its records go; called from a thread.
        log: file for everything else it says.

    """

    def __init__(self, job: Job, *, role: str, take: Callable[[Record], None], log: Path) -> None:
        self.number = job.process
        self.role = role
        self.log = log
        self._take = take
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ended = False
        tape = log.with_suffix(".tape")
        self._tape = TapeReader(tape, self._line)
        theirs, self._commands = _FORKS.Pipe(duplex=False)
        said, says = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(
            target=agent_process.run,
            args=(JOB.dump_json(job), str(tape), theirs, says),
            name=role,
        )
        self._event(Event.STARTED)
        self._process.start()
        theirs.close()
        says.close()
        self._saying = threading.Thread(target=_copy, args=(said, log), daemon=True)
        self._saying.start()
        self.wait_for("start", _START_S)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Tell whether it runs; a stopped one does."""
        return self._process.is_alive()

    def tell(self, command: str, within_s: float) -> str:
        """Give a command and wait until it is carried out; return its result.

        Raises:
            ClientError: it was not, within ``within_s``.

        """
        try:
            self._commands.send(command)
        except OSError:
            raise ClientError(f"{self.role}: the process has ended; see {self.log.name}") from None
        return self.wait_for(command.partition(" ")[0], within_s)

    def wait_for(self, word: str, within_s: float) -> str:
        """Wait until a command that was given is carried out; return its result.

        Raises:
            ClientError: it was not.

        """
        end_s = time.monotonic() + within_s
        while True:
            try:
                said = self._done.get(timeout=max(0.0, min(0.2, end_s - time.monotonic())))
            except queue.Empty:
                if not self.alive or time.monotonic() > end_s:
                    state = "is running" if self.alive else "has ended"
                    raise ClientError(
                        f"{self.role}: {word!r} was not done in {within_s:.0f} s; the process"
                        f" {state}; see {self.log.name}"
                    ) from None
            else:
                if said.partition(" ")[0] == word:
                    return said.partition(" ")[2]

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join()
        self._event(Event.KILLED)
        self._finish()

    def stop(self) -> None:
        """SIGSTOP."""
        self._event(Event.STOPPED)
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self._event(Event.WENT_ON)

    def end(self) -> None:
        """End it in peace, or by force when it does not; nothing happens when it has ended."""
        if self._ended:
            return
        self._commands.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._event(Event.EXITED)
        self._finish()

    def _finish(self) -> None:
        self._ended = True
        self._commands.close()
        self._saying.join(_END_S)
        self._tape.finish()

    def _line(self, line: bytes) -> None:
        record = from_line(line)
        if isinstance(record, Acknowledged):
            self._done.put(record.command)
        self._take(record)

    def _event(self, event: Event) -> None:
        self._take(
            ProcessEvent(process=self.number, at_s=time.monotonic(), event=event, role=self.role)
        )


def _copy(said: Connection, log: Path) -> None:
    """Write everything a process says into its log, until it has ended."""
    with log.open("wb") as file:
        while chunk := os.read(said.fileno(), 1 << 16):
            file.write(chunk)
    said.close()
