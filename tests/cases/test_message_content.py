"""Reports about what messages hold: broken characters, blocks, odd objects, pictures, huge texts.

The rules are pure, so each case runs on them alone and once through the manager.
"""
# ruff: noqa: N802 - a test is named by its case

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from resilient_ov.domain.messages import SkipReason, conversation
from resilient_ov.domain.text import CUT_MARKER
from resilient_ov.testing.fake_wire import FakeRequest
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.cases.field_cases import ai, case, human, messages
from tests.cases.rig import Make, both, commits, ids, takes, texts

Serve = Callable[..., ScriptedServer]


def sent(server: ScriptedServer) -> list[dict[str, Any]]:
    return [m for seen in server.requests_to("batch") for m in seen.body["messages"]]


@both
def test_MC_01_half_characters_are_replaced(serve: Serve, gateway: Make, colour: str) -> None:
    wanted = ["price \ufffd ok", "\ufffdfine", "real \U0001f600"]
    given = case("MC-01").messages
    assert [m.text for m in conversation(given).messages] == wanted
    server = serve()
    one = gateway(server, colour=colour)
    for _ in range(2):
        one.add(given)
    assert texts(server) == wanted
    assert len(server.requests_to("batch")) == 1


def holds_nul(request: FakeRequest) -> bool:
    return b"\\u0000" in request.body or b"\0" in request.body


@both
def test_MC_03_control_characters_are_removed(serve: Serve, gateway: Make, colour: str) -> None:
    wanted = ["ab", "tab\tnl\nbell"]
    given = case("MC-03").messages
    read = conversation(given)
    assert [m.text for m in read.messages] == wanted
    assert read.skipped == {SkipReason.EMPTY: 1}
    server = serve(Rule(on="batch", do="status", code=500, when=holds_nul))
    gateway(server, colour=colour).add(given)
    assert texts(server) == wanted
    assert len(server.requests_to("batch")) == 1


@both
def test_MC_05_only_text_blocks_are_words(serve: Serve, gateway: Make, colour: str) -> None:
    wanted = ["b\na", "answer"]
    given = case("MC-05").messages
    assert [m.text for m in conversation(given).messages] == wanted
    server = serve()
    gateway(server, colour=colour).add(given)
    assert texts(server) == wanted
    everything = b"".join(seen.request.body for seen in server.requests)
    for secret in (b"SECRET7", b"SECRET8", b"base64"):
        assert secret not in everything


def as_given(raw: list[Any]) -> list[Any]:
    """Return odd objects as they are, and real messages in both shapes a host may use."""
    objects = [one for one in raw if isinstance(one, dict) and "type" in one]
    return [*raw, *messages(objects)]


@both
def test_MC_06_odd_objects_are_skipped_and_counted(
    serve: Serve, gateway: Make, colour: str
) -> None:
    """Roles in OpenAI's spelling are supported."""
    given = case("MC-06").input["messages"]
    read = conversation(given)
    wanted = ["dict message", "openai style", "b'bytes'"]
    assert [m.text for m in read.messages] == wanted
    assert read.skipped == {
        SkipReason.EMPTY: 1,
        SkipReason.OTHER_ROLE: 2,
        SkipReason.UNREADABLE: 3,
    }
    assert sum(read.skipped.values()) + len(wanted) == len(given)
    server = serve()
    one = gateway(server, colour=colour)
    one.add(as_given(given))
    assert texts(server)[:3] == wanted
    assert one.outcomes("add") == {"ok": 1}


@both
def test_MC_07_turn_of_tool_calls_alone_is_no_message(
    serve: Serve, gateway: Make, colour: str
) -> None:
    wanted = ["weather?", "3 degrees"]
    given = case("MC-07").messages
    assert [m.text for m in conversation(given).messages] == wanted
    server = serve()
    gateway(server, colour=colour).add(given)
    assert texts(server) == wanted
    assert all(message["content"].strip() for message in sent(server))


@both
def test_MC_09_pictures_do_not_travel(serve: Serve, gateway: Make, colour: str) -> None:
    wanted = ["see", "Here [image] done"]
    given = case("MC-09").messages
    assert [m.text for m in conversation(given).messages] == wanted
    too_large = Rule(
        on="batch", do="status", code=413, html=True, when=lambda r: len(r.body) > 262_144
    )
    server = serve(too_large)
    one = gateway(server, colour=colour)
    one.add(given)
    assert texts(server) == wanted
    (batch,) = server.requests_to("batch")
    assert len(batch.request.body) < 64 * 1024
    assert one.metric("messages_total", result="dropped") == 0


@both
def test_MC_11_huge_text_is_cut_between_characters(
    serve: Serve, gateway: Make, colour: str
) -> None:
    given = case("MC-11").messages
    server = serve()
    one = gateway(server, colour=colour, messages={"max_message_chars": 20_000})
    with takes(3.0):
        one.add(given)
    text, answer = texts(server)
    assert text == "x" * 19_999 + CUT_MARKER
    assert answer == "ok"
    one.add(given)
    assert len(server.requests_to("batch")) == 1
    # The part behind the cut belongs to the identity of a message.
    given[0].content += "z"
    one.add(given)
    assert ids(server) == ["h1", "a1", "h1"]


def test_MC_11_huge_text_does_not_hold_the_loop(serve: Serve, gateway: Make) -> None:
    """The bound is wide, for a busy machine; the gate is measured by the benchmarks."""
    one = gateway(serve(), colour="async")
    given = [human("\U0001f468" + "y" * 10_000_000, f"h{at}") for at in range(4)]
    gaps: list[float] = []

    async def ticker() -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - began_s)

    async def scenario() -> None:
        ticking = asyncio.create_task(ticker())
        await one.manager.aadd("t1", given, user_id="u1")
        ticking.cancel()

    one.run(scenario())
    assert max(gaps) < 0.5


@both
def test_MC_12_messages_without_ids_are_known_by_their_place(
    serve: Serve, gateway: Make, colour: str
) -> None:
    first = messages(case("MC-12").input["turns"][0])
    second = [*first, human("ok"), ai("2")]
    server = serve()
    one = gateway(server, colour=colour)
    one.add(first)
    assert texts(server) == ["ok", "1", "ok", "1"]
    one.add(second)
    assert texts(server) == ["ok", "1", "ok", "1", "ok", "2"]
    batches = len(server.requests_to("batch"))
    one.add(second[-3:])
    assert len(server.requests_to("batch")) == batches
    one.add([*second[-3:], human("ok"), ai("3")])
    assert texts(server) == ["ok", "1", "ok", "1", "ok", "2", "ok", "3"]


@both
def test_MC_15_shortened_history_forgets_nothing(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve()
    one = gateway(server, colour=colour)
    first, undone, other = case("MC-15").turns
    one.add(first)
    known = one.state()["submitted_message_ids"]
    before = len(server.requests)
    one.add(undone)
    assert len(server.requests) == before
    assert commits(server) == 1
    assert one.state()["submitted_message_ids"] == known
    one.add(other)
    assert [m["content"] for m in server.requests_to("batch")[-1].body["messages"]] == ["e", "f"]
    assert ids(server) == ["h1", "a1", "h2", "a2", "h3", "a3"]
    assert set(known) <= set(one.state()["submitted_message_ids"])


def strict(body: bytes) -> Any:
    def refuse(token: str) -> Any:
        raise AssertionError(token)

    return json.loads(body, parse_constant=refuse)


@both
def test_MC_16_only_json_is_sent(serve: Serve, gateway: Make, colour: str) -> None:
    server = serve()
    one = gateway(server, colour=colour)
    one.add(case("MC-16").messages)
    assert texts(server) == ["x", "y"]
    for seen in server.requests:
        if seen.request.body:
            strict(seen.request.body)


@pytest.mark.parametrize("odd", ["yesterday", 12.5, float("nan"), {1, 2}], ids=repr)
def test_MC_16_moment_that_is_none_is_left_out(serve: Serve, gateway: Make, odd: Any) -> None:
    """A moment the server cannot read would fail the whole extraction later."""
    server = serve()
    one = gateway(server)
    message = human("x", "h1")
    message.created_at = odd
    one.add([message])
    (only,) = sent(server)
    assert "created_at" not in only
