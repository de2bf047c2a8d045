"""Keeps the records of a run as they come, in memory and in a file.

Rule: a record is on its way to the file before anybody can ask for it.
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from resilient_ov_chaos.history import Call, CallBegan, CallEnded, Record, Result, to_line


class RecordBook:
    """The records of one run; a context manager. Safe from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._calls: dict[tuple[int, int], Call] = {}
        self._served_s: dict[Call, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def take(self, record: Record) -> None:
        """Keep a record."""
        with self._lock:
            self._file.write(to_line(record))
            self._records.append(record)
            if isinstance(record, CallBegan):
                self._calls[record.process, record.number] = record.call
            elif isinstance(record, CallEnded) and record.result is Result.SERVED:
                call = self._calls.get((record.process, record.number))
                if call is not None:
                    self._served_s[call] = record.at_s

    def has(self, kind: type[Record]) -> bool:
        """Tell whether there is a record of a kind."""
        with self._lock:
            return any(isinstance(each, kind) for each in self._records)

    def served_since(self, at_s: float) -> bool:
        """Tell whether every kind of read was served after that time."""
        with self._lock:
            reads = (Call.GET_CONTEXT, Call.SEARCH)
            return all(self._served_s.get(call, 0.0) > at_s for call in reads)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records so far."""
        with self._lock:
            return tuple(self._records)
