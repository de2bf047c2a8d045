"""One process of a gateway as far as state is concerned, driven by lines on its standard input.

Each line is a JSON list, a command and its arguments; each answer is one JSON line.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from resilient_ov.adapters.clock import SystemClock, SystemDice
from resilient_ov.adapters.status_file import StatusFiles
from resilient_ov.adapters.watermark_store import FileWatermarkStore
from resilient_ov.adapters.worker_pool import WorkerPool
from resilient_ov.domain.ports import SessionUnit
from resilient_ov.domain.watermark import Watermark


def state(session_id: str, total: int) -> Watermark:
    return Watermark(
        session_id=session_id,
        openviking_user="df_user",
        account="deerflow",
        server_id="0123",
        server_profile="0.5",
        server_total=total,
        pending_commit_since="2030-01-01T00:00:00.000Z",
    )


class Commands:
    def __init__(self, root: Path) -> None:
        self.workers = WorkerPool(threads=2, waiting=16)
        self.store = FileWatermarkStore(
            root, dice=SystemDice(), workers=self.workers, on_lock_missing=lambda: None
        )
        self.status = StatusFiles(self.store.place, self.store.owners, SystemClock())
        self.visits: dict[str, Any] = {}
        self.units: dict[str, SessionUnit] = {}

    def owner(self) -> str:
        return self.store.owner()

    def lives(self, token: str) -> bool:
        return self.store.owner_lives(token)

    def lead(self) -> bool:
        return self.store.lead()

    def unfinished(self) -> tuple[str, ...]:
        return self.store.unfinished()

    def open(self, session_id: str) -> int | None:
        """Return the total found, 0 for none, None when another holds the session."""
        visit = self.store.session(session_id)
        unit = visit.__enter__()
        loaded = unit.open()
        if loaded is None:
            visit.__exit__(None, None, None)
            return None
        self.visits[session_id], self.units[session_id] = visit, unit
        return 0 if loaded.watermark is None else loaded.watermark.server_total

    def save(self, session_id: str, total: int) -> None:
        self.units[session_id].save(state(session_id, total))

    def leave(self, session_id: str) -> None:
        self.visits.pop(session_id).__exit__(None, None, None)
        self.units.pop(session_id)

    def add(self, session_id: str, times: int) -> None:
        """Add 1 to the total ``times`` times, each in a visit of its own."""
        done = 0
        while done < times:
            total = self.open(session_id)
            if total is not None:
                self.save(session_id, total + 1)
                self.leave(session_id)
                done += 1

    def die_in(self, step: str, session_id: str) -> None:
        """Be killed just before the ``step`` of the next save."""
        setattr(os, step, lambda *_args: os.kill(os.getpid(), signal.SIGKILL))
        self.save(session_id, 99)

    def offer(self, waiting: int) -> bool:
        self.status.offer(waiting=waiting, facts={})
        return self.status.write_due()

    def bury(self) -> int:
        return self.status.bury_dead()

    def fork(self, session_id: str, child_s: float) -> dict[str, Any]:
        """Fork while a visit is open; the child tells what it sees, then lives ``child_s`` on."""
        read, write = os.pipe()
        inherited = self.store.owner()
        child = os.fork()
        if child == 0:
            seen: dict[str, Any] = {"child": os.getpid()}
            with self.store.session(session_id) as unit:
                loaded = unit.open()
            seen["open"] = loaded is not None
            self.visits.pop(session_id).__exit__(None, None, None)
            self.units.clear()
            seen["parent_lives"] = self.store.owner_lives(inherited)
            seen["lead"] = self.store.lead()
            seen["fresh_token"] = self.store.owner() not in ("", inherited)
            seen["other_session"] = self.open("df_child")
            self.save("df_child", 1)
            self.leave("df_child")
            os.write(write, json.dumps(seen).encode())
            os.close(write)
            # Standard input and output stay the parent's.
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            time.sleep(child_s)
            if child_s == 0:
                self.store.close()
                self.workers.close()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told: dict[str, Any] = json.loads(pipe.read())
        if child_s == 0:
            os.waitpid(child, 0)
        return told

    def fork_on_blocked_disk(self, session_id: str) -> tuple[float, int]:
        """Fork while a worker hangs in the disk; return the seconds it took and the exit code."""
        hanging, go_on = threading.Event(), threading.Event()
        real = os.open

        def hang(path: Any, *arguments: int, **options: int) -> int:
            if threading.current_thread() is not threading.main_thread():
                hanging.set()
                go_on.wait()
            return real(path, *arguments, **options)

        os.open = hang  # type: ignore[assignment]
        self.workers.submit(self.store.session(session_id).__enter__().open, lambda *_: None)
        hanging.wait()
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0 if self.open("df_child") == 0 else 1)
        took_s = time.monotonic() - started
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go_on.set()
        return took_s, code

    def close(self) -> None:
        self.status.close()
        self.store.close()
        self.workers.close()


def main() -> None:
    commands = Commands(Path(sys.argv[1]))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer = getattr(commands, name)(*arguments)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
