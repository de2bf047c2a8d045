import copy
import dataclasses
import pickle
import typing
from enum import StrEnum

import pytest

from resilient_ov.domain.exchange import Operation
from resilient_ov.events import (
    ENTERED,
    LEFT,
    BreakerChanged,
    BreakerState,
    Event,
    EventSink,
    Group,
    OperationFinished,
    OperationStatus,
    PoolHealed,
    SinkError,
    SinkName,
    StaleRead,
    fan_out,
    labels,
)

EVENT_CLASSES = typing.get_args(Event)


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class Raising:
    def emit(self, event: Event) -> None:
        raise RuntimeError("the sink is broken")


class Routed(Recorder):
    def handlers(self):
        return {PoolHealed: self.emit}


def operation(**changes: typing.Any) -> OperationFinished:
    facts: dict[str, typing.Any] = {
        "operation": Operation.SEARCH,
        "group": Group.RECALL,
        "status": OperationStatus.OK,
        "duration_s": 0.1,
    }
    return OperationFinished(**{**facts, **changes})


@pytest.mark.parametrize("kind", EVENT_CLASSES, ids=lambda kind: kind.__name__)
def test_every_event_is_frozen_slotted_and_documented(kind):
    assert kind.__dataclass_params__.frozen
    assert hasattr(kind, "__slots__")
    assert kind.__doc__
    assert all(field.kw_only for field in dataclasses.fields(kind))


def test_the_hand_written_constructor_stores_every_field():
    names = [field.name for field in dataclasses.fields(OperationFinished)]
    values = {name: object() for name in names}
    event = OperationFinished(**values)
    assert {name: getattr(event, name) for name in names} == values
    assert dataclasses.replace(event, attempts=7).attempts == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.attempts = 2


def test_an_operation_finished_is_compared_copied_and_pickled_by_its_fields():
    event = operation(attempts=3, request_id="r1")
    assert copy.copy(event) == pickle.loads(pickle.dumps(event)) == event
    assert event != operation(attempts=2, request_id="r1")


@pytest.mark.parametrize(("attempts", "retries"), [(0, 0), (1, 0), (3, 2)])
def test_retries_are_the_attempts_after_the_first(attempts, retries):
    assert operation(attempts=attempts).retry_count == retries


def test_label_values_are_short_lower_case_words():
    enums = [getattr(labels, name) for name in labels.__all__]
    assert all(issubclass(enum, StrEnum) for enum in enums)
    assert all(value.replace("_", "").isalnum() and value.islower() for e in enums for value in e)


def test_in_flight_constants_cover_every_group_with_a_bulkhead():
    assert set(ENTERED) == set(LEFT) == set(Group) - {Group.HOST}
    assert {event.change for event in ENTERED.values()} == {1}
    assert {event.change for event in LEFT.values()} == {-1}


def test_every_sink_gets_every_event_in_order():
    one, two = Recorder(), Recorder()
    out = fan_out({SinkName.LOG: one, SinkName.STATUS: two})
    events = [PoolHealed(), StaleRead(), PoolHealed()]
    for event in events:
        out.emit(event)
    assert one.events == two.events == events


def test_a_routed_sink_gets_only_what_it_asked_for():
    routed = Routed()
    out = fan_out({SinkName.METRICS: routed})
    out.emit(StaleRead())
    out.emit(PoolHealed())
    assert routed.events == [PoolHealed()]


def test_a_raising_sink_is_told_to_the_others_and_keeps_nothing_from_them():
    before, after = Recorder(), Recorder()
    out = fan_out(
        {SinkName.METRICS: before, SinkName.LOG: Raising(), SinkName.STATUS: after},
    )
    out.emit(PoolHealed())
    error = SinkError(sink=SinkName.LOG)
    assert sorted(map(repr, before.events)) == sorted(map(repr, [PoolHealed(), error]))
    assert sorted(map(repr, after.events)) == sorted(map(repr, [PoolHealed(), error]))


def test_two_raising_sinks_do_not_tell_each_other_for_ever():
    seen = Recorder()
    out = fan_out({SinkName.LOG: Raising(), SinkName.TRACE: Raising(), SinkName.STATUS: seen})
    out.emit(PoolHealed())
    assert seen.events.count(SinkError(sink=SinkName.LOG)) == 1
    assert seen.events.count(SinkError(sink=SinkName.TRACE)) == 1


def test_a_sink_that_cannot_even_name_its_handlers_is_left_out_and_told():
    class Broken(Recorder):
        def handlers(self):
            raise RuntimeError("no handlers")

    seen = Recorder()
    out = fan_out({SinkName.METRICS: Broken(), SinkName.STATUS: seen})
    out.emit(PoolHealed())
    assert seen.events == [SinkError(sink=SinkName.METRICS), PoolHealed()]


def test_the_fan_out_is_itself_a_sink():
    inner, outer = Recorder(), fan_out({})
    nested: EventSink = fan_out({SinkName.STATUS: fan_out({SinkName.LOG: inner})})
    change = BreakerChanged(
        group=Group.RECALL, from_state=BreakerState.CLOSED, to_state=BreakerState.OPEN
    )
    nested.emit(change)
    outer.emit(change)
    assert inner.events == [change]
