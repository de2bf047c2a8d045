"""A thread of true messages, a server that stores digests, and the write path in small.

Rule: no rule of the domain is repeated here. The host knows which messages there are and in which
order it showed them; the server keeps what it was sent; between them stands the code under test,
called in the order in which the write path calls it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.planning import (
    Plan,
    Presentation,
    adopted_head,
    delivered,
    merge,
    plan,
    present,
    recognises,
    trim,
)
from resilient_ov.domain.watermark import Watermark

SESSION = "df_session"
MOST_IN_A_BATCH = 100
NOTHING = Presentation()


@dataclass(frozen=True)
class Shown:
    """One true message of the host."""

    uid: int
    role: Role
    text: str
    host_id: str | None


@dataclass
class Server:
    """Digests in order: archives, then live ones; `refuses` holds texts it never takes."""

    archives: list[list[str]] = field(default_factory=list)
    live: list[str] = field(default_factory=list)

    @property
    def everything(self) -> list[str]:
        return [*(d for archive in self.archives for d in archive), *self.live]

    def commit(self) -> int | None:
        if not self.live:
            return None
        self.archives.append(self.live)
        self.live = []
        return len(self.archives)


@dataclass
class Fates:
    """What happens to a delivery: asked once per question, in order."""

    choose: Callable[[str, Sequence[str]], str]

    def __call__(self, question: str, *answers: str) -> str:
        return self.choose(question, answers)


class DiedError(Exception):
    """The process was killed."""


class Thread:
    """One thread, its host, its process and its server."""

    def __init__(self, *, window: int, fates: Fates) -> None:
        self.window = window
        self.fates = fates
        self.server = Server()
        self.state = fresh()
        self.waiting: Presentation | None = None
        self.shown: list[Shown] = []
        self.checkpoints: list[list[Shown]] = []
        self.suffixes: Counter[int] = Counter()
        self.accepted: list[Shown] = []
        self.refused: set[int] = set()
        self.known: dict[tuple[Role, str, str | None], Shown] = {}
        self.meaning: dict[str, Shown] = {}
        self.late: tuple[str, ...] = ()
        self.met: Counter[str] = Counter()
        self._last_uid = 0

    # -- the host ---------------------------------------------------------------------------

    def new(self, role: Role, *, text: str | None = None, host_id: str | None = "") -> Shown:
        """A new message; `host_id` empty = a new id, None = none."""
        self._last_uid += 1
        uid = self._last_uid
        host_id = f"m{uid}" if host_id == "" else host_id
        message = Shown(uid, role, f"text {uid}" if text is None else text, host_id)
        self.known[role, message.text, host_id] = message
        return message

    def spelled(self, messages: Sequence[Shown]) -> list[Shown]:
        """The messages under the ids the host has for them by now."""
        return [
            m
            if m.host_id is None
            else replace(m, host_id=m.host_id + "__user" * self.suffixes[m.uid])
            for m in messages
        ]

    def presents(self, messages: Sequence[Shown]) -> Presentation:
        """Accept a list: what is new in it is from now on owed."""
        self.checkpoints.append(list(messages))
        owed = {m.uid for m in self.accepted} | self.refused
        self.accepted += [m for m in messages if m.uid not in owed]
        return present(
            SESSION,
            [Message(role=m.role, text=m.text, host_id=m.host_id) for m in self.spelled(messages)],
        )

    def stored(self) -> list[Shown]:
        return [self.meaning[d] for d in self.server.everything]

    def stored_uids(self) -> list[int]:
        return [message.uid for message in self.stored()]

    # -- the process ------------------------------------------------------------------------

    def add(self, messages: Sequence[Shown]) -> None:
        """A turn ended: deliver, or join what waits."""
        shown = self.presents(messages)
        if self.waiting is not None:
            self.waiting = merge(self.waiting, shown)
            return
        self._write(shown)

    def hand_over(self, messages: Sequence[Shown]) -> None:
        """Messages are about to leave the list: the writer gets them unread."""
        shown = self.presents(messages)
        self.waiting = shown if self.waiting is None else merge(self.waiting, shown)

    def write(self, meanwhile: Sequence[Shown] = ()) -> None:
        """The writer delivers what waits; `meanwhile` is handed over while it sends."""
        if self.waiting is None:
            return
        waiting, self.waiting = self.waiting, None
        self._write(waiting, meanwhile)

    def kill(self) -> None:
        """The process ends; what only it held is abandoned.

        The host shows of that only what stands behind all that is stored, and no older list with
        it: a message stored late, before others of its list, breaks the order that planning
        relies on.
        """
        self.waiting = None
        held = {*self.stored_uids(), *(self.meaning[d].uid for d in self.late)}
        self.accepted = [m for m in self.accepted if m.uid in held]
        held |= self.refused
        self.shown = _without_gaps(self.shown, held)
        self.checkpoints = [
            list(takewhile(lambda m: m.uid in held, shown)) for shown in self.checkpoints
        ]

    def lose_state(self) -> None:
        """The state file is gone."""
        self._land()
        self.state = fresh()

    def _write(self, shown: Presentation, meanwhile: Sequence[Shown] = ()) -> None:
        try:
            left = self._deliver(shown)
        except DiedError:
            self.kill()
            return
        added = self.presents(meanwhile) if meanwhile else NOTHING
        owed = self.state.unfinished or left.fingerprints or added.fingerprints
        self.waiting = merge(left, added) if owed else None
        if self.waiting is not None and len(self.waiting.listings) > 1:
            self.met["waited together"] += 1

    def _deliver(self, shown: Presentation) -> Presentation:
        planned = plan(self.state, shown, window=self.window)
        wanted = self._wanted(planned)
        if not planned.unknown and self.state.in_doubt is None:
            return self._committed()
        if self.fates("reach", "yes", "no") == "no":
            self.met["refused"] += 1
            return trim(shown, planned.digests, wanted)
        if self.state.in_doubt is not None:
            if not self._settle():
                return trim(shown, planned.digests, wanted)
            planned = plan(self.state, shown, window=self.window)
        if planned.prefix_lost or self.state.server_total is None:
            history = self._compare(shown)
            planned = plan(self.state, shown, window=self.window, history=history)
        wanted = self._wanted(planned)
        todo = [p.digest for p in planned.unknown]
        self._understand(planned)
        size = int(self.fates("batch", "3", "1", str(MOST_IN_A_BATCH)))
        while todo:
            batch, todo = tuple(todo[:size]), todo[size:]
            if not self._send(batch):
                return trim(shown, planned.digests, wanted)
            wanted -= set(batch)
        self.state = delivered(self.state, shown, planned.digests)
        return self._committed()

    def _understand(self, planned: Plan) -> None:
        """Remember which true message a digest was made for."""
        stored = set(self.server.everything)
        for item in planned.unknown:
            if item.digest in stored:
                raise AssertionError(f"sent again: {item.message.text}")
            self.meaning[item.digest] = self._true(item.message)

    def _true(self, message: Message) -> Shown:
        root = message.host_id
        while root is not None and root.endswith("__user"):
            root = root.removesuffix("__user")
        return self.known[message.role, message.text, root]

    def _wanted(self, planned: Plan) -> set[str]:
        doubt = self.state.in_doubt
        return {*(p.digest for p in planned.unknown), *(doubt.digests if doubt else ())}

    def _send(self, batch: tuple[str, ...]) -> bool:
        fate = self.fates(
            "answer", "stored", "lost", "lost, never applied", "lost, applied late", "refused",
            "rejected", "killed", "killed, stored",
        )  # fmt: skip
        if fate == "rejected":
            self.met["given up"] += 1
            self.refused |= {self.meaning[d].uid for d in batch}
            self.accepted = [m for m in self.accepted if m.uid not in self.refused]
        bad = tuple(d for d in batch if self.meaning[d].uid in self.refused)
        self.state = self.state.given_up(bad, self.window)
        batch = tuple(d for d in batch if d not in bad)
        if not batch:
            return True
        self.state = self.state.intend(doubt_id="d", owner="o", digests=batch)
        if fate in ("stored", "lost", "killed, stored"):
            self.server.live += batch
        if fate == "lost, applied late":
            self.late = batch
        if fate.startswith("killed"):
            self.met["killed"] += 1
            raise DiedError
        if fate == "stored":
            self.state = self.state.stored(
                added=len(batch), live=len(self.server.live), window=self.window, now_utc="now"
            )
            return True
        if fate == "refused":
            self.state = self.state.not_applied()
            return False
        self.met["lost answer"] += 1
        return False

    def _settle(self) -> bool:
        self._land()
        doubt = self.state.in_doubt
        assert doubt is not None
        everything = set(self.server.everything)
        stored = tuple(d for d in doubt.digests if d in everything)
        if self.fates("settle", "now", "held") == "held":
            return False
        self.met["settled present" if stored else "settled absent"] += 1
        self.state = self.state.settled(
            present=stored,
            total=len(self.server.everything),
            live=len(self.server.live),
            newest_archive=len(self.server.archives),
            window=self.window,
            now_utc="now",
        )
        return True

    def _land(self) -> None:
        self.server.live += self.late
        self.late = ()

    def _compare(self, shown: Presentation) -> tuple[str, ...]:
        """Ask the server: read newest first until enough is recognised."""
        self.met["compared"] += 1
        history: tuple[str, ...] = ()
        if self.server.everything:
            history = tuple(self.server.live)
            for archive in reversed(self.server.archives):
                if len(history) >= self.window and recognises(history, shown):
                    break
                history = (*archive, *history)
            self.state = self.state.rebuilt(
                digests=history, window=self.window, newest_archive=len(self.server.archives)
            )
            self.state = adopted_head(self.state, shown, window=self.window, history=history)
        self.state = self.state.compared(
            total=len(self.server.everything), live=len(self.server.live)
        )
        return history

    def _committed(self) -> Presentation:
        if (
            self.state.pending_commit_since is not None
            and self.fates("commit", "yes", "no") == "yes"
        ):
            number = self.server.commit()
            self.state = self.state.committed_all(task_id=None, archive=number, archive_uri=None)
        return NOTHING

    # -- the oracle -------------------------------------------------------------------------

    def drain(self) -> None:
        """Let the host end a turn, and everything that waits be delivered by a healthy server."""
        fates, self.fates = self.fates, Fates(lambda _, answers: answers[0])
        self.add(self.shown)
        for _ in range(5):
            self.write()
        assert self.waiting is None
        assert self.state.in_doubt is None
        self.fates = fates

    def check(self) -> None:
        """Every message once, none forgotten, in the order in which the process accepted them."""
        stored = self.stored_uids()
        again = [uid for uid, count in Counter(stored).items() if count > 1]
        assert not again, f"stored twice: {again}"
        assert stored == [m.uid for m in self.accepted]
        assert len(self.state.submitted) <= max(self.window, MOST_IN_A_BATCH)


def _without_gaps(shown: Sequence[Shown], held: set[int]) -> list[Shown]:
    last = max((at for at, m in enumerate(shown) if m.uid in held), default=-1)
    return [m for at, m in enumerate(shown) if at > last or m.uid in held]


def fresh() -> Watermark:
    return Watermark(
        session_id=SESSION, openviking_user="u", account="a", server_id="s", server_profile="0.5"
    )
