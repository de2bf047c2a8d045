"""Conversations like an agent platform's, on one event loop and on threads at the same time.

A turn: recall for the prompt, sometimes a search by the model, the model's time, then the whole
thread to ``add``. Some runs are cancelled: their messages come with the next turn. Long threads
are compacted: what is cut away, a cancelled turn among it, goes to ``add_nowait`` and never comes
again.

Rule: what is called, in which order and with what is decided by the seed; only times are not.
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from resilient_ov_chaos.agent.job import Job, Persona, Talk
from resilient_ov_chaos.agent.messages import QUERY, first_words, message, turn_marks
from resilient_ov_chaos.agent.recorder import Recorder
from resilient_ov_chaos.history import Call, Colour, Result
from resilient_ov_chaos.marks import marks_in
from resilient_ov_manager import OpenVikingMemoryManager

_COMPACT_FROM = 8
_KEPT = 2
_SEARCH_SHARE = 0.5
_CANCELLED_SHARE = 0.15
_POLL_S = 0.01


@dataclass(slots=True)
class _State:
    """Where one conversation stands; used by its own thread or task only."""

    talk: Talk
    dice: random.Random
    turn: int
    messages: list[str] = field(default_factory=list[str])


class Traffic:
    """All conversations of one process.

    ``resume`` and ``pause`` may be called from any thread; ``settled`` tells when all
    conversations stand still.
    """

    def __init__(self, job: Job, manager: OpenVikingMemoryManager, recorder: Recorder) -> None:
        self._job = job
        self._manager = manager
        self._recorder = recorder
        self._personas = {each.number: each for each in job.personas}
        self._states = [
            _State(
                talk,
                random.Random(f"{job.seed} {talk.thread} {job.process}"),
                talk.next_turn,
                list(talk.messages),
            )
            for talk in job.talks
        ]
        self._going = threading.Event()
        self._ended = False
        self._lock = threading.Lock()
        self._turning = 0

    # -- what the runner does ---------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start all conversations, standing still."""
        for state in self._states:
            if state.talk.colour is Colour.ASYNC:
                loop.create_task(self._talk_async(state))
            else:
                threading.Thread(target=self._talk_sync, args=(state,), daemon=True).start()

    def resume(self) -> None:
        """Let the turns begin."""
        self._going.set()

    def pause(self) -> None:
        """Begin no further turn; returns when all have ended."""
        self._going.clear()
        while self._turning:
            time.sleep(_POLL_S)

    def present(self) -> None:
        """Hand over every thread whole, as the host does with its next turn."""
        for state in self._states:
            if state.messages:
                self._add(state, Colour.SYNC)

    def seed(self, seconds: float) -> bool:
        """Leave each persona its first memory and wait until all can be read."""
        for persona in self._personas.values():
            self._manager.add(
                f"{persona.seed}-thread",
                first_words(persona),
                user_id=persona.user,
                agent_name=persona.agent,
            )
        end_s = time.monotonic() + seconds
        return all(self._remembered(each, end_s) for each in self._personas.values())

    def warm(self) -> None:
        """Ask whether memory is usable, as the host does at its start."""
        number = self._recorder.begin(Call.WARM, Colour.SYNC)
        try:
            usable = self._manager.warm()
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            result = Result.READY if usable else Result.LEFT
            self._recorder.end(number, result, at_s=time.monotonic())

    def flush(self, seconds: float) -> None:
        """Shut the product down within ``seconds``."""
        number = self._recorder.begin(Call.FLUSH, Colour.SYNC)
        try:
            done = self._manager.shutdown_flush(seconds)
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            result = Result.DRAINED if done else Result.LEFT
            self._recorder.end(number, result, at_s=time.monotonic())

    def _remembered(self, persona: Persona, end_s: float) -> bool:
        while time.monotonic() < end_s:
            hits = self._manager.search(QUERY, user_id=persona.user, agent_name=persona.agent)
            if any(persona.seed in str(hit) for hit in hits):
                return True
            time.sleep(0.1)
        return False

    # -- conversations ----------------------------------------------------------------------

    async def _talk_async(self, state: _State) -> None:
        who = self._who(state)
        while True:
            if not self._enter():
                await asyncio.sleep(_POLL_S)
                continue
            try:
                await self._turn_async(state, who)
            finally:
                self._leave()

    async def _turn_async(self, state: _State, who: dict[str, Any]) -> None:
        manager = self._manager
        await self._read_async(
            state,
            Call.GET_CONTEXT,
            lambda: manager.aget_context(who["user_id"], agent_name=who["agent_name"]),
        )
        if state.dice.random() < _SEARCH_SHARE:
            await self._read_async(state, Call.SEARCH, lambda: manager.asearch(QUERY, **who))
        await asyncio.sleep(self._think_s(state))
        self._say(state)
        if self._compaction_is_due(state):
            self._compact(state, Colour.ASYNC)
        if state.dice.random() < _CANCELLED_SHARE:
            return
        number = self._begin_add(state, Colour.ASYNC)
        try:
            await manager.aadd(state.talk.thread, _messages(state.messages), **who)
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            self._recorder.end(number, Result.ACCEPTED, at_s=time.monotonic())

    def _talk_sync(self, state: _State) -> None:
        who = self._who(state)
        while True:
            self._going.wait()
            if not self._enter():
                time.sleep(_POLL_S)
                continue
            try:
                self._turn_sync(state, who)
            finally:
                self._leave()

    def _turn_sync(self, state: _State, who: dict[str, Any]) -> None:
        manager = self._manager
        self._read_sync(
            state,
            Call.GET_CONTEXT,
            lambda: manager.get_context(who["user_id"], agent_name=who["agent_name"]),
        )
        if state.dice.random() < _SEARCH_SHARE:
            self._read_sync(state, Call.SEARCH, lambda: manager.search(QUERY, **who))
        time.sleep(self._think_s(state))
        self._say(state)
        if self._compaction_is_due(state):
            self._compact(state, Colour.SYNC)
        if state.dice.random() >= _CANCELLED_SHARE:
            self._add(state, Colour.SYNC)

    def _enter(self) -> bool:
        """Begin a turn, unless the traffic is paused."""
        with self._lock:
            if not self._going.is_set():
                return False
            self._turning += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._turning -= 1

    def _who(self, state: _State) -> dict[str, Any]:
        persona = self._personas[state.talk.persona]
        return {"user_id": persona.user, "agent_name": persona.agent}

    def _think_s(self, state: _State) -> float:
        return min(state.dice.expovariate(1 / self._job.think_s), 4 * self._job.think_s)

    def _say(self, state: _State) -> None:
        state.messages += turn_marks(state.talk, state.turn)
        state.turn += 1

    def _compaction_is_due(self, state: _State) -> bool:
        return len(state.messages) > _COMPACT_FROM

    def _compact(self, state: _State, colour: Colour) -> None:
        """Cut the thread short, on the caller's own thread as the host does."""
        self._say(state)  # the last run was cancelled: nobody has handed its messages over
        self._hand_over(state, state.messages[:-_KEPT], colour)
        state.messages = state.messages[-_KEPT:]

    # -- calls ------------------------------------------------------------------------------

    def _add(self, state: _State, colour: Colour) -> None:
        number = self._begin_add(state, colour)
        try:
            self._manager.add(state.talk.thread, _messages(state.messages), **self._who(state))
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            self._recorder.end(number, Result.ACCEPTED, at_s=time.monotonic())

    def _begin_add(self, state: _State, colour: Colour) -> int:
        return self._recorder.begin(
            Call.ADD,
            colour,
            persona=state.talk.persona,
            thread=state.talk.thread,
            presented=tuple(state.messages),
        )

    def _hand_over(self, state: _State, cut: list[str], colour: Colour) -> None:
        number = self._recorder.begin(
            Call.ADD_NOWAIT,
            colour,
            persona=state.talk.persona,
            thread=state.talk.thread,
            presented=tuple(cut),
        )
        try:
            self._manager.add_nowait(state.talk.thread, _messages(cut), **self._who(state))
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            self._recorder.end(number, Result.ACCEPTED, at_s=time.monotonic())

    async def _read_async(
        self, state: _State, call: Call, read: Callable[[], Awaitable[object]]
    ) -> None:
        number = self._recorder.begin(call, Colour.ASYNC, persona=state.talk.persona)
        try:
            got = await read()
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            self._end_read(number, state, got)

    def _read_sync(self, state: _State, call: Call, read: Callable[[], object]) -> None:
        number = self._recorder.begin(call, Colour.SYNC, persona=state.talk.persona)
        try:
            got = read()
        except Exception as error:  # noqa: BLE001 - whatever the host would have to bear
            self._end_badly(number, error)
        else:
            self._end_read(number, state, got)

    def _end_read(self, number: int, state: _State, got: object) -> None:
        at_s = time.monotonic()
        marks = marks_in(str(got))
        served = self._personas[state.talk.persona].seed in marks
        result = Result.SERVED if served else Result.EMPTY
        self._recorder.end(number, result, at_s=at_s, got=marks)

    def _end_badly(self, number: int, error: Exception) -> None:
        self._recorder.end(number, Result.RAISED, at_s=time.monotonic(), error=type(error).__name__)


def _messages(marks: Iterable[str]) -> list[Any]:
    return [message(each) for each in marks]
