"""Random accounts, users, agents, writes and reads: what is found is what can be read, no more.

The expectation is a model of bare ids that knows no address. `LEAK_EXAMPLES` sets the number of
examples; `make leaks` runs 10 000.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from resilient_ov.domain.namespace import RESERVED_IDS
from resilient_ov.embedded import EmbeddedSettings, create_app
from resilient_ov.settings.server import ServerProfile

EXAMPLES = int(os.environ.get("LEAK_EXAMPLES", "60"))
API = "/api/v1"
KEY = "leak-key"
_numbers = itertools.count(1)

IDS = st.text("aAbB_.-@1", min_size=1, max_size=3).filter(
    lambda text: text not in {".", ".."} and text.count("@") <= 1 and text not in RESERVED_IDS
)


@st.composite
def related_ids(draw: st.DrawFn) -> list[str]:
    """Two to four ids of which some begin with another, differ in case or in a wildcard."""
    base = draw(IDS)
    others = st.one_of(
        IDS.map(lambda tail: base + tail),
        st.just(base + "_"),
        st.just(base.swapcase()),
        st.just(base.replace("a", "_")),
        st.sampled_from(["user", "agent", "session", "resources", "default", "_", "__"]),
        IDS,
    ).filter(lambda text: text.count("@") <= 1)
    return [base, *draw(st.lists(others, min_size=1, max_size=3))]


AREAS = st.sampled_from(["user", "user", "agent", "agent", "resources"])
FOLDERS = {
    "user": ["memories/events", "memories/preferences", "notes", "memories"],
    "agent": ["memories/cases", "skills", "instructions/x", "notes"],
    "resources": ["", "books", "user", "agent"],
}
INDEX = st.integers(min_value=0, max_value=3)


@dataclass(frozen=True)
class Action:
    kind: str
    who: tuple[int, int, int]
    area: str = "user"
    folder: int = 0
    name: str = "x"
    short: bool = True


@dataclass(frozen=True)
class Plan:
    policies: list[tuple[bool, bool]]
    tails: list[str]
    users: list[str]
    agents: list[str]
    actions: list[Action]
    viewers: list[tuple[int, int, int]]


WHO = st.tuples(INDEX, INDEX, INDEX)
ACTIONS = st.builds(
    Action,
    kind=st.sampled_from(["write"] * 8 + ["delete", "say", "remember"]),
    who=WHO,
    area=AREAS,
    folder=INDEX,
    name=st.sampled_from(["x", "x_", "X", "xy", "agent", "user"]),
    short=st.booleans(),
)
PLANS = st.builds(
    Plan,
    policies=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=3),
    tails=st.permutations(["", "a", "_", "A"]),
    users=related_ids(),
    agents=related_ids(),
    actions=st.lists(ACTIONS, min_size=2, max_size=9),
    viewers=st.lists(WHO, min_size=1, max_size=3),
)


SAME_ADDRESS_IN_TWO_ACCOUNTS = Plan(
    policies=[(False, False), (False, True)],
    tails=["", "_", "A", "a"],
    users=["1", "1"],
    agents=["B1b", "b1B"],
    actions=[
        Action("write", (0, 0, 0)),
        Action("write", (1, 0, 0)),
        Action("delete", (1, 0, 0)),
    ],
    viewers=[(0, 0, 0), (1, 0, 1)],
)


@dataclass(frozen=True)
class Who:
    account: str
    user: str
    agent: str

    @property
    def headers(self) -> dict[str, str]:
        return {
            "X-API-Key": KEY,
            "X-OpenViking-Account": self.account,
            "X-OpenViking-User": self.user,
            "X-OpenViking-Agent": self.agent,
        }


@dataclass(frozen=True)
class Bound:
    """What a text is bound to; None = to nobody in particular."""

    account: str
    user: str | None
    agent: str | None

    def shown_to(self, who: Who) -> bool:
        return (
            self.account == who.account
            and self.user in {None, who.user}
            and self.agent in {None, who.agent}
        )


@dataclass
class World:
    """The server's answers beside the model: who may see which text, and where it lies."""

    http: httpx.AsyncClient
    accounts: dict[str, tuple[bool, bool]]
    texts: dict[str, Bound] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    async def ask(self, who: Who, method: str, path: str, **rest: Any) -> httpx.Response:
        return await self.http.request(method, f"{API}{path}", headers=who.headers, **rest)

    async def result(self, who: Who, method: str, path: str, **rest: Any) -> Any:
        answer = await self.ask(who, method, path, **rest)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()["result"]

    def bound(self, who: Who, area: str) -> Bound:
        by_agent, by_user = self.accounts[who.account]
        if area == "user":
            return Bound(who.account, who.user, who.agent if by_agent else None)
        if area == "agent":
            return Bound(who.account, who.user if by_user else None, who.agent)
        return Bound(who.account, None, None)

    def canonical(self, who: Who, area: str) -> str:
        by_agent, by_user = self.accounts[who.account]
        if area == "user":
            return f"user/{who.user}" + (f"/agent/{who.agent}" if by_agent else "")
        if area == "agent":
            return f"agent/{who.agent}" + (f"/user/{who.user}" if by_user else "")
        return "resources"

    async def act(self, who: Who, action: Action) -> None:
        match action.kind:
            case "write":
                await self.write(who, action)
            case "delete":
                await self.delete(who)
            case "say":
                session = f"s-{action.name}-{next(_numbers)}"
                body = {"role": "user", "content": "hello"}
                await self.result(who, "POST", f"/sessions/{session}/messages", json=body)
                self.sessions[session] = who.account
            case _:
                await self.remember(who)

    async def write(self, who: Who, action: Action) -> None:
        folder = FOLDERS[action.area][action.folder]
        is_short = action.short and not folder.startswith("notes") and action.area != "resources"
        root = action.area if is_short else self.canonical(who, action.area)
        uri = "viking://" + "/".join(filter(None, (root, folder, f"{action.name}.md")))
        text = f"fact{next(_numbers)}"
        body = {"uri": uri, "content": text}
        written = await self.result(who, "POST", "/content/write", json=body)
        self.forget(who.account, written["uri"])
        self.texts[text] = self.bound(who, action.area)
        self.places[text] = written["uri"]

    async def delete(self, who: Who) -> None:
        text = next(iter(self.texts), None)
        if text is None:
            return
        uri = self.places[text]
        answer = await self.ask(who, "DELETE", "/fs", params={"uri": uri})
        # The same address in another account is another file.
        in_account = [
            bound
            for other, bound in self.texts.items()
            if self.places[other] == uri and bound.account == who.account
        ]
        if any(bound.shown_to(who) for bound in in_account):
            assert answer.status_code == 200, answer.text
            self.forget(who.account, uri)
        else:
            assert answer.status_code in ({400, 403} if in_account else {400, 403, 404})

    def forget(self, account: str, uri: str) -> None:
        for text, place in list(self.places.items()):
            if place == uri and self.texts[text].account == account:
                del self.places[text], self.texts[text]

    async def remember(self, who: Who) -> None:
        """A session of one user and one agent becomes a memory of its user."""
        session, word = f"m-{next(_numbers)}", f"thing{next(_numbers)}"
        said = [
            {"role": "user", "content": f"I like {word}."},
            {"role": "assistant", "content": "o"},
        ]
        await self.result(
            who, "POST", f"/sessions/{session}/messages/batch", json={"messages": said}
        )
        done = await self.result(who, "POST", f"/sessions/{session}/commit", json={})
        while True:
            task = await self.result(who, "GET", f"/tasks/{done['task_id']}")
            if task["status"] == "completed":
                break
            assert task["status"] in {"pending", "running"}
        self.sessions[session] = who.account
        text = f"User likes {word}."
        self.texts[text] = self.bound(who, "user")
        root = self.canonical(who, "user")
        self.places[text] = f"viking://{root}/memories/preferences/user/likes_{word}.md"

    async def check(self, who: Who) -> None:
        """The search, the tree and the model agree, and nothing of others can be had."""
        own = {text for text, bound in self.texts.items() if bound.shown_to(who)}
        everything = await self.search(who, {"query": "x", "limit": 100_000})
        files = {uri for uri, level in everything.items() if level[0] == 2}
        assert {everything[uri][1] for uri in files} - {""} == own
        listed = await self.result(who, "GET", "/fs/tree", params={"uri": "viking://"})
        tree = {entry["uri"] for entry in listed if not entry["isDir"]}
        assert {uri for uri in tree if not uri.startswith("viking://session/")} == files
        assert {self.places[text] for text in own} <= files
        sessions = {name for name, account in self.sessions.items() if account == who.account}
        listed = await self.result(who, "GET", "/sessions")
        assert {entry["session_id"] for entry in listed} == sessions
        notes = [text for level, text in everything.values() if level < 2]
        foreign = {text: bound for text, bound in self.texts.items() if text not in own}
        assert not any(text in note for text in foreign for note in notes)
        for text in itertools.islice(sorted(own), 2):
            uri = self.places[text]
            assert await self.result(who, "GET", "/content/read", params={"uri": uri}) == text
            found = await self.search(who, {"query": text, "score_threshold": 0.5})
            assert uri in found
        for text in itertools.islice(sorted(foreign), 3):
            await self.attack(who, text)

    async def search(self, who: Who, body: dict[str, Any]) -> dict[str, tuple[int, str]]:
        result = await self.result(who, "POST", "/search/find", json=body)
        hits = [*result["memories"], *result["resources"], *result["skills"]]
        return {hit["uri"]: (hit["level"], hit["abstract"]) for hit in hits}

    async def attack(self, who: Who, text: str) -> None:
        """By its address, its directory, its words: nothing of it comes back."""
        uri, bound = self.places[text], self.texts[text]
        own_place = {self.places[other] for other, b in self.texts.items() if b.shown_to(who)}
        if uri not in own_place:
            for path in ("/content/read", "/fs/stat", "/fs/tree"):
                answer = await self.ask(who, "GET", path, params={"uri": uri})
                assert answer.status_code in {400, 403, 404}
        answer = await self.ask(
            who, "POST", "/search/find", json={"query": text, "target_uri": uri}
        )
        assert text not in answer.text
        if bound.account == who.account:
            assert answer.status_code in {400, 403}
        found = await self.search(who, {"query": text, "score_threshold": 0.5})
        assert text not in {abstract for _, abstract in found.values()}


def prefix_pairs(ids: list[str]) -> int:
    return sum(
        1 for one, other in itertools.permutations(sorted(set(ids)), 2) if other.startswith(one)
    )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Any]]:
    """One server for all examples; each example makes accounts of its own."""
    folder: Path = tmp_path_factory.mktemp("leaks")
    app = create_app(
        EmbeddedSettings(data_dir=folder, profile=ServerProfile.NAMESPACE, root_key=KEY)
    )
    lifespan = app.router.lifespan_context(app)
    with asyncio.Runner() as running:
        running.run(lifespan.__aenter__())
        yield running, app
        running.run(lifespan.__aexit__(None, None, None))


@pytest.mark.timeout(4 * 3600)
def test_search_finds_what_can_be_read_and_nothing_crosses(
    runner: tuple[asyncio.Runner, Any],
) -> None:
    seen: Counter[str] = Counter()

    async def play(plan: Plan) -> None:
        base = f"t{next(_numbers)}"
        names = [f"{base}{tail}" for tail in plan.tails[: len(plan.policies)]]
        transport = httpx.ASGITransport(runner[1])
        async with httpx.AsyncClient(transport=transport, base_url="http://embedded") as http:
            world = World(http, dict(zip(names, plan.policies, strict=True)))
            for name, (by_agent, by_user) in world.accounts.items():
                body = {
                    "account_id": name,
                    "admin_user_id": plan.users[0],
                    "isolate_user_scope_by_agent": by_agent,
                    "isolate_agent_scope_by_user": by_user,
                }
                made = await http.post(
                    f"{API}/admin/accounts", json=body, headers={"X-API-Key": KEY}
                )
                assert made.status_code == 200, made.text

            def who(index: tuple[int, int, int]) -> Who:
                lists = (names, plan.users, plan.agents)
                return Who(*(ids[n % len(ids)] for ids, n in zip(lists, index, strict=True)))

            for action in plan.actions:
                await world.act(who(action.who), action)
            for viewer in plan.viewers:
                await world.check(who(viewer))
            seen["texts"] += len(world.texts)
            seen["checked"] += len(plan.viewers)
        seen["prefix pairs"] += sum(map(prefix_pairs, (names, plan.users, plan.agents)))
        seen["examples"] += 1

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @example(SAME_ADDRESS_IN_TWO_ACCOUNTS)
    @given(PLANS)
    def examples(plan: Plan) -> None:
        runner[0].run(play(plan))

    examples()
    print(f"\nno leak in {dict(seen)}")
    assert seen["examples"] >= EXAMPLES
    assert seen["prefix pairs"] >= EXAMPLES / 10
    assert seen["texts"] >= EXAMPLES
