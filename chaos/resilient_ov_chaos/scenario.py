"""One scenario from begin to end: processes, traffic, the fault, the recovery, the ledger.

Rule: what it returns is everything a checker needs, and is also on disk; judging is not done here.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from resilient_ov_chaos.agent.job import Job, Persona, Talk
from resilient_ov_chaos.cast import resumed, talks
from resilient_ov_chaos.checkers.owed import owed
from resilient_ov_chaos.client_process import ClientProcess
from resilient_ov_chaos.faults.fault import Fault
from resilient_ov_chaos.history import Delivered, History
from resilient_ov_chaos.knobs import Knobs
from resilient_ov_chaos.ledger_reader import LedgerReader
from resilient_ov_chaos.leftovers_reader import read_leftovers
from resilient_ov_chaos.marks import thread_of
from resilient_ov_chaos.pulse import PulseTaker
from resilient_ov_chaos.record_book import RecordBook
from resilient_ov_chaos.server_back import ServerBackWatcher
from resilient_ov_chaos.snapshot import snapshot
from resilient_ov_chaos.targets.target import Target
from resilient_ov_chaos.toxiproxy.link import Link
from resilient_ov_chaos.verdict import Run
from resilient_ov_chaos.world import World

KEY_VARIABLE: Final = "RESILIENT_OV_CHAOS_KEY"
_POLL_S: Final = 0.3
_CALM_S: Final = 0.5
_SERVER_BACK_S: Final = 150.0
"""Longest wait for a server to get well by itself; its own breaker opens for 60 s at first."""
_COMMAND_S: Final = 30.0
_LEAVES_AFTER: Final = 0.3
"""Share of the fault window after which a process shuts down in the middle of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What all scenarios of a run share."""

    target: Target
    link: Link
    personas: tuple[Persona, ...]
    reader: LedgerReader
    run: str
    seed: int
    say: Callable[[str], None]


class Scenario:
    """Plays one fault, once. Not thread-safe.

    Args:
        stage: shared with the other scenarios.
        fault: what goes wrong.
        knobs: the pace.
        folder: new folder for everything the scenario leaves behind.
        first_talk: number of its first conversation; each scenario has conversations of its own.
        mutant: the protection to turn off in the product.

    """

    def __init__(
        self,
        stage: Stage,
        fault: Fault,
        knobs: Knobs,
        folder: Path,
        *,
        first_talk: int,
        mutant: str | None = None,
    ) -> None:
        self._stage = stage
        self._fault = fault
        self._knobs = fault.knobs(knobs)
        self._folder = folder
        self._mutant = mutant
        self._talks = talks(stage.run, stage.personas, first_talk)
        # Those of the process that shuts down in the middle of the fault.
        self._leaving = talks(stage.run, stage.personas[:1], first_talk + len(self._talks))
        self._key_file = folder / "key"
        self._clients: list[ClientProcess] = []
        self._failures: list[Exception] = []

    @property
    def next_talk(self) -> int:
        """Number of the next scenario's first conversation."""
        return self._leaving[-1].number + 1

    def play(self) -> Run:
        """Play it and return what happened.

        Raises:
            ClientError, ToxiproxyError, OSError: the suite itself failed, not the product.

        """
        self._folder.mkdir(parents=True)
        self._key_file.touch(mode=0o600)
        self._key_file.write_text(self._stage.target.key, encoding="utf-8")
        known = self._stage.reader.sessions()
        with RecordBook(self._folder / "history.ndjson") as book:
            self._book = book
            try:
                with (
                    PulseTaker(self._stage.target.address, book.take),
                    self._server_back_watcher() as self._server_back,
                ):
                    self._perform()
                ledger = self._stage.reader.read(self._threads(), known=known)
            finally:
                for client in self._clients:
                    client.end()
                self._key_file.unlink()
        expectation = self._fault.expectation
        return Run(
            history=History(book.records),
            ledger=ledger,
            leftovers=read_leftovers(
                self._folder,
                run=self._stage.run,
                key=self._stage.target.key,
                personas=self._stage.personas,
            ),
            knobs=self._knobs,
            expectation=expectation.at_slow_server() if self._stage.target.slow else expectation,
        )

    # -- the acts ---------------------------------------------------------------------------

    def _perform(self) -> None:
        world = World(
            target=self._stage.target,
            link=self._stage.link,
            knobs=self._knobs,
            key_file=self._key_file,
            clients=[],
            take=self._book.take,
            restart_gateway=self._restart_gateway,
        )
        self._world = world
        leaving = threading.Thread(target=self._leave, name="leaving")
        world.before_end(leaving.join)
        if self._fault.from_start:
            world.at_begin(lambda: self._begin(leaving))
        else:
            self._begin()
            self._say("baseline")
            world.wait(self._knobs.baseline_s)
            world.gateway.tell("resources baseline", _COMMAND_S)
            world.at_begin(leaving.start)
        self._say("fault")
        self._fault.apply(world)
        self._server_back.begin()
        if self._failures:
            raise self._failures[0]
        self._say("recovery")
        snapshot(self._folder, "after-fault")
        follower = self._start("follower", resumed(self._leaving, self._history()))
        follower.tell("present", _COMMAND_S + len(self._leaving) * self._knobs.add_s)
        self._wait_for_recovery()
        self._say("end")
        world.gateway.tell("pause", _COMMAND_S)
        world.gateway.tell("resources end", _COMMAND_S)
        snapshot(self._folder, "end")
        self._shut_down(world.gateway, self._knobs.last_flush_s)
        self._shut_down(follower, self._knobs.last_flush_s)

    def _begin(self, then: threading.Thread | None = None) -> None:
        self._world.clients.append(self._start("gateway", self._talks))
        self._world.clients.append(self._start("leaver", self._leaving))
        for client in self._world.clients:
            client.tell("warm", _COMMAND_S)
            client.tell("resume", _COMMAND_S)
        if then is not None:
            then.start()

    def _leave(self) -> None:
        """Shut a process down in the middle of the fault."""
        time.sleep(_LEAVES_AFTER * self._knobs.fault_s)
        leaver = self._world.clients[1]
        try:
            leaver.tell("pause", _COMMAND_S)
            self._shut_down(leaver, self._knobs.flush_s)
        except Exception as error:  # noqa: BLE001 - raised where the scenario is played
            self._failures.append(error)

    def _shut_down(self, client: ClientProcess, flush_s: float) -> None:
        client.tell(f"flush {flush_s}", _COMMAND_S + flush_s)
        client.tell("close", _COMMAND_S)
        client.tell("resources closed", _COMMAND_S)
        # Only now nothing moves any more.
        client.tell("metrics", _COMMAND_S)
        client.end()

    def _restart_gateway(self) -> None:
        again = self._start("gateway", resumed(self._talks, self._history()))
        self._world.clients[0] = again
        again.tell("warm", _COMMAND_S)
        again.tell("resume", _COMMAND_S)

    def _wait_for_recovery(self) -> None:
        """Wait until reads are served and everything accepted so far is on the server."""
        began_s = time.monotonic()
        history = self._history()
        mended_s = history.mended_s
        due = Counter(thread_of(mark) for mark in owed(history).standing)
        waiting = dict(due)
        while time.monotonic() < self._patient_until_s(began_s):
            # Sessions keep their order, so counts tell enough here; the checkers read the texts.
            waiting = {t: n for t, n in waiting.items() if self._stored(t) < n}
            if not waiting and not self._book.has(Delivered):
                self._book.take(Delivered(at_s=time.monotonic()))
            if not waiting and self._book.served_since(mended_s):
                break
            time.sleep(_POLL_S)
        time.sleep(_CALM_S)

    def _patient_until_s(self, began_s: float) -> float:
        """Return until when a recovery is waited for; the server's own comes first."""
        back_s = self._server_back.at_s
        if back_s is None:
            return began_s + _SERVER_BACK_S
        return max(began_s, back_s) + self._knobs.recovery_s

    def _stored(self, thread: str) -> int:
        return self._stage.reader.total(self._threads()[thread], thread)

    # -- small parts ------------------------------------------------------------------------

    def _start(self, role: str, of: Sequence[Talk]) -> ClientProcess:
        number = len(self._clients)
        stage, knobs = self._stage, self._knobs
        config: dict[str, object] = {
            **knobs.config(),
            "base_url": stage.link.url,
            "account": stage.target.account,
            "api_key_file": str(self._key_file),
            "storage_path": str(self._folder / "storage"),
            "shutdown_flush_timeout_seconds": knobs.flush_s,
        }
        client = ClientProcess(
            Job(
                process=number,
                run=stage.run,
                seed=stage.seed,
                config=config,
                personas=stage.personas,
                talks=tuple(of),
                think_s=knobs.think_s,
                connects_to=stage.link.port,
                mutant=self._mutant,
            ),
            role=role,
            take=self._book.take,
            log=self._folder / f"{role}-{number}.log",
        )
        self._clients.append(client)
        return client

    def _server_back_watcher(self) -> ServerBackWatcher:
        target = self._stage.target
        return ServerBackWatcher(
            target.address,
            key=target.key,
            account=target.account,
            persona=self._stage.personas[0],
            take=self._book.take,
        )

    def _history(self) -> History:
        return History(self._book.records)

    def _threads(self) -> dict[str, int]:
        return {talk.thread: talk.persona for talk in (*self._talks, *self._leaving)}

    def _say(self, phase: str) -> None:
        self._stage.say(f"{self._fault.name}: {phase}")
