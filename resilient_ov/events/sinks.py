"""Where events go, and how one event reaches several sinks.

Rule: a sink is never a reason for a memory call to fail or to wait.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from resilient_ov.events.facts import Event, SinkError
from resilient_ov.events.labels import Call, SinkName

Handler = Callable[[Any], None]


class EventSink(Protocol):
    """Takes events. Safe from any thread and any event loop; never raises, never blocks."""

    def emit(self, event: Event) -> None:
        """Take one event; the order across threads is not defined."""
        ...


@runtime_checkable
class RoutedSink(Protocol):
    """A sink that names the events it wants, so that the others cost it nothing."""

    def handlers(self) -> Mapping[type, Handler]:
        """Return what to call per event class; asked once."""
        ...


class CallScope(Protocol):
    """Surrounds one call: whatever the call does inside belongs together (a span, for example).

    Entered and left on the same thread or task. Never raises, never blocks.
    """

    def __call__(self, call: Call, /) -> AbstractContextManager[None]:
        """Return the surroundings of one call."""
        ...


def no_scope(_call: Call, /) -> AbstractContextManager[None]:
    """Surround a call with nothing."""
    return nullcontext()


class NullSink:
    """Takes every event and does nothing."""

    def emit(self, event: Event) -> None:
        """Take one event."""


def fan_out(sinks: Mapping[SinkName, EventSink]) -> EventSink:
    """Return one sink that passes each event to all of ``sinks``.

    A sink that raises does not keep the others from the event; the others are told by a
    ``SinkError``, about which nobody is told again if it fails too.
    """
    return _FanOut(sinks)


class _Branch:
    """One sink and its handlers, if it named them."""

    __slots__ = ("handlers", "name", "sink")

    def __init__(self, name: SinkName, sink: EventSink) -> None:
        self.name = name
        self.sink = sink
        self.handlers: Mapping[type, Handler] | None = None

    def handler(self, kind: type) -> Handler | None:
        return self.sink.emit if self.handlers is None else self.handlers.get(kind)


class _FanOut:
    """Passes events on; the handlers of an event class are looked up once."""

    __slots__ = ("_branches", "_routes")

    def __init__(self, sinks: Mapping[SinkName, EventSink]) -> None:
        self._branches = tuple(_Branch(name, sink) for name, sink in sinks.items())
        self._routes: dict[type, tuple[tuple[_Branch, Handler], ...]] = {}
        for branch in self._branches:
            if isinstance(branch.sink, RoutedSink):
                try:
                    branch.handlers = branch.sink.handlers()
                except Exception:  # noqa: BLE001 - a sink without handlers is a broken sink
                    branch.handlers = {}
                    self._tell(branch)

    def emit(self, event: Event) -> None:
        route = self._routes.get(type(event))
        if route is None:
            route = self._route(type(event))
        for branch, handle in route:
            try:
                handle(event)
            except Exception:  # noqa: BLE001 - whatever a sink does wrong is counted, not raised
                self._tell(branch)

    def _route(self, kind: type) -> tuple[tuple[_Branch, Handler], ...]:
        found = ((branch, branch.handler(kind)) for branch in self._branches)
        route = tuple((branch, handle) for branch, handle in found if handle is not None)
        self._routes[kind] = route
        return route

    def _tell(self, culprit: _Branch) -> None:
        event = SinkError(sink=culprit.name)
        for branch, handle in self._routes.get(SinkError) or self._route(SinkError):
            if branch is culprit:
                continue
            try:
                handle(event)
            except Exception:  # noqa: BLE001, S112 - telling about the telling would never end
                continue
