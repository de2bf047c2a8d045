"""The demo, act by act: remember, recall, keep apart, lose the server, get it back.

Rule: each promise is checked against what the server itself holds or what the caller saw; the
backend's own word counts for nothing.
"""

import time
from collections import Counter
from collections.abc import Callable

from resilient_ov_manager.demo.child import ChildServer
from resilient_ov_manager.demo.conversation import (
    ALICE,
    BOB,
    FORBIDDEN,
    RESEARCHER,
    TALKS,
    HostMessage,
    Talk,
    Turn,
    Words,
)
from resilient_ov_manager.demo.host import RAISED, Host
from resilient_ov_manager.demo.log import LogLines
from resilient_ov_manager.demo.names import Names
from resilient_ov_manager.demo.reading_back import Reader
from resilient_ov_manager.demo.stage import Stage, shown_time

_LONGEST_S = 40.0
_REMEMBERED_S = 10.0
_DELIVERED_S = 25.0
_POLL_S = 0.1
_FLUSH_S = 5.0
# Budgets of the calls by default, and what a busy machine may add.
_BUDGET_S = {"aget_context": 2.0, "asearch": 3.0, "aadd": 3.0, "add_nowait": 0.05}
_SLACK_S = 0.5
_SHOWN_CHARS = 46


class Story:
    """Plays the acts on one server and one manager."""

    def __init__(
        self,
        *,
        stage: Stage,
        server: ChildServer,
        host: Host,
        reader: Reader,
        names: Names,
        log: LogLines,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stage = stage
        self._server = server
        self._host = host
        self._reader = reader
        self._names = names
        self._log = log
        self._now = now
        self._sleep = sleep
        self._ends_s = now() + _LONGEST_S
        self._threads: dict[str, list[HostMessage]] = {talk.speaker: [] for talk in TALKS}

    def remember(self) -> None:
        """Present every turn as DeerFlow does: the whole thread, each time."""
        self._stage.act(
            "Two users, two agents, three threads",
            "After each turn DeerFlow shows the whole thread. Only real words are stored: no"
            " reminders, no injected memory, no uploads block, no tool traffic.",
        )
        rows: list[tuple[str, ...]] = []
        for talk in TALKS:
            for number, turn in enumerate(talk.before, 1):
                thread = self._say(talk, turn)
                self._host.add(talk, thread)
                call = self._host.calls[-1]
                rows.append(
                    (
                        talk.speaker,
                        str(number),
                        str(len(thread)),
                        str(self._reader.total(talk)),
                        shown_time(call.took_s),
                        call.outcome,
                        turn.note,
                    )
                )
        self._stage.table(
            ("who", "turn", "shown", "stored", "took", "outcome", "what is special"),
            rows,
            numbers=(1, 2, 3, 4),
        )
        wanted = {
            talk.speaker: [words for turn in talk.before for words in turn.kept] for talk in TALKS
        }
        self._stage.check(
            f"the server holds the {sum(map(len, wanted.values()))} real messages, each once,"
            " in order",
            holds=self._stored() == wanted,
        )

    def recall(self) -> None:
        """Ask for the memory of a user in a thread that has said nothing yet."""
        self._stage.act(
            "A new thread remembers",
            "The server extracts memories in the background. This is what DeerFlow would put"
            " into the prompt of a new thread of alice with the lead agent:",
        )
        self._wait(lambda: all(self._knows(talk) for talk in TALKS), _REMEMBERED_S)
        text = self._host.inject(ALICE)
        self._stage.quote("injected into the prompt", text or "(nothing)")
        self._stage.check(
            "a new thread is given what was said in the other one", holds=ALICE.mark in text
        )
        hits = self._host.search(RESEARCHER, RESEARCHER.query)
        found = [str(hit["content"]) for hit in hits]
        self._stage.note(f"alice asks the researcher: {RESEARCHER.query} -> {' '.join(found[:1])}")
        self._stage.check(
            "a Chinese question finds the Chinese answer",
            holds=any(RESEARCHER.mark in text for text in found),
        )

    def keep_apart(self) -> None:
        """Ask everybody for everybody's memories."""
        self._stage.act(
            "Nobody sees another's memory",
            "Everybody asks for everything, by injection and by a search for the very words."
            " Memory belongs to a user with an agent; the server knows the user by a hash only.",
        )
        stranger = Talk(
            user="bob", agent="researcher", thread="new", before=(), during=(), query="", mark=""
        )
        rows: list[tuple[str, ...]] = []
        leaks, seen = 0, 0
        for asking in (*TALKS, stranger):
            cells = [asking.speaker, self._names.shown(asking)]
            for owner in TALKS:
                told = self._host.inject(asking) + "".join(
                    str(hit["content"]) for hit in self._host.search(asking, owner.mark)
                )
                sees, own = owner.mark in told, owner is asking
                leaks += sees and not own
                seen += sees and own
                cells.append("sees it" if sees else "-")
            rows.append(tuple(cells))
        columns = ("who asks", "on the server", *(talk.speaker for talk in TALKS))
        self._stage.table(columns, rows)
        self._stage.check("everybody sees the own memory", holds=seen == len(TALKS))
        self._stage.check("nobody sees another user's or agent's memory", holds=leaks == 0)

    def lose_the_server(self) -> None:
        """Kill the server and go on talking; a compaction happens meanwhile."""
        self._stage.act(
            "The server is killed, the conversation goes on",
            "kill -9, no goodbye. Look at the times: nobody waits, nothing fails. In alice's"
            " thread a run is cancelled (DeerFlow presents nothing then) and the next one"
            " compacts the thread: the removed messages are handed over once and never shown"
            " again.",
        )
        self._log.taken()
        pid = self._server.pid
        self._server.kill()
        self._stage.event(f"kill -9 {pid}")
        first = len(self._host.calls)

        self._host.inject(ALICE)
        self._host.add(ALICE, self._say(ALICE, ALICE.during[0]))
        self._host.search(ALICE, ALICE.query)
        self._host.add(BOB, self._say(BOB, BOB.during[0]))
        self._host.inject(BOB)
        self._host.add(RESEARCHER, self._say(RESEARCHER, RESEARCHER.during[0]))
        self._say(ALICE, ALICE.during[1])
        thread = self._say(ALICE, ALICE.during[2])
        # The host keeps its reminders and the newest words.
        removed = thread[:-2]
        rescued = [m for m in removed if m.additional_kwargs.get("dynamic_context_reminder")]
        kept = [*rescued, *thread[-2:]]
        self._host.compact(ALICE, removed)
        self._host.add(ALICE, kept)
        self._host.inject(RESEARCHER)
        self._host.search(RESEARCHER, RESEARCHER.query)

        made = self._host.calls[first:]
        self._stage.calls(made)
        breakers = ", ".join(f"{name} {state}" for name, state in self._host.breakers().items())
        self._stage.note(
            f"{self._host.pending()} messages wait in this process."
            f" Circuit breakers: {breakers or 'all closed'}"
        )
        self._stage.log(self._log.taken())
        self._stage.check(
            "no call raised an error into the agent",
            holds=not any(call.saw.startswith(RAISED) for call in made),
        )
        late = [c for c in made if c.took_s > _BUDGET_S[c.name] + _SLACK_S]
        slowest = max(call.took_s for call in made)
        self._stage.check(
            f"no call went past its budget (the slowest took {shown_time(slowest)})",
            holds=not late,
        )
        self._threads[ALICE.speaker] = kept

    def get_it_back(self) -> None:
        """Start the server again and read back what it holds."""
        self._stage.act(
            "The server comes back",
            "Same port, same data. The agent makes no call now: what waits is delivered in the"
            " background, when the circuit breaker lets its first probe through.",
        )
        self._server.start()
        began_s = self._now()
        self._stage.event(f"started again (pid {self._server.pid}), no call is made")
        delivered = self._wait(
            lambda: all(self._reader.total(talk) >= len(talk.kept()) for talk in TALKS),
            _DELIVERED_S,
        )
        took_s = self._now() - began_s
        stored = self._stored()
        rows: list[tuple[str, ...]] = []
        for talk in TALKS:
            before = sum(len(turn.kept) for turn in talk.before)
            for number, (role, text) in enumerate(stored[talk.speaker], 1):
                if number > before:
                    rows.append((talk.speaker, str(number), role, _cut(text)))
        self._stage.note("What was said meanwhile, as the server now holds it:")
        self._stage.table(("who", "no.", "role", "text"), rows, numbers=(1,))
        self._stage.log(self._log.taken())
        self._stage.check(
            f"everything arrived {shown_time(took_s)} after the server was back", holds=delivered
        )
        counts = [count for held in stored.values() for count in Counter(held).values()]
        self._stage.check("nothing arrived twice", holds=max(counts, default=0) == 1)
        self._stage.check(
            "nothing is missing, all in the order it was said", holds=stored == _wanted()
        )
        held = "\n".join(text for words in stored.values() for _, text in words)
        self._stage.check(
            "no hidden, tool or upload text is on the server",
            holds=not any(piece in held for piece in FORBIDDEN),
        )

    def go_on(self) -> None:
        """Recall what was said meanwhile; present everything again; leave."""
        self._stage.act(
            "Back to normal",
            "A new thread remembers what was said during the outage; presenting everything"
            " again stores nothing; shutting down leaves nothing behind.",
        )
        self._wait(lambda: "read like a story" in self._told(ALICE), _REMEMBERED_S)
        text = self._host.inject(ALICE)
        self._stage.quote("injected into the prompt of alice's next thread", text or "(nothing)")
        self._stage.check(
            "a new thread remembers what was said during the outage",
            holds="read like a story" in text and "launch Falcon in May" in text,
        )
        for talk in TALKS:
            self._host.add(
                talk, [m for turn in (*talk.before, *talk.during) for m in turn.messages]
            )
        self._stage.check(
            "the whole threads shown again: the server holds each message once, as before",
            holds=self._stored() == _wanted(),
        )
        self._stage.check(
            "the manager shuts down with nothing left", holds=self._host.leave(_FLUSH_S)
        )

    def _say(self, talk: Talk, turn: Turn) -> list[HostMessage]:
        """Return the thread with a turn more."""
        thread = [*self._threads[talk.speaker], *turn.messages]
        self._threads[talk.speaker] = thread
        return thread

    def _stored(self) -> dict[str, list[Words]]:
        return {talk.speaker: self._reader.messages(talk) for talk in TALKS}

    def _told(self, talk: Talk) -> str:
        told = self._host.inject(talk)
        self._host.calls.pop()
        return told

    def _knows(self, talk: Talk) -> bool:
        return talk.mark in self._told(talk)

    def _wait(self, condition: Callable[[], bool], most_s: float) -> bool:
        """Wait until something holds, never beyond the demo's own end."""
        until_s = min(self._now() + most_s, self._ends_s)
        while not condition():
            if self._now() >= until_s:
                return False
            self._sleep(_POLL_S)
        return True


def _wanted() -> dict[str, list[Words]]:
    return {talk.speaker: talk.kept() for talk in TALKS}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
