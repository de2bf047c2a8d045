"""Reports of DeerFlow's users: what is remembered of a thread, and how its turns meet."""
# ruff: noqa: N802 - a test is named by its case

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from resilient_ov.domain.messages import conversation
from resilient_ov.settings import knob_fields
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager
from resilient_ov_manager.config_values import fit_value
from tests.cases.field_cases import ai, case, human
from tests.cases.rig import (
    Log,
    Make,
    both,
    commits,
    config,
    hashed,
    hits,
    ids,
    in_threads,
    remember,
    stored,
    takes,
    texts,
    until,
)

Serve = Callable[..., ScriptedServer]

# What the case of the id wants to be stored of its messages.
REMEMBERED = {
    "DF-01": ["I moved to Oslo", "Noted"],
    "DF-02": ["Berlin", "ok"],
    "DF-03": ["What is the total?", "42"],
    "DF-04": ["Summarise", "Done"],
}


def check_remembered(serve: Serve, gateway: Make, colour: str, case_id: str) -> ScriptedServer:
    """Demand the same of the pure rules and of what reaches the server."""
    given, wanted = case(case_id).messages, REMEMBERED[case_id]
    assert [message.text for message in conversation(given).messages] == wanted
    server = serve()
    one = gateway(server, colour=colour)
    one.add(given)
    assert texts(server) == wanted
    return server


@both
def test_DF_01_hidden_messages_of_the_host_are_no_memory(
    serve: Serve, gateway: Make, colour: str
) -> None:
    check_remembered(serve, gateway, colour, "DF-01")
    shown = human("shown", "h9", hide_from_ui=False)
    assert [m.text for m in conversation([shown]).messages] == ["shown"]


@both
def test_DF_02_hidden_clarification_answers_are_the_users_words(
    serve: Serve, gateway: Make, colour: str
) -> None:
    check_remembered(serve, gateway, colour, "DF-02")


@both
@pytest.mark.parametrize("odd", [None, [], ["hide_from_ui"], "x", 7], ids=repr)
def test_DF_02_odd_additional_kwargs_do_not_raise(
    serve: Serve, gateway: Make, colour: str, odd: Any
) -> None:
    message = human("words", "h1")
    message.additional_kwargs = odd
    server = serve()
    gateway(server, colour=colour).add([message])
    assert texts(server) == ["words"]


@both
def test_DF_03_uploaded_files_are_no_memory(serve: Serve, gateway: Make, colour: str) -> None:
    server = check_remembered(serve, gateway, colour, "DF-03")
    sent = b"".join(seen.request.body for seen in server.requests)
    assert b"/mnt/user-data" not in sent
    assert b"uploaded_files" not in sent


@both
def test_DF_04_both_upload_tags_in_any_case_and_place(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = check_remembered(serve, gateway, colour, "DF-04")
    assert b"/mnt/user-data" not in b"".join(seen.request.body for seen in server.requests)


@pytest.mark.parametrize("tag", ["current_uploads", "uploaded_files", "CURRENT_UPLOADS"])
@pytest.mark.parametrize("shape", ["{block}\n\nwords", "words\n{block}", "wo{block}rds"])
def test_DF_04_block_is_cut_out_wherever_it_stands(tag: str, shape: str) -> None:
    block = f"<{tag}>\n- /mnt/user-data/uploads/pay.pdf\n</{tag}>"
    (message,) = conversation([human(shape.format(block=block))]).messages
    assert message.text == "words"


@both
def test_DF_05_turn_whose_commit_failed_is_not_sent_again(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve(Rule(on="commit", do="status", code=503))
    one = gateway(server, colour=colour, retry={"max_attempts": 1})
    first, second = case("DF-05").turns
    one.add(first)
    state = one.state()
    assert len(state["submitted_message_ids"]) == 2
    assert state["committed_message_ids"] == []
    assert state["pending_commit_since"] is not None
    server.script()
    one.add(second)
    until(lambda: one.state()["pending_commit_since"] is None)
    assert ids(server) == ["h1", "a1", "h2", "a2"]
    assert commits(server) >= 1
    assert len(one.state()["committed_message_ids"]) == 4


@both
def test_DF_06_history_longer_than_the_window_is_not_sent_again(
    serve: Serve, gateway: Make, colour: str
) -> None:
    """Overruled in one number: the prefix counts what fell out of the window, so 22 - 16."""
    server = serve()
    one = gateway(server, colour=colour, watermark={"window": 16})
    thread = [(ai if n % 2 else human)(f"text {n}", f"h{n}") for n in range(22)]
    one.add(thread[:21])
    one.add(thread)
    sent = [[m["source_message_ids"][0] for m in s.body["messages"]] for s in batches(server)]
    assert sent[-1] == ["h21"]
    assert ids(server) == [f"h{n}" for n in range(22)]
    state = one.state()
    assert len(state["submitted_message_ids"]) <= 16
    assert state["prefix_count"] + len(state["submitted_message_ids"]) == 22
    one.add(thread)
    assert len(batches(server)) == len(sent)


def batches(server: ScriptedServer) -> list[Any]:
    return server.requests_to("batch")


@both
def test_DF_09_edit_and_rerun_are_new_messages(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve()
    one = gateway(server, colour=colour)
    for turn in case("DF-09").turns:
        one.add(turn)
    assert texts(server) == ["Paris?", "..", "Rome?", "..R", "..R2"]
    assert one.metric("watermark_rebases_total", reason="edited") >= 1
    assert one.metric("messages_total", result="duplicated") == 0


@both
def test_DF_10_same_thread_of_other_users_and_agents_is_another_session(
    serve: Serve, gateway: Make, colour: str
) -> None:
    server = serve()
    adds = case("DF-10").input["adds"]
    gateways = [gateway(server, colour=colour) for _ in adds]

    def add(one: Any, given: dict[str, str]) -> None:
        one.add([human(given["msg"], "h1")], user_id=given["user"], agent_name=given["agent"])

    in_threads(*(lambda o=o, g=g: add(o, g) for o, g in zip(gateways, adds, strict=True)))
    assert len(server.store.sessions()) == 3
    for given in adds:
        who = {"user_id": given["user"], "agent_name": given["agent"]}
        assert texts(server, "t1", **who) == [given["msg"]]
    text_of = {hashed(a["user"], a["agent"]): a["msg"] for a in adds}
    for seen in batches(server):
        (message,) = seen.body["messages"]
        assert text_of[seen.request.headers["x-openviking-user"]] == message["content"]


def test_DF_12_slow_server_does_not_stop_the_loop(serve: Serve, gateway: Make) -> None:
    """The bound is wide, for a busy machine; a call that blocked would hold the loop for 1 s."""
    server = serve(*(Rule(on=r, do="delay", seconds=1.0) for r in ("find", "batch")))
    remember(server)
    one = gateway(server, colour="async")
    gaps: list[float] = []

    async def ticker() -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - began_s)

    async def scenario() -> None:
        ticking = asyncio.create_task(ticker())
        manager = one.manager
        assert "tea" in await manager.aget_context("u1")
        await manager.aadd("t1", [human("x", "h1"), ai("y", "a1")], user_id="u1")
        assert await manager.asearch("tea", user_id="u1")
        ticking.cancel()

    with takes(10.0, at_least_s=3.0):
        one.run(scenario())
    assert max(gaps) < 0.5
    assert ids(server) == ["h1", "a1"]


@both
def test_DF_14_shutdown_waits_for_the_write_under_way(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    server = serve(Rule(on="batch", do="delay", seconds=1.0))
    one = gateway(server, colour=colour)
    adding = threading.Thread(target=lambda: one.add([human("x", "h1"), ai("y", "a1")]))
    began_s = time.monotonic()
    adding.start()
    until(lambda: batches(server))
    with takes(1.5):
        assert one.manager.shutdown_flush(3.0) is True
    assert time.monotonic() - began_s >= 1.0
    adding.join()
    assert ids(server) == ["h1", "a1"]
    assert commits(server) == 1
    before = len(server.requests)
    one.add([human("late", "h2")])
    assert one.metric("messages_dropped_total", reason="shutdown") == 1
    assert one.outcomes("add") == {"ok": 1, "dropped": 1}
    with takes(0.5):
        assert one.manager.shutdown_flush(3.0) is True
        one.manager.close()
        one.manager.close()
    assert len(server.requests) == before
    assert "Traceback" not in log.text


def entries(*lengths: int) -> Any:
    return hits(
        *(
            {"abstract": letter * length, "score": 0.9 - at / 10}
            for at, (letter, length) in enumerate(zip("abc", lengths, strict=False))
        )
    )


@both
def test_DF_16_entry_is_whole_or_absent(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve(Rule(on="find", do="ok", json=entries(100, 600, 60)))
    one = gateway(server, colour=colour, retrieval={"max_injection_chars": 300})
    context = one.get_context()
    shown = [line for line in context.splitlines() if line.startswith("- ")]
    assert shown == [f"- [preferences] {'a' * 100}", f"- [preferences] {'c' * 60}"]
    assert len(context) <= 300
    assert one.metric("injection_chars_sum") == len(context)
    assert "…" not in context
    assert "..." not in context


@both
def test_DF_16_room_for_no_entry_is_told(
    serve: Serve, gateway: Make, log: Log, colour: str
) -> None:
    server = serve(Rule(on="find", do="ok", json=entries(600, 700, 800)))
    one = gateway(server, colour=colour, retrieval={"max_injection_chars": 300})
    for _ in range(3):
        assert one.get_context() == ""
    (line,) = log.lines(level=30)
    assert (line["event"], line["reason"]) == ("openviking.search", "budget_too_small")


@both
def test_DF_18_memory_cannot_close_its_block(serve: Serve, gateway: Make, colour: str) -> None:
    (raw,) = case("DF-18").rules[0]["json_hits"]
    text = raw["abstract"] + " it's"
    server = serve(Rule(on="find", do="ok", json=hits({"abstract": text, "score": 0.9})))
    one = gateway(server, colour=colour)
    context = one.get_context()
    for tag in ("</memory>", "<system>", "</system-reminder>", "<", ">"):
        assert tag not in context
    for shown in ("&lt;", "&gt;", "&amp;", '"quote"', "it's"):
        assert shown in context
    assert [hit["content"] for hit in one.search("q")] == [text]


def test_DF_20_two_captures_of_one_turn_store_it_once(serve: Serve, gateway: Make) -> None:
    server = serve(Rule(on="batch", do="delay", seconds=0.05))
    one = gateway(server)
    turn = [human("x", "h1"), ai("y", "a1")]

    def nowait_on_a_loop(thread_id: str) -> None:
        async def hand_over() -> None:
            one.manager.add_nowait(thread_id, turn, user_id="u1")

        asyncio.run(hand_over())

    for at in range(20):
        thread_id = f"t{at}"
        second = one.manager.add_nowait if at % 2 else None
        in_threads(
            lambda t=thread_id: one.add(turn, t),
            lambda t=thread_id, f=second: f(t, turn, user_id="u1") if f else nowait_on_a_loop(t),
        )
    until(lambda: all(commits(server, f"t{at}") for at in range(20)))
    until(lambda: one.metric("pending_writes") == 0)
    for at in range(20):
        assert ids(server, f"t{at}") == ["h1", "a1"]
    assert len(batches(server)) == 20
    assert sum(len(seen.body["messages"]) for seen in batches(server)) == 40


def test_DF_21_explicit_null_is_the_default(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the keys are this product's; an unknown one is refused even when it is null."""
    monkeypatch.setenv("FIELD_CASES_KEY", "k")
    plain = config("http://127.0.0.1:1", tmp_path, {})
    plain.pop("session")
    sections = {found.key.partition(".")[0] for found in knob_fields()} - set(plain)
    nulls = {**plain, **dict.fromkeys(sections)}
    budgets = {**plain, "budgets": {"get_context_seconds": None}, "retry": {"max_attempts": None}}
    built = [
        OpenVikingMemoryManager.from_config(given)._settings for given in (plain, nulls, budgets)
    ]
    assert built[0] == built[1] == built[2]
    assert built[0].budgets.get_context_s == 2.0
    for unknown in ({"retrys": {}}, {"retrys": None}):
        with pytest.raises(ValueError, match="retrys"):
            OpenVikingMemoryManager.from_config({**plain, **unknown})


NUMBERS = [found for found in knob_fields() if found.kind in (int, float)]
BAD = [*case("DF-22").input["values"], float("nan"), float("inf"), float("-inf"), [2], {}]


def nested(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {name: value}


@pytest.mark.parametrize("found", NUMBERS, ids=lambda found: found.key)
def test_DF_22_bad_numbers_are_refused_by_name(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, found: Any
) -> None:
    monkeypatch.setenv("FIELD_CASES_KEY", "k")
    plain = config("http://127.0.0.1:1", tmp_path, {})
    plain.pop("session")
    for value in BAD:
        if value == 0.0 and not isinstance(value, bool | str) and found.knob.low == 0:
            continue  # zero means "off" there
        with pytest.raises(ValueError, match=found.key.replace(".", r"\.")):
            OpenVikingMemoryManager.from_config({**plain, **nested(found.key, value)})


@pytest.mark.parametrize("found", NUMBERS, ids=lambda found: found.key)
def test_DF_22_good_numbers_may_be_text(found: Any) -> None:
    low, high = found.knob.low, found.knob.high
    number = 2 if low <= 2 <= high else int(low) + 1
    for value in (number, float(number), str(number)):
        fitted = fit_value(found, value)
        assert fitted == number
        assert type(fitted) is found.kind


def test_DF_22_nothing_is_sent_by_a_bad_configuration(serve: Serve, gateway: Make) -> None:
    server = serve()
    with pytest.raises(ValueError, match=r"budgets\.add_seconds"):
        gateway(server, budgets={"add_seconds": "nan"})
    assert server.connections == 0


def test_DF_22_stored_texts_follow_their_thread(serve: Serve, gateway: Make) -> None:
    server = serve()
    gateway(server, budgets={"add_seconds": "2"}, retry={"max_attempts": 2.0}).add(
        [human("x", "h1")]
    )
    assert [m["parts"][0]["text"] for m in stored(server)] == ["x"]
