"""Switches that turn one protection of the product off, in this process only.

Rule: they live here and not in the product, which has no knob for any of them. A switch whose
place in the product has moved fails at once, so none can quietly do nothing.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import resilient_ov.domain.recall
from resilient_ov import events
from resilient_ov.domain.namespace import VisibleHit
from resilient_ov.memory import Memory
from resilient_ov.policy.breaker import Breaker
from resilient_ov.policy.budget import RetryBudget
from resilient_ov.usecases.call import CallContext
from resilient_ov.usecases.sending import Sending
from resilient_ov.usecases.settle import Settler
from resilient_ov.usecases.visit import Visit
from resilient_ov_observability import redaction

_ENDLESS: Final = 50.0
"""So many times its budget may a call take when no deadline holds it."""


def apply(name: str | None) -> None:
    """Turn a protection off; None = none.

    Raises:
        ValueError: there is no such switch.

    """
    if name is None:
        return
    if name not in SWITCHES:
        raise ValueError(f"no such mutant: {name}; there are: {', '.join(SWITCHES)}")
    SWITCHES[name]()


def _swap(owner: Any, name: str, new: Any) -> Any:
    """Put something in the place of an attribute; return what was there."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return old


def _says(*, answer: object) -> Callable[..., object]:
    def method(*_: Any) -> object:
        return answer

    return method


def _no_breaker() -> None:
    _swap(Breaker, "_trip_cause", _says(answer=None))


def _no_deadline() -> None:
    starting: Any = CallContext.starting

    def endless(clock: Any, *, budget_s: float, **rest: Any) -> CallContext:
        context: CallContext = starting(clock, budget_s=budget_s, **rest)
        return replace(context, deadline_s=context.deadline_s + (_ENDLESS - 1) * budget_s)

    _swap(CallContext, "starting", staticmethod(endless))


def _no_retry_budget() -> None:
    _swap(RetryBudget, "allows", _says(answer=True))


def _no_single_probe() -> None:
    _swap(Breaker, "probe_in_flight", _says(answer=False))


def _no_read_back() -> None:
    def believe(_: Settler, visit: Visit, reader: Any) -> Any:  # noqa: ARG001 - the signature it replaces
        if visit.watermark.in_doubt is not None:
            visit.watermark = visit.watermark.not_applied()
            yield from visit.save()

    _swap(Settler, "settle", believe)


def _no_intent() -> None:
    save: Any = Visit.save

    def forgetful(visit: Visit) -> Any:
        doubt = visit.watermark.in_doubt
        if doubt is None or doubt.read_back is not None:
            yield from save(visit)

    _swap(Visit, "save", forgetful)


def _no_settle_time() -> None:
    made: Any = Settler.__init__

    def hasty(settler: Settler, *arguments: Any, **rest: Any) -> None:
        made(settler, *arguments, **{**rest, "settle_s": 0.0})

    _swap(Settler, "__init__", hasty)


def _no_redaction() -> None:
    def everything(fields: Mapping[str, object]) -> dict[str, object]:
        shown = {name: value for name, value in fields.items() if value is not None}
        # Readers of the status file expect this one to be a mapping.
        settings: Any = shown.get("settings")
        return shown if settings is None else {**shown, "settings": dict(settings)}

    address: Any = getattr(Memory, "_for")  # noqa: B009 - not ours to name

    def by_name(memory: Memory, context: CallContext, ended: Any, target: Any, who: Any) -> Any:
        context = address(memory, context, ended, target, who)
        ended.origin = events.Origin(
            trace_id=who.trace_id, user_hash=str(who.user_id), session_hash=str(who.thread_id)
        )
        return replace(context, origin=ended.origin)

    _swap(redaction, "clean", everything)
    _swap(Memory, "_for", by_name)


def _no_scope_check() -> None:
    def everybodys(uris: Any, *_: Any, **__: Any) -> list[VisibleHit]:
        return [VisibleHit(uri=uri, category=None) for uri in uris]

    _swap(resilient_ov.domain.recall, "judge_hits", everybodys)


def _count_before_send() -> None:
    send: Callable[..., Generator[Any, Any, Any]] = getattr(Sending, "_send_once")  # noqa: B009 - not ours to name

    def boastful(sending: Any, *arguments: Any) -> Any:
        sink: Any = sending._sink
        if not isinstance(sink, _Hushed):
            sink = sending._sink = _Hushed(sink)
        batch = arguments[-1]
        sink.inner.emit(
            events.MessagesCounted(result=events.MessageResult.STORED, count=len(batch))
        )
        return (yield from send(sending, *arguments))

    _swap(Sending, "_send_once", boastful)


class _Hushed:
    """Swallows the honest count, because the early one was told already."""

    def __init__(self, inner: events.EventSink) -> None:
        self.inner = inner

    def emit(self, event: events.Event) -> None:
        match event:
            case events.MessagesCounted(result=events.MessageResult.STORED):
                return
            case _:
                self.inner.emit(event)


SWITCHES: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "breaker": _no_breaker,
        "deadline": _no_deadline,
        "retry_budget": _no_retry_budget,
        "single_probe": _no_single_probe,
        "read_back": _no_read_back,
        "intent": _no_intent,
        "settle_time": _no_settle_time,
        "redaction": _no_redaction,
        "scope_check": _no_scope_check,
        "count_before_send": _count_before_send,
    }
)
"""Every switch by the name of what it turns off."""
