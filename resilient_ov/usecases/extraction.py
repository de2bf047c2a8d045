"""Watches whether committed messages really became memory: a failed extraction is silent.

Rule: never in the way of a turn. A task is looked up a minute and ten minutes after its commit
by the process that committed, and once at the next write of its session; each end is told once.
"""

import threading
from collections import deque
from dataclasses import dataclass

from resilient_ov import events
from resilient_ov.domain.exchange import (
    Failure,
    GetTask,
    ListTasks,
    Success,
    TaskInfo,
    TaskStatus,
)
from resilient_ov.domain.ports import Clock
from resilient_ov.domain.waiting import Target
from resilient_ov.usecases.call import CallContext, Calls, Result, origin_of
from resilient_ov.usecases.steps import Flow, wait

_LOOKS_S = (60.0, 600.0)
_MOST = 1000
_PACE_S = 2.0
_LOOKUP_BUDGET_S = 2.0
_SPARE_S = 0.5
_POLL_S = 0.25

_ENDS = {
    TaskStatus.COMPLETED: events.ExtractionStatus.COMPLETED,
    TaskStatus.FAILED: events.ExtractionStatus.FAILED,
    TaskStatus.CANCELLED: events.ExtractionStatus.CANCELLED,
}


@dataclass(slots=True)
class _Watched:
    target: Target
    task_id: str
    due_s: float
    looks: int = 0


class Extractions:
    """Remembers the tasks of this process's commits. Safe from any thread; never blocks."""

    def __init__(self, *, calls: Calls, sink: events.EventSink, clock: Clock) -> None:
        self._calls = calls
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: deque[_Watched] = deque()
        self._last_lookup_s = float("-inf")

    def watch(self, target: Target, task_id: str) -> None:
        """Look the task up later; the oldest is let go when there are too many."""
        due_s = self._clock.monotonic_s() + _LOOKS_S[0]
        with self._lock:
            self._watched.append(_Watched(target, task_id, due_s))
            if len(self._watched) > _MOST:
                self._watched.popleft()

    def wait_for(self, context: CallContext, target: Target, task_id: str) -> Flow[None]:
        """Poll until the task ended or the budget did; not finished is no error."""
        while context.deadline_s - self._clock.monotonic_s() > _POLL_S:
            result = yield from self._calls.perform(
                context, GetTask(identity=target.identity, task_id=task_id)
            )
            if not isinstance(result, Success) or self._judge(target, task_id, result):
                return
            yield from wait(_POLL_S)

    def check_earlier(self, context: CallContext, target: Target) -> Flow[None]:
        """Look up the session's earlier tasks when the turn has time to spare."""
        earlier = self._of(target.session_id)
        if not earlier or context.deadline_s - self._clock.monotonic_s() < _SPARE_S:
            return
        result = yield from self._calls.perform(
            context, ListTasks(identity=target.identity, session_id=target.session_id)
        )
        if isinstance(result, Success) and isinstance(result.value, tuple):
            ended = {t.task_id: t for t in result.value if isinstance(t, TaskInfo)}
            for task_id in earlier:
                if task_id in ended:
                    self._end(target, ended[task_id])

    def jobs(self, now_s: float) -> list[Flow[None]]:
        """Return the look-up to start now, if one is due; at most one in two seconds."""
        with self._lock:
            if now_s < self._last_lookup_s + _PACE_S:
                return []
            due = next((w for w in self._watched if w.due_s <= now_s), None)
            if due is None:
                return []
            self._last_lookup_s = now_s
            self._watched.remove(due)
            due.looks += 1
            if due.looks < len(_LOOKS_S):
                due.due_s = now_s + _LOOKS_S[due.looks] - _LOOKS_S[due.looks - 1]
                self._watched.append(due)
        return [self._look_up(due.target, due.task_id)]

    def next_s(self, now_s: float) -> float | None:
        """Return when ``jobs`` is worth asking again."""
        with self._lock:
            due_s = min((w.due_s for w in self._watched), default=None)
        return None if due_s is None else max(due_s, now_s, self._last_lookup_s + _PACE_S)

    def _look_up(self, target: Target, task_id: str) -> Flow[None]:
        context = CallContext.starting(
            self._clock,
            budget_s=_LOOKUP_BUDGET_S,
            origin=origin_of(target.identity.user, target.session_id),
            sweeper=True,
        )
        result = yield from self._calls.perform(
            context, GetTask(identity=target.identity, task_id=task_id)
        )
        self._judge(target, task_id, result)

    def _judge(self, target: Target, task_id: str, result: Result) -> bool:
        """Tell an end once; True = the task is over."""
        if isinstance(result, Failure) and result.enveloped and result.status == 404:
            if self._forget(task_id):
                self._tell(target, task_id, events.ExtractionStatus.EXPIRED)
            return True
        if isinstance(result, Success) and isinstance(result.value, TaskInfo):
            return self._end(target, result.value)
        return False

    def _end(self, target: Target, task: TaskInfo) -> bool:
        status = _ENDS.get(task.status)
        if status is not None and self._forget(task.task_id):
            self._tell(target, task.task_id, status)
        return status is not None

    def _forget(self, task_id: str) -> bool:
        with self._lock:
            kept = deque(w for w in self._watched if w.task_id != task_id)
            found = len(kept) < len(self._watched)
            self._watched = kept
        return found

    def _of(self, session_id: str) -> list[str]:
        with self._lock:
            return [w.task_id for w in self._watched if w.target.session_id == session_id]

    def _tell(self, target: Target, task_id: str, status: events.ExtractionStatus) -> None:
        self._sink.emit(
            events.ExtractionTask(
                status=status,
                task_id=task_id,
                origin=origin_of(target.identity.user, target.session_id),
            )
        )
