"""A modelled OpenViking 0.5: what it stores, and the ways it and the network fail.

Rule: effects happen at one moment; an answer may be lost, late or wrong without changing what was
stored. Its own ledger is the judge's evidence.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from resilient_ov.domain.batches import marked_digest
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    BatchReceipt,
    Command,
    CommitReceipt,
    CommitSession,
    CreateSession,
    EnsureSession,
    Evidence,
    Failure,
    FailureKind,
    GetSession,
    GetTask,
    Health,
    ListArchives,
    ListTasks,
    ReadMessages,
    Search,
    ServerHealth,
    SessionInfo,
    StoredPage,
    Success,
    TaskInfo,
    TaskStatus,
    Value,
)
from resilient_ov.usecases.steps import Send
from tests.simulation.world import Task, World

Key = tuple[str, str]


@dataclass
class Session:
    live: list[tuple[str, ...]] = field(default_factory=list)
    archives: list[list[tuple[str, ...]]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.live) + sum(map(len, self.archives))

    def digests(self) -> list[str]:
        lines = [line for archive in self.archives for line in archive] + self.live
        return [d for line in lines if (d := marked_digest(line)) is not None]


@dataclass(frozen=True)
class Faults:
    """Chances per request. ``late_s`` bounds how long after the abort a late original lands."""

    refuse: float = 0.0
    lose_request: float = 0.0
    lose_reply: float = 0.0
    late: float = 0.0
    cut_reply: float = 0.0
    busy: float = 0.0
    html: float = 0.0
    server_error: float = 0.0
    slow: float = 0.0
    late_s: float = 4.0


CALM = Faults()


class ModelServer:
    def __init__(self, world: World) -> None:
        self.world = world
        self.sessions: dict[Key, Session] = {}
        self.faults = CALM
        self.down = False
        self.stopped = False
        self._at_continue: list[Callable[[], None]] = []
        self._to_hold: dict[str, list[Callable[[], None]]] = {}
        self._seen: Counter[type] = Counter()
        self.met: Counter[str] = Counter()
        self.met_by: dict[str, set[str]] = {}
        self.requests = 0
        self.epoch = 0

    # -- its life --------------------------------------------------------------------------

    def stop(self) -> None:
        self.stopped = True

    def resume(self) -> None:
        self.stopped = False
        waiting, self._at_continue = self._at_continue, []
        for apply in waiting:
            # What was in its socket buffers came before any later request, so it is done first.
            apply()

    def crash(self) -> None:
        """Die: what was not applied is gone with the sockets."""
        self.down = True
        self.epoch += 1
        self._at_continue.clear()
        self.stopped = False

    def restart(self) -> None:
        self.down = False

    # -- for scenes ------------------------------------------------------------------------

    def hold_next(self, session_id: str) -> list[Callable[[], None]]:
        """Hold the next batch of a session; its connection breaks, and it lands when the one
        entry that then appears in the list is called.
        """
        return self._to_hold.setdefault(session_id, [])

    def count(self, kind: type) -> int:
        """Return how many requests of a kind have reached the server."""
        return self._seen[kind]

    # -- a request -------------------------------------------------------------------------

    def send(self, task: Task, step: Send) -> None:
        world, rng, turn = self.world, self.world.rng, task.turn
        attempt, command = step.attempt, step.attempt.command
        self.requests += 1
        began_s, epoch = world.now_s, self.epoch

        def fail(kind: FailureKind, evidence: Evidence, delay_s: float, **facts: object) -> None:
            left_s = max(0.0, attempt.deadline_s - world.now_s)
            if delay_s > left_s:
                # The caller's deadline comes first.
                kind, evidence, delay_s, facts = FailureKind.TIMEOUT, Evidence.UNKNOWN, left_s, {}
            failure = Failure(
                kind=kind,
                evidence=evidence,
                wire_s=0.0 if evidence is Evidence.NOT_SENT else delay_s,
                **facts,  # type: ignore[arg-type]
            )
            world.after(delay_s, lambda: task.answer(turn, failure))

        def time_out() -> None:
            left_s = max(0.0, attempt.deadline_s - world.now_s)
            fail(FailureKind.TIMEOUT, Evidence.UNKNOWN, left_s)

        def effect_later(delay_s: float) -> None:
            world.after(delay_s, lambda: self._apply_unless_dead(command, epoch))

        if attempt.deadline_s <= world.now_s:
            fail(FailureKind.TIMEOUT, Evidence.NOT_SENT, 0.0)
            return
        session = getattr(command, "session_id", "")

        def met(name: str) -> None:
            self.met[name] += 1
            self.met_by.setdefault(session, set()).add(name)

        if self.down:
            met("refused")
            fail(FailureKind.CONNECT, Evidence.NOT_SENT, 0.001)
            return
        self._seen[type(command)] += 1
        if isinstance(command, AddMessages) and session in self._to_hold:
            held = self._to_hold.pop(session)
            held.append(lambda: self._apply_unless_dead(command, epoch))
            fail(FailureKind.RESET, Evidence.UNKNOWN, 0.01)
            return
        if self.stopped:
            met("stopped")
            self._at_continue.append(lambda: self._apply_unless_dead(command, epoch))
            time_out()
            return
        chance, faults = rng.random(), self.faults
        for name in (
            "refuse",
            "lose_request",
            "lose_reply",
            "late",
            "cut_reply",
            "busy",
            "html",
            "server_error",
        ):
            share = getattr(faults, name)
            if chance < share:
                met(name)
                break
            chance -= share
        else:
            name = ""
        delay_s = rng.uniform(0.001, 0.02) if rng.random() >= faults.slow else rng.uniform(0.1, 2.5)
        match name:
            case "refuse":
                fail(FailureKind.CONNECT, Evidence.NOT_SENT, 0.001)
            case "lose_request":
                if rng.random() < 0.5:
                    fail(FailureKind.RESET, Evidence.UNKNOWN, delay_s)
                else:
                    time_out()
            case "lose_reply" | "cut_reply":
                effect_later(delay_s / 2)
                if rng.random() < 0.5:
                    fail(FailureKind.RESET, Evidence.UNKNOWN, delay_s, byte_received=True)
                else:
                    time_out()
            case "late":
                late_s = rng.uniform(0, faults.late_s)
                if rng.random() < 0.5:
                    # The caller gives up at its deadline, if that comes before the reset.
                    gone_s = min(delay_s, max(0.0, attempt.deadline_s - world.now_s))
                    effect_later(gone_s + late_s)
                    fail(FailureKind.RESET, Evidence.UNKNOWN, delay_s)
                else:
                    time_out()
                    self._when_gone(task, attempt.deadline_s, lambda: effect_later(late_s))
            case "busy":
                status = rng.choice((429, 503, 503))
                fail(
                    FailureKind.RATE_LIMITED if status == 429 else FailureKind.SERVER_ERROR,
                    Evidence.ANSWERED,
                    delay_s,
                    status=status,
                    code="UNAVAILABLE",
                    enveloped=True,
                    retry_after_s=rng.choice((None, 0.2, 3.0)),
                )
            case "html":
                # A proxy speaks; it may have passed the request on.
                if rng.random() < 0.5:
                    effect_later(delay_s / 2)
                status = rng.choice((200, 502, 504))
                kind = FailureKind.PROTOCOL if status == 200 else FailureKind.SERVER_ERROR
                fail(kind, Evidence.ANSWERED, delay_s, status=status)
            case "server_error":
                if rng.random() < 0.5:
                    effect_later(delay_s / 2)
                fail(
                    FailureKind.SERVER_ERROR,
                    Evidence.ANSWERED,
                    delay_s,
                    status=500,
                    code="INTERNAL",
                    enveloped=True,
                )
            case _:
                if world.now_s + delay_s > attempt.deadline_s:
                    met("slow")
                    effect_later(delay_s / 2)
                    time_out()
                    return
                box: list[Answer] = []

                def apply() -> None:
                    alive = self._alive(epoch)
                    if alive:
                        box.append(self.apply(command))

                def reply() -> None:
                    if box and not task.over:
                        task.answer(turn, box[0])
                    elif not box:
                        lost = Failure(
                            kind=FailureKind.RESET,
                            evidence=Evidence.UNKNOWN,
                            wire_s=world.now_s - began_s,
                        )
                        task.answer(turn, lost)

                world.after(delay_s / 2, apply)
                world.after(delay_s, reply)

    def _when_gone(self, task: Task, deadline_s: float, then: Callable[[], None]) -> None:
        """Do it when the caller's connection closes, at the latest at its deadline."""
        todo = [then]

        def gone() -> None:
            if todo:
                todo.pop()()

        task.on_gone = gone
        self.world.at(deadline_s, gone)

    def _alive(self, epoch: int) -> bool:
        return epoch == self.epoch and not self.down

    def _apply_unless_dead(self, command: Command, epoch: int) -> None:
        if self.stopped:
            self._at_continue.append(lambda: self._apply_unless_dead(command, epoch))
        elif self._alive(epoch):
            self.apply(command)

    # -- what it does ----------------------------------------------------------------------

    def apply(self, command: Command) -> Answer:
        value = self._value(command)
        return value if isinstance(value, Failure) else Success(value=value, status=200)

    def _value(self, command: Command) -> Value | Failure:
        key = (command.identity.user or "", getattr(command, "session_id", ""))
        match command:
            case Health():
                return ServerHealth(version="0.5.2", user=None)
            case EnsureSession():
                return _info(self.sessions.setdefault(key, Session()))
            case CreateSession():
                if key in self.sessions:
                    return _refusal(409, "ALREADY_EXISTS")
                self.sessions[key] = Session()
                return None
            case GetSession():
                return _info(self.sessions[key]) if key in self.sessions else _refusal(404)
            case AddMessages(messages=messages):
                session = self.sessions.setdefault(key, Session())
                session.live += [m.source_ids for m in messages]
                return BatchReceipt(live_messages=len(session.live), added=len(messages))
            case CommitSession():
                if key not in self.sessions:
                    return _refusal(404)
                session = self.sessions[key]
                if not session.live:
                    return CommitReceipt(
                        accepted=False, task_id=None, archive=None, archive_uri=None
                    )
                session.archives.append(session.live)
                session.live = []
                number = len(session.archives)
                return CommitReceipt(
                    accepted=True,
                    task_id=f"task-{self.requests}",
                    archive=number,
                    archive_uri=f"archive_{number:03d}",
                )
            case Search():
                return ()
            case GetTask(task_id=task_id):
                return TaskInfo(task_id=task_id, status=TaskStatus.COMPLETED)
            case ListTasks():
                return ()
            case ReadMessages(archive=archive, offset=offset, limit=limit):
                if key not in self.sessions:
                    return _refusal(404)
                session = self.sessions[key]
                if archive is None:
                    lines = session.live
                elif archive <= len(session.archives):
                    lines = session.archives[archive - 1]
                else:
                    return _refusal(404)
                return StoredPage(lines=tuple(lines[offset : offset + limit]))
            case ListArchives():
                if key not in self.sessions:
                    return _refusal(404)
                return tuple(range(1, len(self.sessions[key].archives) + 1))

    def forget(self, key: Key) -> list[str]:
        """Somebody deletes a session; return what it held."""
        session = self.sessions.pop(key, None)
        return [] if session is None else session.digests()

    def backup(self) -> dict[Key, Session]:
        """Take a backup."""
        return {
            key: Session(list(s.live), [list(a) for a in s.archives])
            for key, s in self.sessions.items()
        }

    def restore(self, backup: dict[Key, Session]) -> dict[Key, list[str]]:
        """Go back to a backup; return what is gone by it."""
        gone = {}
        for key, session in self.sessions.items():
            kept = Counter(backup[key].digests() if key in backup else [])
            gone[key] = list((Counter(session.digests()) - kept).elements())
        self.sessions = backup
        return gone


def _info(session: Session) -> SessionInfo:
    return SessionInfo(
        total_messages=session.total,
        live_messages=len(session.live),
        commit_count=len(session.archives),
    )


def _refusal(status: int, code: str = "NOT_FOUND") -> Failure:
    return Failure(
        kind=FailureKind.CLIENT_ERROR,
        evidence=Evidence.ANSWERED,
        status=status,
        code=code,
        enveloped=True,
        byte_received=True,
    )
