"""One round of the synthetic probe: write, commit, extract and recall as a user of its own.

Rule: it sees what users would see, so it goes the whole way: a server whose health is green may
have an embedder that is away, an extraction that fails or an index that stays empty. Nothing of
it is told but step and outcome; the user is `__canary__`, and each round is cleaned up.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from resilient_ov import events
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    CommitReceipt,
    CommitSession,
    Failure,
    GetTask,
    Search,
    Success,
    TaskInfo,
    TaskStatus,
    WireMessage,
)
from resilient_ov.domain.identity import scope, session_id
from resilient_ov.domain.recall import ServerHit, select
from resilient_ov.domain.waiting import Target
from resilient_ov.events import CanaryOutcome, CanaryStep
from resilient_ov.settings import ServerProfile, Settings
from resilient_ov.usecases.addressing import identity_of, target_of
from resilient_ov_manager.live_server import LiveServer
from resilient_ov_manager.purging.server_side import ServerSide
from resilient_ov_manager.terminal import CommandError

CANARY_USER: Final = "__canary__"

_POLL_S: Final = 0.5
_RECALLED_S: Final = 10.0
_TOP_K: Final = 10
_ENDED: Final = {
    TaskStatus.COMPLETED: CanaryOutcome.OK,
    TaskStatus.FAILED: CanaryOutcome.FAILED,
    TaskStatus.CANCELLED: CanaryOutcome.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sang:
    """How one step ended; ``failure`` = what the server answered instead."""

    step: CanaryStep
    outcome: CanaryOutcome
    took_s: float
    failure: Failure | None = None


class Canary:
    """Makes rounds on one server.

    Args:
        settings: trusted or dev; a key of one user has no user to spare.
        server: where to ask.
        sink: hears of every step.
        extraction_s: how long an extraction may take before it counts as late.

    """

    def __init__(
        self,
        settings: Settings,
        server: LiveServer,
        sink: events.EventSink,
        *,
        extraction_s: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._server = server
        self._sink = sink
        self._extraction_s = extraction_s
        self._now = now
        self._sleep = sleep

    def round(self) -> Iterator[Sang]:
        """Yield the steps as they end; after one that failed the rest is not tried.

        A late extraction does not end the round: an older memory may still be found.
        """
        word = f"canary{secrets.token_hex(5)}"
        target = self._target(word)
        try:
            for step in self._steps(word, target):
                self._sink.emit(events.CanaryFinished(step=step.step, outcome=step.outcome))
                yield step
                if step.outcome is CanaryOutcome.FAILED:
                    return
        finally:
            self._clean_up(target)

    def _target(self, word: str) -> Target:
        owner = scope(self._settings.auth.scope_account, CANARY_USER, None)
        identity = identity_of(self._settings, owner)
        return target_of(self._settings, identity, session_id(owner, word))

    def _steps(self, word: str, target: Target) -> Iterator[Sang]:
        began_s = self._now()
        budget_s = self._settings.budgets.add_s
        add = AddMessages(
            identity=target.identity,
            session_id=target.session_id,
            messages=(
                WireMessage(
                    role="user",
                    content=f"Remember this about me: I like the code word {word}.",
                    source_ids=(word,),
                    role_id=target.user_role,
                ),
                WireMessage(
                    role="assistant",
                    content="Noted.",
                    source_ids=(f"{word}-a",),
                    role_id=target.agent_role,
                ),
            ),
        )
        answer, _ = self._server.ask(add, budget_s)
        yield self._plain(CanaryStep.WRITE, answer, began_s)

        began_s = self._now()
        commit = CommitSession(identity=target.identity, session_id=target.session_id)
        answer, _ = self._server.ask(commit, budget_s)
        yield self._plain(CanaryStep.COMMIT, answer, began_s)
        receipt = answer.value if isinstance(answer, Success) else None
        task_id = receipt.task_id if isinstance(receipt, CommitReceipt) else None

        yield self._extracted(target, task_id)
        yield self._recalled(target, word)

    def _extracted(self, target: Target, task_id: str | None) -> Sang:
        began_s = self._now()
        step = CanaryStep.EXTRACT
        if task_id is None:
            return self._ended(step, CanaryOutcome.FAILED, began_s)
        while True:
            command = GetTask(identity=target.identity, task_id=task_id)
            answer, _ = self._server.ask(command, self._settings.budgets.health_s)
            found = answer.value if isinstance(answer, Success) else None
            if isinstance(found, TaskInfo) and found.status in _ENDED:
                return self._ended(step, _ENDED[found.status], began_s)
            if self._now() - began_s >= self._extraction_s:
                return self._ended(step, CanaryOutcome.LATE, began_s)
            self._sleep(_POLL_S)

    def _recalled(self, target: Target, word: str) -> Sang:
        """Look until the memory is found; the index may be a moment behind the extraction."""
        began_s = self._now()
        view = self._server.view(target.identity)
        if isinstance(view, Failure):
            return self._ended(CanaryStep.RECALL, CanaryOutcome.FAILED, began_s, view)
        command = Search(
            identity=target.identity,
            query=f"the code word {word}",
            targets=view.targets(None),
            limit=_TOP_K,
            score_threshold=0.0,
        )
        while True:
            answer, _ = self._server.ask(command, self._settings.budgets.search_s)
            if isinstance(answer, Failure):
                return self._ended(CanaryStep.RECALL, CanaryOutcome.FAILED, began_s, answer)
            told = answer.value if isinstance(answer.value, tuple) else ()
            hits = select([hit for hit in told if isinstance(hit, ServerHit)], view=view).hits
            if any(word in hit.text for hit in hits):
                return self._ended(CanaryStep.RECALL, CanaryOutcome.OK, began_s)
            if self._now() - began_s >= _RECALLED_S:
                return self._ended(CanaryStep.RECALL, CanaryOutcome.LATE, began_s)
            self._sleep(_POLL_S)

    def _plain(self, step: CanaryStep, answer: Answer, began_s: float) -> Sang:
        if isinstance(answer, Failure):
            return self._ended(step, CanaryOutcome.FAILED, began_s, answer)
        return self._ended(step, CanaryOutcome.OK, began_s)

    def _ended(
        self,
        step: CanaryStep,
        outcome: CanaryOutcome,
        began_s: float,
        failure: Failure | None = None,
    ) -> Sang:
        took_s = self._now() - began_s
        return Sang(step=step, outcome=outcome, took_s=took_s, failure=failure)

    def _clean_up(self, target: Target) -> None:
        """Delete what the round left; a server that is away keeps it until a later round."""
        if self._settings.server_profile is ServerProfile.NAMESPACE:
            return  # a shared session is deleted by an admin only
        with suppress(CommandError), ServerSide(self._settings, target.identity) as data:
            for session in data.sessions():
                if not data.open_tasks(session):
                    data.delete_session(session)
            if data.memories():
                data.delete_memories()
