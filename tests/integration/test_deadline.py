"""What a server that stays silent, drips or cuts costs, and what it leaves behind.

How exact the deadline is kept is measured by `make bench-deadline`; here it is only that a call
ends, as what it ends, and that nothing is left of it.
"""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from resilient_ov.adapters import replies
from resilient_ov.adapters.resolver import Resolver
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.transport import DEADLINE, AsyncDeadlineTransport, DeadlineTransport
from resilient_ov.domain.exchange import Evidence, Failure, FailureKind, ReadMessages, Success
from resilient_ov.settings import LimitSettings, TimeoutSettings, TlsSettings
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.integration.faulty import FIND, ME, AsyncClient, Client, add, attempt, settings

BUDGET_S = 0.15
Make = Callable[..., Client]
NOT_SENT, UNKNOWN, ANSWERED = Evidence.NOT_SENT, Evidence.UNKNOWN, Evidence.ANSWERED


def resources() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


@contextmanager
def nothing_left() -> Iterator[None]:
    """Demand that threads and descriptors come back to where they were, within a second."""
    before = resources()
    yield
    end_s = time.monotonic() + 1.0
    while resources() > before and time.monotonic() < end_s:
        time.sleep(0.02)
    assert resources() <= before


def rule(do: Any, **rest: Any) -> Rule:
    return Rule(on="any", do=do, **rest)


@pytest.mark.parametrize(
    ("fault", "kind", "evidence", "byte_received"),
    [
        (rule("hang"), FailureKind.TIMEOUT, UNKNOWN, False),
        (rule("drip", every_s=0.02), FailureKind.TIMEOUT, UNKNOWN, True),
        (rule("drip", every_s=0.02, framing="chunked"), FailureKind.TIMEOUT, UNKNOWN, True),
        (rule("drip", every_s=0.02, part="head"), FailureKind.TIMEOUT, UNKNOWN, True),
        (rule("delay", seconds=5.0), FailureKind.TIMEOUT, UNKNOWN, False),
        (rule("apply_then_delay", seconds=5.0), FailureKind.TIMEOUT, UNKNOWN, False),
    ],
    ids=["hang", "drip body", "drip chunks", "drip headers", "delay", "apply then delay"],
)
def test_silence_ends_with_the_deadline(
    client_of: Make, fault: Rule, kind: FailureKind, evidence: Evidence, *, byte_received: bool
) -> None:
    with ScriptedServer(fault) as server:
        client = client_of(settings(server.url))
        server.script()
        client.value(FIND)
        server.script(fault)
        with nothing_left():
            failure = client.failure(FIND, BUDGET_S)
            server.drop_connections()
        assert (failure.kind, failure.evidence) == (kind, evidence)
        assert failure.byte_received == byte_received
        assert 0 < failure.wire_s < 2.0
        server.script()
        client.value(FIND)


@pytest.mark.parametrize(
    ("fault", "kind", "evidence", "status"),
    [
        (rule("refuse"), FailureKind.CONNECT, NOT_SENT, None),
        (rule("reset"), FailureKind.RESET, UNKNOWN, None),
        (rule("apply_then_drop"), FailureKind.RESET, UNKNOWN, None),
        (rule("truncate"), FailureKind.RESET, UNKNOWN, None),
        (rule("truncate", framing="chunked"), FailureKind.RESET, UNKNOWN, None),
        (rule("apply_then_truncate"), FailureKind.RESET, UNKNOWN, None),
        (rule("truncate", framing="close"), FailureKind.PROTOCOL, UNKNOWN, 200),
        (rule("gzip_bomb", size=1_000_000), FailureKind.PROTOCOL, ANSWERED, 200),
        (rule("raw", code=200, body=b"<html>portal"), FailureKind.PROTOCOL, ANSWERED, 200),
        (rule("status", code=302, html=True), FailureKind.PROTOCOL, ANSWERED, 302),
        (rule("status", code=502, html=True), FailureKind.SERVER_ERROR, ANSWERED, 502),
        (rule("status", code=413, html=True), FailureKind.CLIENT_ERROR, ANSWERED, 413),
        (
            rule("raw_headers", lines=["Content-Length: 46", "Content-Length: 12"]),
            FailureKind.PROTOCOL,
            UNKNOWN,
            None,
        ),
        (rule("raw_headers", lines=["no header at all"]), FailureKind.PROTOCOL, UNKNOWN, None),
    ],
    ids=lambda value: f"{value.do}-{value.framing}-{value.code}" if isinstance(value, Rule) else "",
)
def test_each_fault_has_its_kind_and_evidence(
    client_of: Make, fault: Rule, kind: FailureKind, evidence: Evidence, status: int | None
) -> None:
    with ScriptedServer(fault) as server:
        failure = client_of(settings(server.url)).failure(add())
        assert (failure.kind, failure.evidence, failure.status) == (kind, evidence, status)
        assert failure.byte_received == (fault.do not in {"refuse", "reset", "apply_then_drop"})


def test_endless_answer_is_cut_at_the_cap(client_of: Make) -> None:
    with ScriptedServer(rule("endless_chunked")) as server:
        client = client_of(settings(server.url))
        with nothing_left():
            failure = client.failure(FIND)
        assert (failure.kind, failure.too_large) == (FailureKind.PROTOCOL, True)
        assert failure.evidence is UNKNOWN


def test_announced_size_above_the_cap_is_not_read(client_of: Make) -> None:
    large = rule("raw_headers", lines=[f"content-length: {9 * 1024 * 1024}"])
    with ScriptedServer(large) as server:
        failure = client_of(settings(server.url)).failure(FIND)
        assert (failure.kind, failure.too_large) == (FailureKind.PROTOCOL, True)


def test_page_that_is_too_large_can_be_read_in_parts(client_of: Make) -> None:
    with ScriptedServer() as server:
        client = client_of(settings(server.url))
        for number in range(2):
            client.value(add(f"{number}" + "x" * 3_000_000))
        page = ReadMessages(identity=ME, session_id="df_s", archive=None, offset=0, limit=2)
        assert client.failure(page).too_large
        for offset in range(2):
            assert len(client.value(replace(page, offset=offset, limit=1)).lines) == 1


def test_large_answer_that_is_read_too_late_was_still_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedServer() as server:
        server.store.remember("acme", "df_me", "green tea " * 50_000)
        client = AsyncClient(settings(server.url))
        honest = replies.answered

        def slow(*args: Any) -> Any:
            time.sleep(0.6)
            return honest(*args)

        monkeypatch.setattr(replies, "answered", slow)
        failure = client.failure(FIND, 0.5)
        assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, ANSWERED)
        assert failure.status == 200
        client.close()


def test_large_answer_is_read_on_the_loop_when_no_thread_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedServer() as server:
        server.store.remember("acme", "df_me", "green tea " * 50_000)
        client = AsyncClient(settings(server.url))
        monkeypatch.setattr(client.server._decoders, "start", lambda _work: None)
        assert len(client.value(FIND)) == 1
        client.close()


def test_large_answer_below_the_cap_is_read(client_of: Make) -> None:
    with ScriptedServer() as server:
        text = "green tea " * 200_000
        server.store.remember("acme", "df_me", text)
        (hit,) = client_of(settings(server.url)).value(FIND)
        assert hit.text == text


def test_upload_that_nobody_reads_ends_with_the_deadline(client_of: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        failure = client_of(settings(url)).failure(add("x" * 12_000_000), 1.0)
        assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, UNKNOWN)


def test_tls_that_never_answers_ends_with_the_deadline(client_of: Make) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with ScriptedServer(Rule(on="tcp", do="hang"), tls=tls) as server:
        client = client_of(settings(server.url))
        with nothing_left():
            failure = client.failure(FIND, BUDGET_S)
            server.drop_connections()
        assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, NOT_SENT)


def test_tls_that_never_answers_within_its_phase_is_a_tls_failure(client_of: Make) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with ScriptedServer(Rule(on="tcp", do="hang"), tls=tls) as server:
        found = settings(server.url, timeouts=TimeoutSettings(connect_s=0.1))
        failure = client_of(found).failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.TLS, NOT_SENT)


def test_reply_that_takes_longer_than_its_phase_is_a_timeout(client_of: Make) -> None:
    with ScriptedServer(rule("hang")) as server:
        found = settings(server.url, timeouts=TimeoutSettings(read_s=0.1))
        failure = client_of(found).failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, UNKNOWN)


# -- names and addresses ----------------------------------------------------------------------


class SlowNames:
    """A name server that hangs until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, _host: str, port: int) -> Sequence[tuple[Any, ...]]:
        self.go_on.wait(10)
        return socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM)


def test_name_that_does_not_resolve_in_time_ends_with_the_deadline(client_of: Make) -> None:
    names = SlowNames()
    with ScriptedServer() as server:
        found = settings(f"http://memory.internal:{server.port}", allow_insecure_http=True)
        client = client_of(found, resolver=Resolver(lookup=names))
        with nothing_left():
            failure = client.failure(FIND, BUDGET_S)
            assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, NOT_SENT)
            names.go_on.set()
        client.value(FIND)


def test_name_that_does_not_resolve_within_its_phase_is_a_connect_failure(
    client_of: Make,
) -> None:
    names = SlowNames()
    found = settings(
        "http://memory.internal:1",
        allow_insecure_http=True,
        timeouts=TimeoutSettings(connect_s=0.1),
    )
    failure = client_of(found, resolver=Resolver(lookup=names)).failure(FIND)
    assert (failure.kind, failure.evidence) == (FailureKind.CONNECT, NOT_SENT)
    names.go_on.set()


def test_unknown_name_is_a_connect_failure(client_of: Make) -> None:
    def nobody(_host: str, _port: int) -> Sequence[tuple[Any, ...]]:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    found = settings("http://memory.internal:1", allow_insecure_http=True)
    failure = client_of(found, resolver=Resolver(lookup=nobody)).failure(FIND)
    assert (failure.kind, failure.evidence) == (FailureKind.CONNECT, NOT_SENT)


@contextmanager
def black_hole() -> Iterator[tuple[str, int]]:
    """Listen, but let no connection be made: the queue of the listener is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.2", 0))
    listener.listen(0)
    address = listener.getsockname()
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(address)
    yield address
    for sock in (*fillers, listener):
        sock.close()


def both(first: tuple[str, int], second: tuple[str, int]) -> Resolver:
    def names(_host: str, _port: int) -> Sequence[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", a) for a in (first, second)]

    return Resolver(lookup=names)


def test_each_address_gets_its_share_of_the_time(client_of: Make) -> None:
    with black_hole() as dead, ScriptedServer() as server:
        resolver = both(dead, ("127.0.0.1", server.port))
        found = settings(f"http://memory.internal:{server.port}", allow_insecure_http=True)
        client = client_of(found, resolver=resolver)
        client.value(FIND, 1.0)
        # The address that worked comes first now: another client needs no share for the dead one.
        assert client_of(found, resolver=resolver).value(FIND, 5.0) == ()
        assert resolver.addresses("memory.internal", server.port, 0.0)[0].sockaddr[0] == "127.0.0.1"


def test_address_that_refuses_is_skipped(client_of: Make) -> None:
    with ScriptedServer() as server:
        found = settings(f"http://memory.internal:{server.port}", allow_insecure_http=True)
        resolver = both(("127.0.0.1", 1), ("127.0.0.1", server.port))
        client_of(found, resolver=resolver).value(FIND)


def test_host_that_swallows_connections_ends_with_the_deadline(client_of: Make) -> None:
    with black_hole() as dead:
        client = client_of(settings(f"http://{dead[0]}:{dead[1]}", allow_insecure_http=True))
        with nothing_left():
            failure = client.failure(FIND, BUDGET_S)
        assert (failure.kind, failure.evidence) == (FailureKind.TIMEOUT, NOT_SENT)


def test_host_that_swallows_connections_within_the_phase_is_a_connect_failure(
    client_of: Make,
) -> None:
    with black_hole() as dead:
        found = settings(
            f"http://{dead[0]}:{dead[1]}",
            allow_insecure_http=True,
            timeouts=TimeoutSettings(connect_s=0.1),
        )
        failure = client_of(found).failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.CONNECT, NOT_SENT)


async def arrived(server: ScriptedServer) -> None:
    """Wait until a request reached the server."""
    while not server.requests:  # noqa: ASYNC110 - the server lives on threads
        await asyncio.sleep(0.01)


# -- our own limits ---------------------------------------------------------------------------


def test_own_full_pool_is_saturation_and_sends_nothing() -> None:
    with ScriptedServer(rule("hang")) as server:
        found = settings(server.url, limits=LimitSettings(max_connections=1, max_keepalive=1))
        client = AsyncClient(found)

        async def scenario() -> list[Any]:
            holder = asyncio.create_task(client.server.send(attempt(FIND, 0.5)))
            await arrived(server)
            waiting = [client.server.send(attempt(FIND, BUDGET_S)) for _ in range(5)]
            answers = await asyncio.gather(*waiting)
            await holder
            return answers

        for answer in client.runner.run(scenario()):
            assert isinstance(answer, Failure)
            assert (answer.kind, answer.evidence) == (FailureKind.SATURATED, NOT_SENT)
        assert len(server.requests) == 1
        server.script()
        client.value(FIND)
        client.close()


def test_threads_wait_for_a_connection_and_get_it(client_of: Make) -> None:
    with ScriptedServer(rule("delay", seconds=0.05)) as server:
        found = settings(server.url, limits=LimitSettings(max_connections=2, max_keepalive=2))
        client = client_of(found)
        if isinstance(client, AsyncClient):

            async def scenario() -> list[Any]:
                sends = [client.server.send(attempt(FIND)) for _ in range(8)]
                return await asyncio.gather(*sends)

            answers = client.runner.run(scenario())
        else:
            answers = []
            threads = [
                threading.Thread(target=lambda: answers.append(client.send(FIND))) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [type(answer) for answer in answers] == [Success] * 8
        assert server.connections <= 2


# -- cancellation -----------------------------------------------------------------------------


def test_cancelled_call_aborts_its_connection_and_passes_on() -> None:
    with ScriptedServer(rule("hang")) as server:
        client = AsyncClient(settings(server.url))

        async def scenario() -> None:
            task = asyncio.create_task(client.server.send(attempt(FIND)))
            await arrived(server)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with nothing_left():
            client.runner.run(scenario())
        server.script()
        client.value(FIND)
        client.close()


def test_cancellations_under_contention_lose_no_connection() -> None:
    with ScriptedServer(rule("delay", seconds=0.003)) as server:
        found = settings(server.url, limits=LimitSettings(max_connections=4, max_keepalive=4))
        client = AsyncClient(found)

        async def one(number: int) -> None:
            task = asyncio.create_task(client.server.send(attempt(FIND, 5.0)))
            await asyncio.sleep((number % 7) * 0.001)
            task.cancel()
            if number % 3 == 0:
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        async def scenario() -> list[Any]:
            for _ in range(20):
                await asyncio.gather(*(one(number) for number in range(20)))
            return await asyncio.gather(*(client.server.send(attempt(FIND)) for _ in range(8)))

        with nothing_left():
            answers = client.runner.run(scenario())
            client.runner.run(client.server.aclose())
            server.drop_connections()
        assert [type(answer) for answer in answers] == [Success] * 8
        client.close()


# -- streamed bodies --------------------------------------------------------------------------


def stream_request(url: str, budget_s: float) -> httpx.Request:
    deadline_s = time.monotonic() + budget_s
    return httpx.Request("GET", f"{url}/health", extensions={DEADLINE: deadline_s})


def test_body_read_after_the_call_keeps_the_deadline() -> None:
    with ScriptedServer(rule("drip", every_s=0.05)) as server:
        transport = DeadlineTransport(
            limits=LimitSettings(),
            tls=TlsContexts(TlsSettings()),
            on_healed=lambda: None,
            resolver=Resolver(),
        )
        with nothing_left():
            response = transport.handle_request(stream_request(server.url, BUDGET_S))
            with pytest.raises(httpx.ReadTimeout), closing(response):
                response.read()
            server.drop_connections()
        transport.close()


def test_async_body_read_after_the_call_keeps_the_deadline() -> None:
    with ScriptedServer(rule("drip", every_s=0.05)) as server:
        transport = AsyncDeadlineTransport(
            limits=LimitSettings(),
            tls=TlsContexts(TlsSettings()),
            on_healed=lambda: None,
            resolver=Resolver(),
        )

        async def scenario() -> None:
            response = await transport.handle_async_request(stream_request(server.url, BUDGET_S))
            with pytest.raises(httpx.ReadTimeout):
                await response.aread()
            await response.aclose()
            await transport.aclose()

        asyncio.run(scenario())


def test_request_without_a_deadline_has_its_phases_only() -> None:
    with ScriptedServer() as server:
        transport = DeadlineTransport(
            limits=LimitSettings(),
            tls=TlsContexts(TlsSettings()),
            on_healed=lambda: None,
            resolver=Resolver(),
        )
        response = transport.handle_request(httpx.Request("GET", f"{server.url}/health"))
        with closing(response):
            assert response.read()
        transport.close()


# -- a process that was stopped ---------------------------------------------------------------

_SENDER = """
import sys
from tests.integration.faulty import COLOURS, add, settings

client = COLOURS[sys.argv[1]](settings(sys.argv[2]))
failure = client.failure(add("x" * 16_000_000), float(sys.argv[3]))
print(failure.kind.value, failure.evidence.value)
client.close()
"""


def drained(sock: socket.socket, quiet_s: float) -> tuple[int, bool]:
    """Read until nothing comes for a while; tell how much came and whether the peer closed."""
    sock.settimeout(quiet_s)
    received = 0
    while True:
        try:
            data = sock.recv(1_000_000)
        except TimeoutError:
            return received, False
        except ConnectionResetError:
            return received, True
        if not data:
            return received, True
        received += len(data)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_stopped_process_that_wakes_up_late_sends_no_further_byte(colour: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    budget_s = 1.0
    with subprocess.Popen(
        [sys.executable, "-c", _SENDER, colour, url, str(budget_s)],
        stdout=subprocess.PIPE,
        text=True,
    ) as sender:
        peer, _ = listener.accept()
        began_s = time.monotonic()
        time.sleep(0.3)  # until the buffers of both sides are full
        os.kill(sender.pid, signal.SIGSTOP)
        time.sleep(max(0.0, began_s + budget_s + 0.2 - time.monotonic()))
        before, closed = drained(peer, 0.3)
        assert before > 0
        assert not closed
        os.kill(sender.pid, signal.SIGCONT)
        after, closed = drained(peer, 5.0)
        told, _ = sender.communicate(timeout=20)
    assert (after, closed) == (0, True)
    assert told.split() == ["timeout", "unknown"]
    peer.close()
    listener.close()
