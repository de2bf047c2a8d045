"""Writes records onto the process's tape, from any thread.

Rule: a record is out of this process when ``write`` returns, so a kill loses none.
"""

import itertools
import time

from resilient_ov_chaos.history import (
    Acknowledged,
    Call,
    CallBegan,
    CallEnded,
    Colour,
    Record,
    Result,
    to_line,
)
from resilient_ov_chaos.tape import TapeWriter


class Recorder:
    """Writes the records of one process."""

    def __init__(self, tape: TapeWriter, process: int) -> None:
        self._tape = tape
        self._numbers = itertools.count()
        self.process = process

    def write(self, record: Record) -> None:
        """Write one record."""
        self._tape.write(to_line(record))

    def begin(
        self,
        call: Call,
        colour: Colour,
        *,
        persona: int | None = None,
        thread: str | None = None,
        presented: tuple[str, ...] = (),
    ) -> int:
        """Write that a call is made; return its number."""
        number = next(self._numbers)
        self.write(
            CallBegan(
                process=self.process,
                number=number,
                at_s=time.monotonic(),
                call=call,
                colour=colour,
                persona=persona,
                thread=thread,
                presented=presented,
            )
        )
        return number

    def end(
        self,
        number: int,
        result: Result,
        *,
        at_s: float,
        error: str | None = None,
        got: tuple[str, ...] = (),
    ) -> None:
        """Write how a call ended."""
        self.write(
            CallEnded(
                process=self.process,
                number=number,
                at_s=at_s,
                result=result,
                error=error,
                got=got,
            )
        )

    def done(self, command: str) -> None:
        """Write that a command was carried out."""
        self.write(Acknowledged(process=self.process, at_s=time.monotonic(), command=command))
