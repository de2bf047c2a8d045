from resilient_ov import events
from resilient_ov.domain.exchange import (
    Answer,
    Command,
    GetTask,
    ListTasks,
    Success,
    TaskInfo,
    TaskStatus,
)
from resilient_ov.settings import BudgetSettings, SessionSettings
from tests.unit.usecases.bench import Bench, changed, refusal, thread


def told(bench: Bench) -> list[str]:
    return [e.status.value for e in bench.told.of(events.ExtractionTask)]


def ending(bench: Bench, status: TaskStatus) -> None:
    def answer(command: Command) -> Answer | None:
        if isinstance(command, GetTask):
            return Success(value=TaskInfo(task_id=command.task_id, status=status), status=200)
        return None

    bench.server.twists.append(answer)


def test_a_task_is_looked_up_a_minute_after_its_commit_and_told_once() -> None:
    bench = Bench()
    ending(bench, TaskStatus.FAILED)
    bench.add(thread(2))
    bench.let(59)
    assert told(bench) == []
    bench.let(700)
    assert told(bench) == ["failed"]
    assert bench.server.count(GetTask) == 1


def test_a_task_that_still_runs_is_looked_up_once_more_after_ten_minutes() -> None:
    bench = Bench()
    ending(bench, TaskStatus.RUNNING)
    bench.add(thread(2))
    bench.let(1500)
    assert told(bench) == []
    assert bench.server.count(GetTask) == 2


def test_a_task_that_the_server_forgot_is_told_as_expired() -> None:
    bench = Bench()
    bench.server.twists.append(
        lambda command: refusal(404, "NOT_FOUND") if isinstance(command, GetTask) else None
    )
    bench.add(thread(2))
    bench.let(70)
    assert told(bench) == ["expired"]


def test_the_next_write_of_the_session_looks_up_the_earlier_task() -> None:
    bench = Bench()
    bench.add(thread(2))
    task_id = bench.state.last_commit_task_id

    def listed(command: Command) -> Answer | None:
        if isinstance(command, ListTasks):
            found = TaskInfo(task_id=task_id, status=TaskStatus.FAILED)
            return Success(value=(found,), status=200)
        return None

    bench.server.twists.append(listed)
    bench.add(thread(4))
    assert told(bench) == ["failed"]


def test_waiting_for_extraction_polls_inside_the_budget_and_not_finished_is_no_error() -> None:
    settings = changed(
        session=SessionSettings(wait_for_extraction=True), budgets=BudgetSettings(add_s=20.0)
    )
    bench = Bench(settings)
    ending(bench, TaskStatus.RUNNING)
    began_s = bench.world.now_s
    assert bench.add(thread(2)) == "ok"
    assert 15 < bench.world.now_s - began_s <= 20.1
    done = Bench(settings)
    ending(done, TaskStatus.COMPLETED)
    assert done.add(thread(2)) == "ok"
    assert told(done) == ["completed"]
