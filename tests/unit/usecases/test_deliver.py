from typing import Any

import pytest

from resilient_ov import events
from resilient_ov.domain.errors import OpenVikingError
from resilient_ov.domain.exchange import (
    AddMessages,
    Answer,
    Command,
    CommitSession,
    CreateSession,
    EnsureSession,
    Evidence,
    Failure,
    FailureKind,
    ListTasks,
    ReadMessages,
    StoredPage,
    Success,
)
from resilient_ov.settings import (
    FailurePolicySettings,
    SessionSettings,
    WatermarkSettings,
    WriteFailurePolicy,
)
from tests.unit.usecases.bench import Bench, changed, refusal, thread


def refusing(bad: set[str], status: int = 400, *, named: bool) -> Any:
    """A server that refuses a batch with a bad message in it."""

    def twist(command: Command) -> Answer | None:
        if not isinstance(command, AddMessages):
            return None
        places = tuple(i for i, m in enumerate(command.messages) if m.content in bad)
        if not places:
            return None
        return refusal(status, invalid_indices=places if named else ())

    return twist


def test_a_turn_is_stored_and_committed_once() -> None:
    bench = Bench()
    assert bench.add(thread(2)) == "ok"
    assert len(bench.stored) == 2
    assert bench.state.pending_commit_since is None
    assert bench.state.in_doubt is None
    assert bench.server.count(CommitSession) == 1


def test_the_same_list_again_makes_no_request_at_all() -> None:
    bench = Bench()
    bench.add(thread(4))
    before = [c for c in bench.server.seen if not isinstance(c, ListTasks)]
    assert bench.add(thread(4)) == "ok"
    assert [c for c in bench.server.seen if not isinstance(c, ListTasks)] == before


def test_the_intent_is_saved_before_the_batch_leaves_and_cleared_after_it() -> None:
    bench = Bench()
    seen: list[tuple[str, ...]] = []

    def look(command: Command) -> None:
        if isinstance(command, AddMessages):
            seen.append(bench.state.in_doubt.digests)

    bench.server.twists.append(look)
    bench.add(thread(2))
    assert seen == [tuple(bench.stored)]
    assert bench.state.in_doubt is None


def test_a_message_that_the_server_names_as_bad_is_given_up_and_the_rest_stored() -> None:
    bench = Bench()
    bench.server.twists.append(refusing({"words 7"}, named=True))
    assert bench.add(thread(50)) == "ok"
    assert len(bench.stored) == 49
    assert bench.dropped() == {"rejected": 1}
    assert bench.server.count(AddMessages) == 2
    assert bench.add(thread(50)) == "ok"
    assert len(bench.stored) == 49, "what was given up must not be sent again"


def test_a_bad_message_that_nobody_names_is_found_by_halving() -> None:
    bench = Bench()
    bench.server.twists.append(refusing({"words 7"}, named=False))
    assert bench.add(thread(16)) == "ok"
    assert len(bench.stored) == 15
    assert bench.dropped() == {"rejected": 1}


def test_halving_ends_after_eight_further_requests_and_gives_up_the_smallest_range() -> None:
    bench = Bench()
    bench.server.twists.append(refusing({"words 7"}, named=False))
    assert bench.add(thread(100)) == "ok"
    given_up = bench.dropped()["rejected"]
    assert 1 < given_up < 20
    assert len(bench.stored) == 100 - given_up


def test_a_single_message_that_is_too_large_is_told_as_such() -> None:
    bench = Bench()
    bench.server.twists.append(refusing({"words 1"}, 413, named=False))
    assert bench.add(thread(2)) == "ok"
    assert bench.dropped() == {"too_large": 1}


def test_a_refusal_that_comes_again_is_given_up_at_the_third_try() -> None:
    bench = Bench()
    bench.server.twists.append(refusing({"words 1"}, 409, named=False))
    assert bench.add(thread(2)) == "pending"
    bench.until(lambda: bool(bench.dropped()))
    assert bench.dropped() == {"rejected": 2}
    assert bench.server.count(AddMessages) == 3


def test_a_refused_key_keeps_the_text_until_it_is_accepted() -> None:
    bench = Bench()
    bench.server.twists.append(
        lambda command: refusal(401) if isinstance(command, AddMessages) else None
    )
    assert bench.add(thread(2)) == "pending"
    bench.let(30)
    bench.server.twists.clear()
    bench.until(lambda: len(bench.stored) == 2, limit_s=600)
    assert bench.dropped() == {}


def test_a_commit_for_a_session_that_is_gone_is_no_longer_owed() -> None:
    bench = Bench()
    bench.server.twists.append(
        lambda command: refusal(404, "NOT_FOUND") if isinstance(command, CommitSession) else None
    )
    assert bench.add(thread(2)) == "ok"
    assert bench.state.pending_commit_since is None
    assert [e.reason.value for e in bench.told.of(events.Rebased)] == ["session_gone"]


def test_a_commit_that_is_always_refused_is_given_up_at_the_third_try() -> None:
    bench = Bench()
    bench.server.twists.append(
        lambda command: refusal(412, "FAILED") if isinstance(command, CommitSession) else None
    )
    assert bench.add(thread(2)) == "pending"
    bench.until(lambda: bench.state.pending_commit_since is None)
    assert bench.server.count(CommitSession) == 3
    assert [e.status.value for e in bench.told.of(events.CommitFinished)][-1] == "gave_up"


def test_a_put_off_commit_waits_for_enough_messages_and_the_sweeper_makes_the_rest() -> None:
    bench = Bench(changed(session=SessionSettings(commit_min_messages=4)))
    assert bench.add(thread(2)) == "ok"
    assert bench.server.count(CommitSession) == 0
    assert bench.add(thread(4)) == "ok"
    assert bench.server.count(CommitSession) == 1
    assert bench.add(thread(6)) == "ok"
    bench.until(lambda: bench.state.pending_commit_since is None)
    assert bench.server.count(CommitSession) == 2


def test_nothing_is_sent_while_the_state_cannot_be_saved_and_all_of_it_afterwards() -> None:
    bench = Bench()
    bench.place.save_problem = "no_space"
    assert bench.add(thread(2)) == "pending"
    bench.let(20)
    assert bench.server.count(AddMessages) == 0
    assert {e.reason.value for e in bench.told.of(events.StateError)} == {"unwritable"}
    bench.place.save_problem = None
    bench.until(lambda: len(bench.stored) == 2)


def test_a_batch_whose_intent_was_not_saved_is_not_in_doubt_and_is_counted_at_the_end() -> None:
    bench = Bench()
    bench.add(thread(2))
    bench.place.save_problem = "no_space"
    assert bench.add(thread(4)) == "pending"
    assert bench.told.of(events.PendingChanged)[-1].in_doubt == 0
    process = bench.process
    assert bench.call(process.assembly.memory.flushed(process.assembly.drain, 2.0)) is False
    assert bench.dropped() == {"shutdown": 2}


def test_a_state_of_a_newer_version_is_left_alone_and_the_messages_counted() -> None:
    bench = Bench()
    bench.place.newer.add(bench.session[1])
    assert bench.add(thread(2)) == "dropped"
    assert bench.dropped() == {"state_unavailable": 2}
    assert bench.server.seen == []


def test_a_state_that_is_lost_is_rebuilt_from_the_server_and_nothing_is_sent_again() -> None:
    bench = Bench()
    bench.add(thread(300))
    stored = list(bench.stored)
    bench.place.break_state(bench.session[1])
    assert bench.add(thread(300)) == "ok"
    assert bench.stored == stored
    assert bench.add(thread(302)) == "ok"
    assert len(bench.stored) == 302


def test_a_thread_of_2_000_messages_presented_whole_after_the_state_is_gone_sends_nothing() -> None:
    bench = Bench()
    bench.add(thread(2000))
    bench.until(lambda: len(bench.stored) == 2000)
    bench.place.states.clear()
    bench.add(thread(2000))
    bench.until(bench.process.assembly.writer.idle)
    assert len(bench.stored) == 2000


def test_a_missing_state_and_an_unreachable_server_send_nothing_until_it_is_back() -> None:
    bench = Bench()
    bench.add(thread(20))
    bench.place.states.clear()
    bench.server.crash()
    assert bench.add(thread(22)) == "pending"
    bench.let(60)
    bench.server.restart()
    bench.until(lambda: len(bench.stored) == 22)
    bench.until(bench.process.assembly.writer.idle)
    assert len(set(bench.stored)) == len(bench.stored) == 22


def test_memory_types_are_asked_for_when_the_session_is_made() -> None:
    bench = Bench(changed(session=SessionSettings(memory_types=("profile", "events"))))
    assert bench.add(thread(2)) == "ok"
    created = [c for c in bench.server.seen if isinstance(c, CreateSession)]
    assert [c.memory_types for c in created] == [("profile", "events")]
    assert bench.add(thread(4)) == "ok"
    assert bench.server.count(CreateSession) == 1


def test_the_race_of_a_first_use_is_answered_by_reading_again() -> None:
    bench = Bench(changed(session=SessionSettings(memory_types=("profile",))))
    bench.server.twists.append(
        lambda command: refusal(500, "INTERNAL") if isinstance(command, CreateSession) else None
    )
    assert bench.add(thread(2)) == "ok"
    assert bench.server.count(EnsureSession) == 1


def test_an_unknown_answer_is_settled_by_the_first_look_inside_the_budget() -> None:
    bench = Bench()
    lost: list[bool] = []

    def reply_lost(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not lost:
            lost.append(True)
            super(type(bench.server), bench.server).apply(command)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)
        return None

    bench.server.twists.append(reply_lost)
    assert bench.add(thread(2)) == "ok"
    assert len(bench.stored) == 2
    assert [e.result.value for e in bench.told.of(events.Reconciled)] == ["present"]


def test_a_batch_that_never_arrived_is_sent_again_only_after_two_looks() -> None:
    bench = Bench()
    lost: list[float] = []

    def request_lost(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not lost:
            lost.append(bench.world.now_s)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)
        return None

    bench.server.twists.append(request_lost)
    assert bench.add(thread(2)) == "pending"
    bench.until(lambda: len(bench.stored) == 2)
    assert bench.world.now_s - lost[0] >= bench.settings.session.settle_s
    assert [e.result.value for e in bench.told.of(events.Reconciled)] == ["deferred", "absent"]


def test_an_original_that_lands_after_absence_was_proven_is_counted_not_silent() -> None:
    bench = Bench()
    held: list[AddMessages] = []

    def held_back(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not held:
            held.append(command)
            return Failure(kind=FailureKind.TIMEOUT, evidence=Evidence.UNKNOWN, wire_s=1.0)
        return None

    bench.server.twists.append(held_back)
    bench.add(thread(2))
    bench.until(lambda: len(bench.stored) == 2)
    bench.until(bench.process.assembly.writer.idle)
    super(type(bench.server), bench.server).apply(held[0])
    bench.add(thread(4))
    bench.add(thread(6))
    told = {e.result.value: e.count for e in bench.told.of(events.MessagesCounted)}
    assert told.get("duplicated") == 2


def test_an_original_is_found_although_a_restored_backup_left_equal_counters() -> None:
    bench = Bench(changed(session=SessionSettings(commit_min_messages=1000, commit_min_s=3600.0)))
    bench.add(thread(2))
    struck: list[bool] = []

    def restored_and_unanswered(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not struck:
            struck.append(True)
            # The two live messages are gone, and two of ours stand in their place.
            bench.server.sessions[bench.session].live.clear()
            super(type(bench.server), bench.server).apply(command)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)
        return None

    bench.server.twists.append(restored_and_unanswered)
    assert bench.add(thread(4)) == "ok"
    assert len(bench.stored) == len(set(bench.stored)) == 2
    assert [e.result.value for e in bench.told.of(events.Reconciled)] == ["present"]


def test_what_waited_is_stored_although_another_process_has_overtaken_it() -> None:
    bench = Bench(changed(watermark=WatermarkSettings(window=16)))
    bench.add(thread(30))
    slow, quick = bench.process, bench.another()
    slow.stop(20.0)
    slow.add_nowait(bench.who, thread(4, first=31))
    assert bench.add(thread(2, first=33), quick) == "ok"
    bench.let(60)
    assert slow.assembly.writer.idle()
    texts = [f"words {n}" for n in range(1, 35)]
    assert len(bench.stored) == len(set(bench.stored)) == len(texts)


def test_lines_of_another_writer_are_noticed() -> None:
    bench = Bench()
    bench.add(thread(2))
    bench.server.sessions[bench.session].live.append(("somebody-else",))
    bench.add(thread(4))
    bench.add(thread(6))
    assert "foreign_writer" in {e.reason.value for e in bench.told.of(events.StateError)}


def test_an_edited_message_is_new_and_told_as_an_edit() -> None:
    bench = Bench()
    bench.add(thread(2))
    shown = thread(2)
    shown[0].content = "other words"
    assert bench.add(shown) == "ok"
    assert len(bench.stored) == 3
    assert [e.reason.value for e in bench.told.of(events.Rebased)] == ["edited"]


def test_fail_fast_raises_what_kept_the_turn_from_being_committed_and_keeps_the_text() -> None:
    policy = FailurePolicySettings(write=WriteFailurePolicy.FAIL_FAST)
    bench = Bench(changed(failure_policy=policy))
    bench.server.crash()
    with pytest.raises(OpenVikingError) as raised:
        bench.add(thread(2))
    assert type(raised.value).__name__ == "OpenVikingConnectionError"
    bench.server.restart()
    bench.until(lambda: len(bench.stored) == 2)


def test_a_long_thread_travels_in_batches_of_at_most_100() -> None:
    bench = Bench()
    bench.add(thread(250))
    sizes = [len(c.messages) for c in bench.server.seen if isinstance(c, AddMessages)]
    assert sizes == [100, 100, 50]


def test_a_batch_whose_fate_cannot_be_read_is_given_up_and_the_session_goes_on() -> None:
    bench = Bench()
    bench.add(thread(2))
    lost: list[bool] = []

    def unreadable(command: Command) -> Answer | None:
        if isinstance(command, AddMessages) and not lost:
            lost.append(True)
            super(type(bench.server), bench.server).apply(command)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN, wire_s=0.01)
        if isinstance(command, ReadMessages):
            return Success(value=StoredPage(lines=(), unreadable_lines=1), status=200)
        return None

    bench.server.twists.append(unreadable)
    assert bench.add(thread(4)) == "pending"
    bench.until(lambda: bool(bench.dropped()), limit_s=600)
    assert bench.dropped() == {"unknowable": 2}
    assert bench.add(thread(6)) == "ok"
    assert len(bench.stored) == 6


def test_a_look_that_is_owed_is_taken_whoever_sweeps_the_place() -> None:
    bench = Bench()
    bench.let(60)  # the first process sweeps
    other = bench.another()
    assert bench.add(thread(2), other) == "ok"
    bench.server.sessions[bench.session].live.append(("somebody-else",))
    assert bench.add(thread(4), other) == "ok"
    assert bench.state.in_doubt is not None
    bench.until(lambda: bench.state.in_doubt is None)
    assert "foreign_writer" in {e.reason.value for e in bench.told.of(events.StateError)}


def test_a_batch_counts_as_stored_when_its_answer_is_on_record() -> None:
    bench = Bench()
    bench.add(thread(2))

    def full_disk(command: Command) -> Answer | None:
        if isinstance(command, AddMessages):
            bench.place.save_problem = "no_space"
        return None

    bench.server.twists.append(full_disk)
    assert bench.add(thread(4)) == "pending"
    bench.server.twists.clear()
    bench.place.save_problem = None
    bench.until(lambda: bench.state.in_doubt is None and bench.process.assembly.writer.idle())
    counted = [(e.result.value, e.count) for e in bench.told.of(events.MessagesCounted)]
    assert len(bench.stored) == 4
    assert sum(count for _, count in counted) == 4, counted


def test_messages_of_a_commit_that_was_not_heard_of_are_no_duplicates() -> None:
    bench = Bench()

    def unheard(command: Command) -> Answer | None:
        if isinstance(command, CommitSession):
            bench.server.twists.clear()
            bench.server.apply(command)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN)
        return None

    bench.server.twists.append(unheard)
    bench.add(thread(2))
    bench.until(bench.process.assembly.writer.idle)

    def lost_reply(command: Command) -> Answer | None:
        if isinstance(command, AddMessages):
            bench.server.twists.clear()
            bench.server.apply(command)
            return Failure(kind=FailureKind.RESET, evidence=Evidence.UNKNOWN)
        return None

    bench.server.twists.append(lost_reply)
    bench.add(thread(4))
    bench.until(bench.process.assembly.writer.idle)
    assert len(bench.stored) == 4
    counted = {e.result.value: e.count for e in bench.told.of(events.MessagesCounted)}
    assert "duplicated" not in counted, counted
