"""The main job on a real OpenViking server, with everything real between DeerFlow and its disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resilient_ov_manager import OpenVikingMemoryManager
from tests.external.cutting_proxy import CuttingProxy, Lose, cutting_proxy
from tests.external.real_server import ROOT_KEY, Account, Owner, openviking_server, until
from tests.external.targets import existing

PREFERENCE = "I prefer concise technical explanations."
QUESTION = "How should explanations be written?"
ALICE = Owner("alice", "researcher")
CAROL = Owner("carol")
STRANGERS = [Owner("bob", "researcher"), Owner("alice", "writer"), Owner("alice")]
HISTORY = 2_000

Build = Callable[..., OpenVikingMemoryManager]


@pytest.fixture(scope="session")
def base_url(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    advice = "make it with: python3.12 -m venv ENV && ENV/bin/pip install openviking==0.5.2"
    environment = existing(
        request.config, "--openviking-venv", "bin/openviking-server", f"give VENV=ENV; {advice}"
    )
    script = shared / "openviking" / "start_openviking.sh"
    with openviking_server(script, environment, tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="session")
def account(base_url: str) -> Iterator[Account]:
    """A fresh account; removing it is part of what is shown."""
    fresh = Account(base_url)
    yield fresh
    fresh.remove()


@pytest.fixture(scope="session")
def build(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Makes managers as a host does, each with a disk of its own; fail-fast, so nothing hides."""
    made: list[OpenVikingMemoryManager] = []

    def manager(url: str, **config: object) -> OpenVikingMemoryManager:
        strict = {"read": "fail_fast", "write": "log_and_drop"}
        given = {"base_url": url, "account": account.name, "failure_policy": strict, **config}
        storage = str(tmp_path_factory.mktemp("storage"))
        made.append(OpenVikingMemoryManager.from_config(given | {"storage_path": storage}))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENVIKING_API_KEY", ROOT_KEY)
        yield manager
        for one in made:
            one.close()


def turn(number: int) -> list[dict[str, str]]:
    return [
        {"type": "human", "id": f"h{number}", "content": f"question {number}"},
        {"type": "ai", "id": f"a{number}", "content": f"answer {number}"},
    ]


def texts(messages: list[dict[str, str]]) -> list[str]:
    return [message["content"] for message in messages]


def test_a_preference_is_recalled_later_by_its_owner_only(
    base_url: str, account: Account, build: Build
) -> None:
    first = build(base_url, budgets={"add_seconds": 30, "warm_seconds": 30})
    assert first.warm() is True
    said = [
        {"type": "human", "id": "h1", "content": PREFERENCE},
        {"type": "ai", "id": "a1", "content": "Noted."},
    ]
    first.add("thread-1", said, user_id=ALICE.user, agent_name=ALICE.agent)
    meta = account.session(ALICE, "thread-1")
    assert (meta["total_message_count"], meta["message_count"], meta["commit_count"]) == (2, 0, 1)

    def tasks() -> list[str]:
        session = account.session_of(ALICE, "thread-1")
        listed = account.call(
            ALICE, "GET", "/tasks", task_type="session_commit", resource_id=session
        )
        rows = listed if isinstance(listed, list) else listed["tasks"]
        states = [row["status"] for row in rows]
        return states if not {"pending", "running"} & set(states) else []

    assert until("extraction", tasks, within_s=90) == ["completed"]
    later = build(base_url, budgets={"get_context_seconds": 30, "search_seconds": 30})
    text = until(
        "recall",
        lambda: later.get_context(ALICE.user, agent_name=ALICE.agent, query=QUESTION),
        within_s=60,
    )
    assert "concise technical explanations" in text
    (hit, *_) = later.search(QUESTION, user_id=ALICE.user, agent_name=ALICE.agent)
    assert hit["category"] == "preferences"
    for stranger in STRANGERS:
        seen = later.get_context(stranger.user, agent_name=stranger.agent, query=QUESTION)
        assert seen == ""
        assert later.search(QUESTION, user_id=stranger.user, agent_name=stranger.agent) == []


@dataclass
class LongThread:
    """A thread of 2 000 stored messages, reached through a proxy that can lose one."""

    manager: OpenVikingMemoryManager
    proxy: CuttingProxy
    account: Account
    owner: Owner = CAROL
    name: str = "long-thread"
    messages: list[dict[str, str]] = field(default_factory=list)

    def say(self, turns: int) -> None:
        done = len(self.messages) // 2
        self.messages += [said for number in range(done, done + turns) for said in turn(number)]
        self.manager.add(self.name, list(self.messages), user_id=self.owner.user)

    def stored(self) -> int:
        return self.account.session(self.owner, self.name).get("total_message_count", 0)

    def wait(self) -> None:
        """Until the server holds as many as were said, and all of them in an archive."""
        until("delivery", lambda: self.stored() >= len(self.messages), within_s=120)
        live = "message_count"
        until("commit", lambda: not self.account.session(self.owner, self.name)[live], within_s=60)


@pytest.fixture(scope="session")
def long_thread(base_url: str, account: Account, build: Build) -> Iterator[LongThread]:
    with cutting_proxy(base_url) as proxy:
        manager = build(proxy.url, budgets={"add_seconds": 20}, session={"settle_seconds": 1.0})
        thread = LongThread(manager, proxy, account)
        for _ in range(4):
            thread.say(HISTORY // 8)
            thread.wait()
        assert thread.stored() == HISTORY
        yield thread
        assert manager.shutdown_flush(20) is True


@pytest.mark.parametrize("lose", list(Lose), ids=lambda lose: lose.value)
def test_an_unknown_outcome_is_settled_by_reading_back(long_thread: LongThread, lose: Lose) -> None:
    """The reply is lost: nothing is sent again. The request is lost: it is, once."""
    before = list(long_thread.proxy.lost)
    long_thread.proxy.lose_next(lose)
    long_thread.say(1)
    assert long_thread.proxy.lost == [*before, lose]
    long_thread.wait()
    long_thread.say(1)
    long_thread.wait()
    stored = long_thread.account.stored_texts(long_thread.owner, long_thread.name)
    assert stored == texts(long_thread.messages)
