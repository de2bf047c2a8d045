from dataclasses import replace
from typing import Any

import pytest

from resilient_ov import events
from resilient_ov.domain.errors import OpenVikingError
from resilient_ov.domain.exchange import Answer, Command, Search, Success
from resilient_ov.domain.recall import ServerHit
from resilient_ov.domain.rollout import is_in_share
from resilient_ov.memory import Who
from resilient_ov.policy.switches import Mode
from resilient_ov.settings import (
    AuthMode,
    AuthSettings,
    FailurePolicySettings,
    InjectionMode,
    InjectionSettings,
    ReadFailurePolicy,
    StartupPolicy,
    WriteFailurePolicy,
)
from tests.unit.usecases.bench import Bench, changed, refusal, thread


def remembering(bench: Bench, *texts: str) -> None:
    user = bench.session[0]
    hits = tuple(
        ServerHit(
            uri=f"viking://user/{user}/memories/preferences/m{n}.md",
            text=text,
            score=0.9 - n / 100,
            level=2,
        )
        for n, text in enumerate(texts)
    )

    def found(command: Command) -> Answer | None:
        return Success(value=hits, status=200) if isinstance(command, Search) else None

    bench.server.twists.append(found)


def failing(bench: Bench, status: int) -> None:
    bench.server.twists.insert(
        0, lambda command: refusal(status, "X") if isinstance(command, Search) else None
    )


def context(bench: Bench, query: str | None = None) -> Any:
    return bench.call(bench.process.assembly.memory.get_context(bench.who, query))


def search(bench: Bench, query: str, top_k: object = 5, category: str | None = None) -> Any:
    return bench.call(bench.process.assembly.memory.search(bench.who, query, top_k, category))


def outcomes(bench: Bench) -> list[str]:
    return [e.outcome.value for e in bench.told.of(events.CallFinished)]


def test_what_is_remembered_is_injected_and_found() -> None:
    bench = Bench()
    remembering(bench, "likes tea", "lives in Oslo")
    assert context(bench).splitlines()[-2:] == [
        "- [preferences] likes tea",
        "- [preferences] lives in Oslo",
    ]
    assert [hit["content"] for hit in search(bench, "tea")] == ["likes tea", "lives in Oslo"]
    assert outcomes(bench) == ["ok", "ok"]


@pytest.mark.parametrize("query", ["", "  ", "\n\t"])
def test_a_blank_query_asks_nobody(query: str) -> None:
    bench = Bench()
    assert search(bench, query) == []
    assert bench.server.seen == []
    assert outcomes(bench) == ["empty"]


def test_an_impossible_category_asks_nobody() -> None:
    bench = Bench()
    assert search(bench, "tea", category="../secrets") == []
    assert bench.server.seen == []


def test_a_category_goes_to_the_server_and_top_k_is_clamped() -> None:
    bench = Bench()
    search(bench, "tea", top_k=10_000, category="preferences")
    asked = bench.server.seen[0]
    assert isinstance(asked, Search)
    assert asked.targets == ("viking://~/memories/preferences",)
    assert asked.limit == 100


def test_a_server_that_fails_gives_nothing_and_is_told() -> None:
    bench = Bench()
    failing(bench, 500)
    assert context(bench) == ""
    assert outcomes(bench) == ["degraded_unavailable"]
    assert [e.reason.value for e in bench.told.of(events.Degraded)] == ["unavailable"]


def test_fail_fast_raises_the_cause() -> None:
    policy = FailurePolicySettings(read=ReadFailurePolicy.FAIL_FAST)
    bench = Bench(changed(failure_policy=policy))
    failing(bench, 401)
    with pytest.raises(OpenVikingError) as raised:
        context(bench)
    assert type(raised.value).__name__ == "OpenVikingAuthenticationError"


def test_a_stale_answer_stands_in_while_it_is_young_enough() -> None:
    bench = Bench(changed(stale_read_s=60.0))
    remembering(bench, "likes tea")
    fresh = context(bench)
    failing(bench, 500)
    assert context(bench) == fresh
    assert outcomes(bench)[-1] == "stale"
    assert len(bench.told.of(events.StaleRead)) == 1
    bench.let(61)
    assert context(bench) == ""


def test_a_stale_answer_never_stands_in_for_a_refused_key_or_another_question() -> None:
    bench = Bench(changed(stale_read_s=60.0))
    remembering(bench, "likes tea")
    search(bench, "tea")
    failing(bench, 401)
    assert search(bench, "tea") == []
    bench.server.twists.pop(0)
    failing(bench, 500)
    assert search(bench, "coffee") == []


def test_old_answers_are_dropped_when_there_are_too_many() -> None:
    bench = Bench(changed(stale_read_s=600.0))
    remembering(bench, "likes tea")
    for n in range(260):
        search(bench, f"question {n}")
    failing(bench, 500)
    assert search(bench, "question 0") == []
    assert search(bench, "question 259") != []


def test_memory_that_is_switched_off_reads_nothing_and_drops_new_writes() -> None:
    bench = Bench()
    bench.process.assembly.switching.switch("all", Mode.DISABLED)
    assert context(bench) == ""
    assert bench.add(thread(2)) == "dropped"
    bench.process.add_nowait(bench.who, thread(3))
    assert bench.dropped() == {"disabled": 5}
    assert bench.server.seen == []


def test_writes_that_are_refused_wait_and_go_out_when_the_switch_ends() -> None:
    bench = Bench()
    bench.process.assembly.switching.switch("append", Mode.FORCED_OPEN, for_s=30)
    assert bench.add(thread(2)) == "pending"
    bench.until(lambda: len(bench.stored) == 2, limit_s=60)


@pytest.mark.parametrize("user", [None, "", "   "])
def test_a_user_that_cannot_be_is_told_and_asks_nobody(user: object) -> None:
    bench = Bench()
    bench.who = Who(user_id=user, thread_id="t")
    assert context(bench) == ""
    assert bench.add(thread(2)) == "degraded_scope"
    bench.process.add_nowait(bench.who, thread(1))
    assert bench.dropped() == {"scope": 3}
    assert bench.server.seen == []


def test_a_bad_scope_raises_where_fail_fast_was_chosen() -> None:
    policy = FailurePolicySettings(
        read=ReadFailurePolicy.FAIL_FAST, write=WriteFailurePolicy.FAIL_FAST
    )
    bench = Bench(changed(failure_policy=policy))
    bench.who = Who(user_id="alice", agent_name="no/such", thread_id="t")
    with pytest.raises(OpenVikingError, match="agent_name"):
        context(bench)
    with pytest.raises(OpenVikingError, match="agent_name"):
        bench.add(thread(2))


def test_one_key_serves_its_owner_and_the_lead_agent_only() -> None:
    auth = AuthSettings(mode=AuthMode.API_KEY, owner_user_id="alice")
    bench = Bench(replace(changed(), auth=auth))
    bench.who = Who(user_id="bob", thread_id="t")
    assert context(bench) == ""
    bench.who = Who(user_id="alice", agent_name="researcher", thread_id="t")
    assert context(bench) == ""
    assert bench.server.seen == []
    bench.who = Who(user_id="alice", thread_id="t")
    context(bench)
    assert bench.server.count(Search) == 1


def test_nobody_logged_in_is_refused_where_a_login_is_required() -> None:
    bench = Bench(replace(changed(), auth=AuthSettings(require_authenticated_user=True)))
    bench.who = Who(user_id="default", thread_id="t")
    assert context(bench) == ""
    assert bench.server.seen == []


def test_warm_makes_one_real_find_and_says_true() -> None:
    bench = Bench()
    assert bench.call(bench.process.assembly.memory.warm()) is True
    assert [type(c).__name__ for c in bench.server.seen] == ["Health", "Search"]


def test_warm_raises_or_says_false_when_the_embedder_is_out() -> None:
    bench = Bench()
    failing(bench, 500)
    with pytest.raises(OpenVikingError):
        bench.call(bench.process.assembly.memory.warm())
    lenient = Bench(changed(startup_policy=StartupPolicy.WARN))
    lenient.server.crash()
    assert lenient.call(lenient.process.assembly.memory.warm()) is False


@pytest.mark.parametrize(
    "injection", [InjectionSettings(mode=InjectionMode.MEASURE), InjectionSettings(percent=0.0)]
)
def test_a_recall_that_is_only_measured_is_made_and_told_and_not_injected(
    injection: InjectionSettings,
) -> None:
    bench = Bench(changed(injection=injection))
    remembering(bench, "likes tea")
    assert context(bench) == ""
    (told,) = bench.told.of(events.SearchFinished)
    assert (told.results, told.injection_chars) == (
        1,
        len("## Relevant long-term memory\n\n- [preferences] likes tea"),
    )
    assert outcomes(bench) == ["withheld"]
    assert [hit["content"] for hit in search(bench, "tea")] == ["likes tea"]


@pytest.mark.parametrize(("percent", "outcome"), [(1.0, "withheld"), (99.9, "ok")])
def test_the_share_of_users_decides(percent: float, outcome: str) -> None:
    assert is_in_share("default", "alice", percent) == (outcome == "ok")
    bench = Bench(changed(injection=InjectionSettings(percent=percent)))
    remembering(bench, "likes tea")
    assert bool(context(bench)) == (outcome == "ok")
    assert outcomes(bench) == [outcome]


def test_an_empty_recall_stays_empty_while_it_is_measured() -> None:
    bench = Bench(changed(injection=InjectionSettings(mode=InjectionMode.MEASURE)))
    assert context(bench) == ""
    assert outcomes(bench) == ["empty"]


def test_a_failed_recall_is_told_as_ever_while_it_is_measured() -> None:
    bench = Bench(changed(injection=InjectionSettings(mode=InjectionMode.MEASURE)))
    failing(bench, 500)
    assert context(bench) == ""
    assert outcomes(bench) == ["degraded_unavailable"]
