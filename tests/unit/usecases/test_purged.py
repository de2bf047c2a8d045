"""What waits in a gateway when its person is erased is dropped and counted, and never sent."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    Evidence,
    Failure,
    FailureKind,
)
from resilient_ov.domain.purge import is_purged, must_drop, purged
from resilient_ov.domain.watermark import Watermark
from resilient_ov.settings import WatermarkSettings
from tests.simulation.process import Process
from tests.unit.usecases.bench import Bench, changed, thread


def order(bench: Bench, owners: Iterable[Process]) -> None:
    """What a purge does while the server is away: mark the state, name who must drop."""
    fresh = Watermark(
        session_id=bench.session[1],
        openviking_user=bench.session[0],
        account="default",
        server_id="x",
        server_profile="0.5",
    )
    tokens = [process.store.owner() for process in owners]
    state = purged(bench.state or fresh, drop_by=tokens)
    bench.place.states[bench.session[1]] = replace(state, revision=state.revision + 1)


def erased_server(bench: Bench) -> None:
    bench.server.sessions.clear()
    bench.server.restart()


def sent(bench: Bench) -> list[str]:
    return [m.content for c in bench.server.seen if isinstance(c, AddMessages) for m in c.messages]


def idle(bench: Bench) -> bool:
    return bench.process.assembly.writer.idle()


@pytest.mark.parametrize("known", [True, False], ids=["a known session", "an unknown session"])
def test_what_waits_is_dropped_counted_and_never_sent(known: bool) -> None:
    bench = Bench()
    if known:
        bench.add(thread(2))
    bench.server.crash()
    assert bench.add(thread(4)) == "pending"
    order(bench, [bench.process])
    erased_server(bench)
    bench.server.seen.clear()
    bench.until(lambda: idle(bench))
    assert sent(bench) == []
    assert bench.dropped() == {"purged": 2 if known else 4}
    assert is_purged(bench.state)
    assert not must_drop(bench.state, bench.process.store.owner())


def test_the_next_turn_of_the_thread_stores_only_what_is_new() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(4))
    order(bench, [bench.process])
    erased_server(bench)
    bench.until(lambda: idle(bench))
    assert bench.add(thread(4)) == "ok"
    assert bench.stored == []
    assert bench.add(thread(6)) == "ok"
    assert sent(bench)[-2:] == ["words 5", "words 6"]
    assert len(bench.stored) == 2


def test_more_messages_than_the_window_holds_stay_known() -> None:
    bench = Bench(changed(watermark=WatermarkSettings(window=16)))
    bench.server.crash()
    bench.add(thread(40))
    order(bench, [bench.process])
    erased_server(bench)
    bench.until(lambda: idle(bench))
    assert bench.dropped() == {"purged": 40}
    assert bench.add(thread(42)) == "ok"
    assert len(bench.stored) == 2


def test_hand_overs_that_come_while_it_drops_are_dropped_too() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(2))
    order(bench, [bench.process])
    erased_server(bench)
    bench.server.seen.clear()
    bench.process.add_nowait(bench.who, thread(2, first=3))
    bench.process.add_nowait(bench.who, thread(2, first=5))
    bench.until(lambda: idle(bench))
    assert sent(bench) == []
    assert bench.dropped() == {"purged": 6}


def test_what_comes_after_the_order_ended_is_stored() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(2))
    order(bench, [bench.process])
    erased_server(bench)
    bench.until(lambda: idle(bench))
    bench.process.add_nowait(bench.who, thread(2, first=3))
    bench.until(lambda: idle(bench))
    assert len(bench.stored) == 2


def test_another_process_is_not_meant_by_the_order() -> None:
    bench = Bench()
    other = bench.another()
    order(bench, [bench.process])
    other.add_nowait(bench.who, thread(2))
    bench.until(other.assembly.writer.idle)
    assert len(bench.stored) == 2
    assert bench.dropped() == {}


def test_a_turn_in_its_call_is_no_waiting_text() -> None:
    bench = Bench()
    order(bench, [bench.process])
    assert bench.add(thread(2)) == "ok"
    assert len(bench.stored) == 2


def test_a_state_that_cannot_be_written_drops_later_and_counts_once() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(3))
    order(bench, [bench.process])
    erased_server(bench)
    bench.server.seen.clear()
    bench.place.save_problem = "disk full"
    bench.let(20)
    assert bench.dropped() == {}
    bench.place.save_problem = None
    bench.until(lambda: idle(bench))
    assert bench.dropped() == {"purged": 3}
    assert sent(bench) == []


def test_a_batch_in_doubt_is_never_sent_again() -> None:
    bench = Bench()

    def lost(command: Command) -> Answer | None:
        if isinstance(command, AddMessages):
            bench.server.crash()
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN)
        return None

    bench.server.twists.append(lost)
    assert bench.add(thread(2)) == "pending"
    assert bench.state.in_doubt is not None
    order(bench, [bench.process])
    bench.server.twists.clear()
    erased_server(bench)
    bench.server.seen.clear()
    bench.until(lambda: idle(bench))
    assert sent(bench) == []
    assert bench.state.in_doubt is None
    assert bench.add(thread(2)) == "ok"
    assert bench.stored == []


def test_the_writer_names_what_waits() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(2))
    bench.process.add_nowait(bench.who, thread(2, first=3))
    user, session = bench.session
    assert bench.process.assembly.writer.waiting_sessions() == {session: (user, None)}
