"""The server is asked itself, and what it answers is told once."""

import time

from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from resilient_ov_chaos.agent.job import Persona
from resilient_ov_chaos.history import Record, ServerBack
from resilient_ov_chaos.server_back import ServerBackWatcher

PERSONA = Persona(number=0, user="alice", agent=None, seed="mkabc123p00seed")


def watch(server: ScriptedServer, told: list[Record], *, enough: int) -> ServerBackWatcher:
    """Watch until the server was asked often enough, or until it was back."""
    watcher = ServerBackWatcher(
        f"127.0.0.1:{server.port}",
        key="test-key",
        account="acme",
        persona=PERSONA,
        take=told.append,
    )
    with watcher:
        watcher.begin()
        while len(server.requests_to("find")) < enough and watcher.at_s is None:
            time.sleep(0.01)
    return watcher


def test_a_server_is_back_with_the_first_search_it_serves() -> None:
    told: list[Record] = []
    with ScriptedServer(Rule(on="find", do="status", code=500, nth="1-2")) as server:
        watcher = watch(server, told, enough=4)
        assert len(server.requests_to("find")) == 3
    assert watcher.at_s is not None
    assert told == [ServerBack(at_s=watcher.at_s)]


def test_a_server_that_stays_sick_is_never_told_to_be_back_and_the_asking_ends() -> None:
    told: list[Record] = []
    with ScriptedServer(Rule(on="find", do="status", code=500)) as server:
        assert watch(server, told, enough=2).at_s is None
    assert told == []


def test_a_server_that_refuses_connections_is_not_back() -> None:
    told: list[Record] = []
    with ScriptedServer(Rule(on="any", do="refuse")) as server:
        watcher = ServerBackWatcher(
            f"127.0.0.1:{server.port}", key="k", account="acme", persona=PERSONA, take=told.append
        )
        with watcher:
            watcher.begin()
    assert told == []


def test_a_watcher_that_never_began_ends_in_peace() -> None:
    with ServerBackWatcher(
        "127.0.0.1:1", key="k", account="acme", persona=PERSONA, take=lambda _: None
    ) as watcher:
        pass
    assert watcher.at_s is None
