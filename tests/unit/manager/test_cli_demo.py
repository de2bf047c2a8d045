"""The parts of the demo, and that each of its checks can fail."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console
from typer.testing import CliRunner

from resilient_ov.domain.identity import namespace_user, openviking_user, scope
from resilient_ov.domain.messages import conversation
from resilient_ov.settings import ServerProfile
from resilient_ov_manager.cli import app
from resilient_ov_manager.demo import play as play_module
from resilient_ov_manager.demo.child import ChildServer
from resilient_ov_manager.demo.conversation import (
    ALICE,
    FORBIDDEN,
    RESEARCHER,
    TALKS,
    HostMessage,
    Talk,
    Words,
    keep_hidden,
)
from resilient_ov_manager.demo.host import Host, manager_class
from resilient_ov_manager.demo.log import LogLines
from resilient_ov_manager.demo.names import POLICY, Names, configuration
from resilient_ov_manager.demo.reading_back import Reader
from resilient_ov_manager.demo.stage import Call, Stage, shown_time
from resilient_ov_manager.demo.story import Story
from resilient_ov_manager.host_config import parse_config


class World:
    """A whole healthy world in memory: server, host, reader and clock; each part can be bent."""

    def __init__(self) -> None:
        self.stored: dict[str, list[Words]] = {talk.speaker: [] for talk in TALKS}
        self.waiting: dict[str, list[Words]] = {talk.speaker: [] for talk in TALKS}
        self.calls: list[Call] = []
        self.pid: int | None = 1
        self.now_s = 0.0
        self.took_s = 0.0
        self.saw = "returned"
        self.bend: Callable[[list[Words]], list[Words]] = list
        self.everybody_sees_all = False
        self.nothing_left = True

    # the server
    def kill(self) -> None:
        self.pid = None

    def start(self) -> float:
        self.pid = 2
        for speaker, words in self.waiting.items():
            self._put(speaker, words)
        return 0.0

    # the reader
    def total(self, talk: Talk) -> int:
        return len(self.messages(talk))

    def messages(self, talk: Talk) -> list[Words]:
        return self.bend(self.stored[talk.speaker])

    # the host
    def add(self, talk: Talk, messages: list[HostMessage]) -> None:
        found = [(m.role.value, m.text) for m in conversation(messages, keep_hidden).messages]
        if self.pid is None:
            self.waiting[talk.speaker] += [w for w in found if w not in self.waiting[talk.speaker]]
        else:
            self._put(talk.speaker, found)
        self._made("aadd", talk)

    def compact(self, talk: Talk, removed: list[HostMessage]) -> None:
        self.add(talk, removed)
        self.calls.pop()
        self._made("add_nowait", talk)

    def inject(self, talk: Talk) -> str:
        self._made("aget_context", talk)
        return self._known(talk)

    def search(self, talk: Talk, query: str) -> list[dict[str, Any]]:
        self._made("asearch", talk)
        return [{"content": self._known(talk)}]

    def pending(self) -> int:
        return sum(map(len, self.waiting.values()))

    def breakers(self) -> dict[str, str]:
        return {}

    def leave(self, timeout_s: float) -> bool:
        return self.nothing_left

    # the clock
    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _put(self, speaker: str, words: Sequence[Words]) -> None:
        self.stored[speaker] += [each for each in words if each not in self.stored[speaker]]

    def _known(self, talk: Talk) -> str:
        if self.pid is None:
            return ""
        seen = (
            self.stored
            if self.everybody_sees_all
            else {talk.speaker: self.stored.get(talk.speaker, [])}
        )
        return " ".join(text for words in seen.values() for _, text in words)

    def _made(self, name: str, talk: Talk) -> None:
        self.calls.append(
            Call(name=name, speaker=talk.speaker, took_s=self.took_s, outcome="ok", saw=self.saw)
        )


def names_of(profile: ServerProfile) -> Names:
    nowhere = Path("/nowhere")
    return Names(parse_config(configuration("http://127.0.0.1:1", nowhere, nowhere, profile)))


def played(world: World) -> tuple[list[str], str]:
    """Play the whole story in a world; return the checks that failed and what was shown."""
    text = io.StringIO()
    stage = Stage(Console(file=text, width=120))
    part = cast("Any", world)
    story = Story(
        stage=stage,
        server=part,
        host=part,
        reader=part,
        names=names_of(ServerProfile.V0_5),
        log=LogLines(),
        now=lambda: world.now_s,
        sleep=world.sleep,
    )
    for act in (
        story.remember,
        story.recall,
        story.keep_apart,
        story.lose_the_server,
        story.get_it_back,
        story.go_on,
    ):
        act()
    holds = stage.closing(world.now_s)
    shown = text.getvalue()
    failed = [
        line.strip().removeprefix("FAIL").strip()
        for line in shown.splitlines()
        if line.strip().startswith("FAIL")
    ]
    assert holds == (not failed)
    return failed, shown


def test_in_a_healthy_world_every_check_holds() -> None:
    failed, shown = played(World())
    assert failed == []
    assert "14 of 14 checks hold" in shown
    assert "We decided to launch Falcon in May." in shown
    assert "all closed" in shown


def lost(words: list[Words]) -> list[Words]:
    return [each for each in words if "launch Falcon" not in each[1]]


def doubled(words: list[Words]) -> list[Words]:
    return [*words, *(each for each in words if "launch Falcon" in each[1])]


def turned(words: list[Words]) -> list[Words]:
    late = [each for each in words if "launch Falcon" in each[1]]
    return [*lost(words), *late]


def leaked(words: list[Words]) -> list[Words]:
    return [*words, ("user", "DB_PASSWORD=hunter2")]


@pytest.mark.parametrize(
    ("bend", "wanted"),
    [
        (lost, ["nothing is missing", "everything arrived", "the whole threads shown again"]),
        (doubled, ["nothing arrived twice", "nothing is missing"]),
        (turned, ["nothing is missing, all in the order it was said"]),
        (leaked, ["no hidden, tool or upload text is on the server", "the server holds the 11"]),
    ],
)
def test_what_the_server_holds_is_judged(
    bend: Callable[[list[Words]], list[Words]], wanted: list[str]
) -> None:
    world = World()
    world.bend = bend
    failed, _ = played(world)
    for text in wanted:
        assert any(line.startswith(text) for line in failed), failed


def test_a_leak_between_people_is_seen() -> None:
    world = World()
    world.everybody_sees_all = True
    assert "nobody sees another user's or agent's memory" in played(world)[0]


def test_a_memory_that_forgets_is_seen() -> None:
    world = World()
    world._known = lambda _talk: ""  # type: ignore[method-assign]
    failed, _ = played(world)
    assert "everybody sees the own memory" in failed
    assert "a new thread is given what was said in the other one" in failed
    assert "a Chinese question finds the Chinese answer" in failed
    assert "a new thread remembers what was said during the outage" in failed


def test_an_error_and_a_late_call_are_seen() -> None:
    world = World()
    world.saw, world.took_s = "raised ValueError", 9.0
    failed, _ = played(world)
    assert "no call raised an error into the agent" in failed
    assert any(line.startswith("no call went past its budget") for line in failed)


def test_a_manager_that_leaves_something_is_seen() -> None:
    world = World()
    world.nothing_left = False
    assert played(world)[0] == ["the manager shuts down with nothing left"]


def test_waiting_ends_with_the_demo() -> None:
    world = World()
    world.bend = lost
    world._known = lambda _talk: ""  # type: ignore[method-assign]
    played(world)
    assert 35.0 < world.now_s < 41.0


def test_the_conversation_has_every_shape_it_promises() -> None:
    turns = [turn for talk in TALKS for turn in (*talk.before, *talk.during)]
    messages = [message for turn in turns for message in turn.messages]
    assert {message.type for message in messages} == {"human", "ai", "system", "tool"}
    assert any("human_input_response" in message.additional_kwargs for message in messages)
    assert any("<current_uploads>" in message.content for message in messages)
    assert any(message.tool_calls for message in messages)
    assert any("用中文" in message.content for message in messages)
    text = "\n".join(message.content for message in messages)
    assert all(piece in text for piece in FORBIDDEN)
    kept = "\n".join(words for talk in TALKS for _, words in talk.kept())
    assert not any(piece in kept for piece in FORBIDDEN)
    for talk in TALKS:
        assert len(set(talk.kept())) == len(talk.kept())
        others = [other for other in TALKS if other is not talk]
        assert not any(talk.mark in words for other in others for _, words in other.kept())


def test_the_filter_keeps_what_the_conversation_says_it_should() -> None:
    for talk in TALKS:
        messages = [m for turn in (*talk.before, *talk.during) for m in turn.messages]
        found = [(m.role.value, m.text) for m in conversation(messages, keep_hidden).messages]
        assert found == talk.kept()


@pytest.mark.parametrize(
    ("took_s", "shown"),
    [(0.0, "< 1 ms"), (0.0009, "< 1 ms"), (0.0421, "42 ms"), (0.9, "900 ms"), (2.345, "2.3 s")],
)
def test_a_time_is_shown_as_a_reader_compares_it(took_s: float, shown: str) -> None:
    assert shown_time(took_s) == shown


def test_the_backends_lines_are_taken_and_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("resilient_ov")
    before = (logger.level, logger.propagate, list(logger.handlers))
    line = {"event": "openviking.degraded", "group": "host", "duration_ms": 41.6, "trace_id": "t"}
    with LogLines() as log:
        logger.info(json.dumps(line))
        logger.debug("not shown")
        logger.warning("plain words")
        assert log.taken() == [
            "INFO     openviking.degraded group=host duration_ms=42",
            "WARNING  plain words",
        ]
        assert log.taken() == []
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert capsys.readouterr().err == ""


def test_the_log_is_shown_when_there_is_one() -> None:
    text = io.StringIO()
    stage = Stage(Console(file=text, width=80))
    stage.log([])
    assert text.getvalue() == ""
    stage.log(["WARNING one", "INFO two"])
    assert "WARNING one" in text.getvalue()


def test_a_commit_between_two_requests_hides_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit moves the live messages into an archive that was not there a request ago."""
    committed = False

    def answer(_reader: Reader, _talk: Talk, path: str, uri: str = "") -> Any:
        nonlocal committed
        lines = {
            "archive_001": '{"role": "user", "parts": [{"type": "text", "text": "old"}]}',
            "archive_002": '{"role": "user", "parts": [{"type": "text", "text": "new"}]}',
        }
        if path.endswith("/fs/ls"):
            return [{"uri": name} for name in sorted(lines)[: 2 if committed else 1]]
        committed = True
        return next((text for name, text in lines.items() if name in uri), "")

    monkeypatch.setattr(Reader, "_get", answer)
    reader = Reader("http://127.0.0.1:1", "key", names_of(ServerProfile.V0_5))
    try:
        assert reader.messages(ALICE) == [("user", "old"), ("user", "new")]
    finally:
        reader.close()


class _Manager:
    """Answers as told; one outcome more is counted for each call."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.fails = False

    def status(self) -> dict[str, Any]:
        return {
            "calls": dict(self.counts),
            "pending": {"writes": 3},
            "breakers": {"host": {"state": "open", "since": None}},
        }

    async def aget_context(self, user: str, *, agent_name: str | None) -> str:
        self.counts["ok"] += 1
        if self.fails:
            raise LookupError("text of a user")
        return f"## heading\n- {user}\n- {agent_name}"

    async def asearch(self, query: str, **_: Any) -> list[dict[str, Any]]:
        self.counts["empty"] += 1
        return []

    async def aadd(self, thread: str, messages: list[Any], **_: Any) -> None:
        self.counts["pending"] += 1

    def add_nowait(self, thread: str, messages: list[Any], **_: Any) -> None:
        asyncio.get_running_loop()
        self.counts["pending"] += 1

    def shutdown_flush(self, timeout: float) -> bool:
        return timeout > 1


def test_the_host_records_each_call() -> None:
    manager = _Manager()
    with asyncio.Runner() as runner:
        host = Host(cast("Any", manager), runner)
        assert host.inject(RESEARCHER).endswith("researcher")
        assert host.search(ALICE, "x") == []
        host.add(ALICE, [])
        host.compact(ALICE, list(ALICE.before[0].messages))
        manager.fails = True
        assert host.inject(ALICE) == ""
    assert [(c.name, c.outcome, c.saw) for c in host.calls] == [
        ("aget_context", "ok", "2 memories"),
        ("asearch", "empty", "no hit"),
        ("aadd", "pending", "returned"),
        ("add_nowait", "pending", "hands over 4"),
        ("aget_context", "ok", "raised LookupError"),
    ]
    assert (host.pending(), host.breakers()) == (3, {"host": "open"})
    assert (host.leave(2.0), host.leave(1.0)) == (True, False)


def test_the_host_of_the_machine_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "deerflow").mkdir()
    (tmp_path / "deerflow" / "__init__.py").write_text("raise RuntimeError('imported')")
    code = (
        "import sys; from resilient_ov_manager.demo.host import manager_class;"
        "print(manager_class().__mro__[1].__module__, 'deerflow' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == ["resilient_ov_manager.contract", "False"]


def test_a_host_that_is_loaded_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deerflow", None)
    assert manager_class().__name__ == "OpenVikingMemoryManager"
    assert "deerflow" in sys.modules


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_the_verdict(
    monkeypatch: pytest.MonkeyPatch, *, holds: bool, code: int
) -> None:
    monkeypatch.setattr(play_module, "play", lambda _stage, _profile: holds)
    assert CliRunner().invoke(app, ["demo"]).exit_code == code


@pytest.mark.parametrize(
    ("options", "profile"),
    [([], ServerProfile.V0_5), (["--profile", "namespace"], ServerProfile.NAMESPACE)],
)
def test_the_profile_is_chosen(
    monkeypatch: pytest.MonkeyPatch, options: list[str], profile: ServerProfile
) -> None:
    asked: list[ServerProfile] = []

    def play(_stage: Stage, chosen: ServerProfile) -> bool:
        asked.append(chosen)
        return True

    monkeypatch.setattr(play_module, "play", play)
    assert CliRunner().invoke(app, ["demo", *options]).exit_code == 0
    assert asked == [profile]


def test_a_profile_that_does_not_exist_is_refused() -> None:
    result = CliRunner().invoke(app, ["demo", "--profile", "0.6"])
    assert result.exit_code == 2
    assert "namespace" in result.stderr


def test_names_on_profile_0_5_hash_the_agent_into_the_user() -> None:
    names = names_of(ServerProfile.V0_5)
    user = openviking_user(scope("demo", "alice", "researcher"))
    assert names.headers(RESEARCHER) == {"X-OpenViking-User": user}
    assert names.shown(RESEARCHER) == f"{user[:11]}…"
    assert not names.shared_sessions


def test_names_on_profile_namespace_tell_the_agent_and_keep_it_apart() -> None:
    names = names_of(ServerProfile.NAMESPACE)
    user = namespace_user("demo", "alice")
    assert names.headers(RESEARCHER) == {
        "X-OpenViking-User": user,
        "X-OpenViking-Agent": "researcher",
    }
    assert names.headers(ALICE)["X-OpenViking-User"] == user
    assert names.shown(RESEARCHER) == f"{user[:11]}… researcher"
    assert names.shared_sessions
    assert POLICY["isolate_user_scope_by_agent"]


def test_without_the_extra_it_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert "pip install 'resilient-ov[server]'" in " ".join(result.stderr.split())


def test_types_of_the_real_parts_are_those_of_the_fakes() -> None:
    """The world above stands for these; a renamed method would make it worthless."""
    for real, names in (
        (ChildServer, ("kill", "start", "pid")),
        (Reader, ("total", "messages")),
        (Host, ("add", "compact", "inject", "search", "pending", "breakers", "leave")),
    ):
        assert all(hasattr(real, name) for name in names)
