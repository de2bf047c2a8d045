"""``search`` and ``get_context``: what the user's memory holds about a question.

Rule: an answer is the server's, checked hit by hit, or an earlier good one that is marked stale,
or none; never an error text.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from resilient_ov import events
from resilient_ov.domain.exchange import Failure, FailureKind, Operation, Search, Success
from resilient_ov.domain.namespace import View, is_category
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.recall import MemoryHit, ServerHit, injection_text, select
from resilient_ov.domain.waiting import Target
from resilient_ov.policy.classify import DegradeReason
from resilient_ov.policy.refusals import Refusal, RefusalReason
from resilient_ov.settings import RetrievalSettings
from resilient_ov.usecases.call import CallContext, Calls
from resilient_ov.usecases.failures import degradation
from resilient_ov.usecases.steps import Flow

_MOST_STALE = 256
_MOST_STALE_CHARS = 8 * 1024 * 1024 // 4
_ENTRY_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, of whose memory."""

    target: Target
    view: View
    query: str
    category: str | None
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How a read ended. ``cause`` and ``reason`` = why there is no answer of the server.

    ``text`` = what goes into the prompt, of a read that asked for it.
    """

    outcome: events.CallOutcome
    hits: tuple[MemoryHit, ...] = ()
    text: str = ""
    cause: Failure | Refusal | None = None
    reason: DegradeReason | None = None


_DEGRADED = {
    DegradeReason.UNAVAILABLE: events.CallOutcome.DEGRADED_UNAVAILABLE,
    DegradeReason.DEADLINE: events.CallOutcome.DEGRADED_DEADLINE,
    DegradeReason.REFUSED: events.CallOutcome.DEGRADED_REFUSED,
    DegradeReason.AUTH: events.CallOutcome.DEGRADED_AUTH,
    DegradeReason.SCOPE: events.CallOutcome.DEGRADED_SCOPE,
    DegradeReason.PROTOCOL: events.CallOutcome.DEGRADED_PROTOCOL,
    DegradeReason.SYNC_ON_LOOP: events.CallOutcome.DEGRADED_REFUSED,
}


def degraded(reason: DegradeReason, cause: Failure | Refusal | None = None) -> Found:
    """Return the end of a read that had to go on without memory."""
    return Found(outcome=_DEGRADED[reason], cause=cause, reason=reason)


class Recall:
    """Reads memory. One per process; safe from many threads and tasks."""

    def __init__(
        self,
        *,
        calls: Calls,
        sink: events.EventSink,
        clock: Clock,
        retrieval: RetrievalSettings,
        stale_read_s: float,
    ) -> None:
        self._calls = calls
        self._sink = sink
        self._retrieval = retrieval
        self._stale = _StaleAnswers(clock, stale_read_s)

    def search(
        self, context: CallContext, question: Question, *, inject: bool = False
    ) -> Flow[Found]:
        """Ask the server; a blank query or an impossible category is answered without asking.

        ``inject`` = the hits are for the prompt, so what does not fit into it counts as empty.
        """
        if not question.query.strip():
            return Found(outcome=events.CallOutcome.EMPTY)
        if question.category is not None and not is_category(question.category):
            return Found(outcome=events.CallOutcome.EMPTY)
        command = Search(
            identity=question.target.identity,
            query=question.query,
            targets=question.view.targets(question.category),
            limit=question.top_k,
            score_threshold=self._retrieval.score_threshold,
        )
        result = yield from self._calls.perform(context, command)
        if not isinstance(result, Success):
            return self._without_answer(context, question, result, inject=inject)
        answered = result.value if isinstance(result.value, tuple) else ()
        chosen = select(
            [hit for hit in answered if isinstance(hit, ServerHit)],
            view=question.view,
            categories=None if question.category is None else (question.category,),
            limit=question.top_k,
        )
        self._stale.keep(question, chosen.hits)
        text = self._text(chosen.hits) if inject else ""
        self._sink.emit(
            events.SearchFinished(
                results=len(chosen.hits),
                rejected=chosen.rejected,
                injection_chars=len(text) if inject else None,
                origin=context.origin,
            )
        )
        had = bool(text) if inject else bool(chosen.hits)
        outcome = events.CallOutcome.OK if had else events.CallOutcome.EMPTY
        return Found(outcome=outcome, hits=chosen.hits, text=text)

    def _text(self, hits: tuple[MemoryHit, ...]) -> str:
        return injection_text(
            hits,
            max_chars=self._retrieval.max_injection_chars,
            max_item_chars=self._retrieval.max_item_chars,
        )

    def _without_answer(
        self,
        context: CallContext,
        question: Question,
        cause: Failure | Refusal,
        *,
        inject: bool,
    ) -> Found:
        reason = degradation(cause, Operation.SEARCH)
        kept = None if _forbids_stale(cause, reason) else self._stale.of(question)
        if kept is None:
            return degraded(reason, cause)
        self._sink.emit(events.StaleRead(origin=context.origin))
        return Found(
            outcome=events.CallOutcome.STALE,
            hits=kept,
            text=self._text(kept) if inject else "",
            cause=cause,
            reason=reason,
        )


def _forbids_stale(cause: Failure | Refusal, reason: DegradeReason) -> bool:
    """After an own 401 or 403, or when an operator switched memory off, old answers are out."""
    if isinstance(cause, Refusal):
        return cause.reason in (RefusalReason.SWITCH, RefusalReason.AUTH_HOLD)
    return reason is DegradeReason.AUTH or cause.kind is FailureKind.AUTH


class _StaleAnswers:
    """The last good answers, bounded in age, number and size; off when the age is 0."""

    def __init__(self, clock: Clock, max_age_s: float) -> None:
        self._clock = clock
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._answers: OrderedDict[Question, tuple[float, tuple[MemoryHit, ...]]] = OrderedDict()
        self._chars = 0

    def keep(self, question: Question, hits: tuple[MemoryHit, ...]) -> None:
        if self._max_age_s <= 0:
            return
        with self._lock:
            self._drop(question)
            self._answers[question] = (self._clock.monotonic_s(), hits)
            self._chars += _size(question, hits)
            while len(self._answers) > _MOST_STALE or self._chars > _MOST_STALE_CHARS:
                self._drop(next(iter(self._answers)))

    def of(self, question: Question) -> tuple[MemoryHit, ...] | None:
        with self._lock:
            kept = self._answers.get(question)
            if kept is None:
                return None
            if self._clock.monotonic_s() - kept[0] > self._max_age_s:
                self._drop(question)
                return None
            return kept[1]

    def _drop(self, question: Question) -> None:
        dropped = self._answers.pop(question, None)
        if dropped is not None:
            self._chars -= _size(question, dropped[1])


def _size(question: Question, hits: tuple[MemoryHit, ...]) -> int:
    return len(question.query) + sum(len(h.text) + len(h.uri) + _ENTRY_CHARS for h in hits)
