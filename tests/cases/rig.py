"""A gateway in miniature: the manager in front of a scripted server, and what it shows outside.

What is looked at is what an operator has: the server's ledger, metrics, log lines, state files.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from prometheus_client import CollectorRegistry

from resilient_ov.domain.identity import openviking_user, scope, session_id
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_manager import OpenVikingMemoryManager

ACCOUNT = "deerflow"
KEY = "test-key"
KEY_ENV = "FIELD_CASES_KEY"
SLACK_S = 0.5
"""How much later than its budget a call may come back; it is no benchmark."""

T = TypeVar("T")

both = pytest.mark.parametrize("colour", ["sync", "async"])


def config(base_url: str, storage: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Return a `backend_config`: what is given, a quick settle time, else the defaults."""
    return {
        "base_url": base_url,
        "account": ACCOUNT,
        "api_key_env": KEY_ENV,
        "storage_path": str(storage),
        **given,
        "session": {"settle_seconds": 0.5, **given.get("session", {})},
    }


def read_budget(seconds: float) -> dict[str, float]:
    """Return the budgets of both reads."""
    return {"get_context_seconds": seconds, "search_seconds": seconds}


class Gateway:
    """One manager, its metrics and its files. `call` runs a method in the colour under test."""

    def __init__(self, given: dict[str, Any], *, colour: str = "sync", **hooks: Any) -> None:
        self.registry = CollectorRegistry()
        hooks = {"metrics_registry": self.registry} | hooks
        self.manager = OpenVikingMemoryManager.from_config(given, **hooks)
        self.storage = Path(given["storage_path"])
        self._runner = asyncio.Runner() if colour == "async" else None

    def call(self, method: str, *args: Any, **rest: Any) -> Any:
        if self._runner is None:
            return getattr(self.manager, method)(*args, **rest)
        return self._runner.run(getattr(self.manager, f"a{method}")(*args, **rest))

    def run(self, work: Any) -> Any:
        """Run a coroutine on this gateway's loop (async only)."""
        assert self._runner is not None
        return self._runner.run(work)

    def get_context(self, user_id: str | None = "u1", **rest: Any) -> str:
        return self.call("get_context", user_id, **rest)

    def search(self, query: str = "tea", top_k: int = 5, **rest: Any) -> list[dict[str, Any]]:
        return self.call("search", query, top_k, **({"user_id": "u1"} | rest))

    def add(self, messages: list[Any], thread_id: str = "t1", **rest: Any) -> None:
        self.call("add", thread_id, messages, **({"user_id": "u1"} | rest))

    def close(self) -> None:
        self.manager.close()
        if self._runner is not None:
            self._runner.close()

    # -- what is seen ----------------------------------------------------------------------

    def metric(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(f"openviking_{name}", labels)
        assert value is not None, (name, labels)
        return value

    def outcomes(self, call: str) -> dict[str, int]:
        """Return how often a call ended how."""
        return {
            sample.labels["outcome"]: int(sample.value)
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "openviking_calls_total"
            and sample.labels["call"] == call
            and sample.value
        }

    def attempts(self, operation: str) -> dict[str, int]:
        """Return how often an attempt of an operation ended how."""
        return {
            sample.labels["outcome"]: int(sample.value)
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "openviking_attempts_total"
            and sample.labels["operation"] == operation
            and sample.value
        }

    def state_file(self, thread_id: str = "t1", **who: Any) -> Path:
        return self.storage / "openviking" / "sessions" / f"{session(thread_id, **who)}.json"

    def state(self, thread_id: str = "t1", **who: Any) -> dict[str, Any]:
        return json.loads(self.state_file(thread_id, **who).read_text())


Make = Callable[..., Gateway]


def session(thread_id: str = "t1", *, user_id: str = "u1", agent_name: str | None = None) -> str:
    """Return the server's session id of a thread."""
    return session_id(scope(ACCOUNT, user_id, agent_name), thread_id)


def hashed(user_id: str = "u1", agent_name: str | None = None) -> str:
    """Return the server's user of a host user."""
    return openviking_user(scope(ACCOUNT, user_id, agent_name))


def memory_uri(name: str, *, user_id: str = "u1", category: str = "preferences") -> str:
    """Return the address of a memory of a host user."""
    return f"viking://user/{hashed(user_id)}/memories/{category}/{name}.md"


def hits(*raw: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a find; a hit without an address lies in the user's own memories."""
    found = [
        {"context_type": "memory", "uri": memory_uri(f"m{at}"), "level": 2, "tags": []} | one
        for at, one in enumerate(raw)
    ]
    return {"status": "ok", "result": {"memories": found, "total": len(found)}}


def remember(server: ScriptedServer, text: str = "I drink green tea", **who: Any) -> None:
    """Put a memory of a host user in place that every query finds."""
    server.store.remember(ACCOUNT, hashed(**who), text, score=0.9)


def texts(server: ScriptedServer, thread_id: str = "t1", **who: Any) -> list[str]:
    """Return the texts that the server holds of a thread, in order."""
    return [m["parts"][0]["text"] for m in stored(server, thread_id, **who)]


def ids(server: ScriptedServer, thread_id: str = "t1", **who: Any) -> list[str]:
    """Return the host's ids of the messages that the server holds of a thread, in order."""
    return [m["source_message_ids"][0] for m in stored(server, thread_id, **who)]


def stored(server: ScriptedServer, thread_id: str = "t1", **who: Any) -> list[dict[str, Any]]:
    found = server.store.sessions()
    wanted = session(thread_id, **who)
    return [m for (_, _, sid), one in found.items() if sid == wanted for m in one.everything]


def commits(server: ScriptedServer, thread_id: str = "t1", **who: Any) -> int:
    """Return how many commits of a thread took effect."""
    wanted = session(thread_id, **who)
    return sum(
        len(s.archives) for (_, _, sid), s in server.store.sessions().items() if sid == wanted
    )


def until(condition: Callable[[], T], *, within_s: float = 10.0) -> T:
    """Wait for what happens in the background; return the first true value."""
    end_s = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.01)
    return value


class Lateness:
    """By how much a thread that only sleeps was late: what a busy machine takes from everybody."""

    TICK_S = 0.005

    def __init__(self) -> None:
        self.total_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> "Lateness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        began_s = time.monotonic()
        while not self._over.wait(self.TICK_S):
            now_s = time.monotonic()
            self.total_s += max(0.0, now_s - began_s - self.TICK_S)
            began_s = now_s


@contextmanager
def takes(at_most_s: float, *, at_least_s: float = 0.0) -> Iterator[None]:
    """Demand that the body takes about so long; a busy machine gets what it took meanwhile."""
    began_s = time.monotonic()
    with Lateness() as lateness:
        yield
        took_s = time.monotonic() - began_s
    assert at_least_s <= took_s <= at_most_s + SLACK_S + lateness.total_s


def in_threads(*works: Callable[[], T]) -> list[T]:
    """Run works at the same moment and return their results in order."""
    start = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(at: int, work: Callable[[], T]) -> None:
        start.wait()
        try:
            results[at] = work()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            results[at] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def check_phases(phases: list[dict[str, float | None]]) -> None:
    """Demand that every phase of every request ends, and none after the deadline."""
    assert phases
    for one in phases:
        assert set(one) == {"connect", "read", "write", "pool", "left"}
        left_s = one.pop("left")
        for seconds in one.values():
            assert seconds is not None
            assert 0 <= seconds <= left_s + 0.05


class Log(logging.Handler):
    """Everything that any logger wrote, formatted; ours also as parsed lines."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.records: list[logging.LogRecord] = []
        self._formatted: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self._formatted.append(self.format(record))

    @property
    def text(self) -> str:
        """All lines, as a handler of the host would write them."""
        return "\n".join(list(self._formatted))

    def lines(
        self, event: str | None = None, *, level: int = logging.DEBUG
    ) -> list[dict[str, Any]]:
        """Return our lines from a level on, each with its `level`."""
        found = [
            {"level": record.levelname, **json.loads(record.getMessage())}
            for record in list(self.records)
            if record.name == "resilient_ov"
            and record.levelno >= level
            and record.getMessage().startswith("{")
        ]
        return [line for line in found if event in (None, line["event"])]

    def loud(self) -> list[str]:
        """Return what anybody wrote at WARNING or above."""
        return [r.getMessage() for r in list(self.records) if r.levelno >= logging.WARNING]
