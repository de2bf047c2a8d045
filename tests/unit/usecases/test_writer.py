from resilient_ov import events
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    CommitSession,
    Evidence,
    Failure,
    FailureKind,
)
from resilient_ov.settings import LimitSettings, SessionSettings
from tests.simulation.world import Cancelled
from tests.unit.usecases.bench import Bench, changed, thread


def test_a_hand_over_is_delivered_without_a_further_call() -> None:
    bench = Bench()
    bench.process.add_nowait(bench.who, thread(4))
    bench.until(lambda: len(bench.stored) == 4, limit_s=5)
    assert bench.told.of(events.CallFinished)[0].outcome is events.CallOutcome.PENDING


def test_a_turn_behind_a_hand_over_joins_it_and_order_is_kept() -> None:
    bench = Bench()
    bench.process.add_nowait(bench.who, thread(4))
    assert bench.add(thread(2, first=5)) == "ok"
    contents = [
        m.content for c in bench.server.seen if isinstance(c, AddMessages) for m in c.messages
    ]
    assert contents == [f"words {n}" for n in range(1, 7)]


def test_a_cancelled_turn_hands_its_list_to_the_writer() -> None:
    bench = Bench()
    ended: list[BaseException | None] = []
    task = bench.process.add(bench.who, thread(2), lambda _, error: ended.append(error))
    bench.until(lambda: bench.server.count(AddMessages) == 0 and len(bench.server.seen) > 0)
    task.cancel()
    bench.until(lambda: bool(ended))
    assert isinstance(ended[0], Cancelled)
    bench.until(lambda: len(bench.stored) == 2)
    assert bench.told.of(events.CallFinished)[0].outcome is events.CallOutcome.CANCELLED


def test_a_turn_cancelled_at_any_step_is_stored_all_the_same_and_once() -> None:
    for step in range(60):
        bench = Bench()
        ended: list[BaseException | None] = []
        task = bench.process.add(bench.who, thread(4), lambda _, error, e=ended: e.append(error))
        bench.until(lambda t=task, e=ended, n=step: t.turn > n or bool(e))
        task.cancel()
        if ended == [None]:
            break
        bench.until(lambda b=bench: len(b.stored) == 4)
        bench.let(60)
        assert len(bench.stored) == 4
        assert bench.told.of(events.CallFinished)[0].outcome is events.CallOutcome.CANCELLED
    assert 8 <= step < 59


def test_a_full_queue_refuses_the_new_hand_over_and_counts_it() -> None:
    bench = Bench(changed(limits=LimitSettings(write_queue=1)))
    bench.server.crash()
    bench.process.add_nowait(bench.who, thread(2))
    bench.process.add_nowait(bench.who, thread(3, first=10))
    assert bench.dropped() == {"queue_full": 3}


def test_text_of_a_turn_that_finds_the_queue_full_is_not_counted_because_the_host_keeps_it() -> (
    None
):
    bench = Bench(changed(limits=LimitSettings(write_queue=1)))
    bench.server.crash()
    bench.process.add_nowait(bench.who, thread(2))
    bench.let(1)
    bench.who = type(bench.who)(user_id="alice", thread_id="thread-2")
    assert bench.add(thread(2)) == "dropped"
    assert bench.dropped() == {}


def test_recovery_needs_no_call() -> None:
    bench = Bench()
    bench.server.crash()
    for n in range(6):
        bench.add(thread(2 + 2 * n))
    bench.let(60)
    bench.server.restart()
    bench.until(lambda: len(bench.stored) == 12, limit_s=40)


def test_two_processes_do_not_take_turns_at_one_doubt() -> None:
    bench = Bench()
    other = bench.another()
    lost: list[bool] = []

    def request_lost(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not lost:
            lost.append(True)
            return _unknown()
        return None

    bench.server.twists.append(request_lost)
    bench.add(thread(2))
    bench.add(thread(4), other)
    bench.until(lambda: len(bench.stored) == 4)
    bench.until(bench.process.assembly.writer.idle)
    bench.until(other.assembly.writer.idle)
    assert len(set(bench.stored)) == 4


def test_a_doubt_of_a_dead_process_is_settled_by_the_sweeper() -> None:
    bench = Bench()
    other = bench.another()
    bench.server.twists.append(
        lambda command: _unknown() if isinstance(command, AddMessages) else None
    )
    bench.add(thread(2), other)
    other.kill()
    bench.server.twists.clear()
    assert bench.state.in_doubt is not None
    bench.until(lambda: bench.state.in_doubt is None)
    bench.add(thread(2))
    assert len(bench.stored) == 2


def test_a_drain_delivers_what_waits_and_commits_what_was_put_off() -> None:
    bench = Bench(changed(session=SessionSettings(commit_min_messages=100)))
    bench.add(thread(2))
    assembly = bench.process.assembly
    assert bench.call(assembly.memory.flushed(assembly.drain, 10.0)) is True
    assert bench.server.count(CommitSession) == 1


def test_a_drain_that_cannot_deliver_says_so_and_counts_what_is_lost_once() -> None:
    bench = Bench()
    bench.server.crash()
    bench.add(thread(2))
    assembly = bench.process.assembly
    assert bench.call(assembly.memory.flushed(assembly.drain, 3.0)) is False
    assert bench.call(assembly.memory.flushed(assembly.drain, 3.0)) is True
    assert bench.dropped() == {"shutdown": 2}


def test_after_the_drain_writes_are_refused_and_counted_and_reads_are_empty() -> None:
    bench = Bench()
    assembly = bench.process.assembly
    bench.call(assembly.memory.flushed(assembly.drain, 1.0))
    assert bench.add(thread(2)) == "dropped"
    bench.process.add_nowait(bench.who, thread(1))
    assert bench.dropped() == {"shutdown": 3}
    assert bench.call(assembly.memory.get_context(bench.who, None)) == ""
    assert bench.server.seen == []


def _unknown() -> Answer:
    return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)


def test_the_age_of_what_waits_is_told_on_under_traffic() -> None:
    bench = Bench()
    bench.let(60)  # this process sweeps its place
    bench.server.crash()
    bench.process.add_nowait(bench.who, thread(2))
    bench.let(40)
    bench.process.add_nowait(bench.who, thread(2, first=10))
    bench.let(0.1)
    last = bench.told.of(events.PendingChanged)[-1]
    assert last.writes == 4
    assert last.oldest_s >= 40
    bench.server.restart()
    bench.until(bench.process.assembly.writer.idle)
    bench.let(10)
    assert bench.told.of(events.PendingChanged)[-1].oldest_s == 0


def test_a_server_that_does_not_answer_is_no_trouble_with_the_disk() -> None:
    bench = Bench()
    bench.add(thread(2))
    bench.server.stop()
    assert bench.add(thread(4)) == "pending"
    bench.let(30)
    bench.server.resume()
    bench.until(bench.process.assembly.writer.idle)
    assert bench.told.of(events.StateError) == []
    assert len(bench.stored) == 4
