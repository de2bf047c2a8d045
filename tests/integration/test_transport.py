"""Connections across loops, threads and forks; identity, trust and silence of the HTTP layer."""

import asyncio
import errno
import gc
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
import trustme
from opentelemetry.instrumentation.httpx import (
    AsyncOpenTelemetryTransport,
    SyncOpenTelemetryTransport,
)

from resilient_ov.adapters import sockets
from resilient_ov.adapters.credentials import CredentialError
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.domain.exchange import (
    Evidence,
    Failure,
    FailureKind,
    Health,
    Identity,
    Success,
)
from resilient_ov.settings import AuthMode, AuthSettings, TimeoutSettings, TlsSettings
from resilient_ov.testing.fake_wire import FakeAuth
from resilient_ov.testing.script import Rule
from resilient_ov.testing.scripted_server import ScriptedServer
from tests.integration.faulty import (
    FIND,
    KEY,
    ME,
    AsyncClient,
    Client,
    SyncClient,
    add,
    attempt,
    settings,
)

Make = Callable[..., Client]


# -- identity and ids -------------------------------------------------------------------------


def test_trusted_mode_names_account_and_user(client_of: Make) -> None:
    with ScriptedServer() as server:
        client_of(settings(server.url)).value(FIND)
        headers = server.requests[0].request.headers
        assert headers["x-api-key"] == KEY
        assert headers["x-openviking-account"] == "acme"
        assert headers["x-openviking-user"] == ME.user
        assert "x-openviking-agent" not in headers


def test_key_mode_sends_the_key_only(client_of: Make) -> None:
    with ScriptedServer(auth=FakeAuth.API_KEY) as server:
        found = settings(server.url, auth=AuthSettings(mode=AuthMode.API_KEY, owner_user_id="u"))
        client_of(found).value(FIND)
        sent = server.requests[0].request.headers
        assert [name for name in sent if name.startswith("x-openviking")] == []
        assert sent["x-api-key"] == KEY


def test_dev_mode_names_the_identity_without_a_key(client_of: Make) -> None:
    with ScriptedServer(auth=FakeAuth.DEV) as server:
        found = settings(server.url, auth=AuthSettings(mode=AuthMode.DEV))
        client_of(found, key=lambda: None).value(FIND)
        sent = server.requests[0].request.headers
        assert sent["x-openviking-account"] == "default"
        assert sent["x-openviking-user"] == ME.user
        assert "x-api-key" not in sent


def test_agent_is_named_when_the_profile_has_one(client_of: Make) -> None:
    with ScriptedServer() as server:
        client_of(settings(server.url)).value(
            Health(identity=Identity(user="df_me", agent="researcher"))
        )
        assert server.requests[0].request.headers["x-openviking-agent"] == "researcher"


def test_anonymous_health_says_nothing_about_us(client_of: Make) -> None:
    with ScriptedServer() as server:
        client_of(settings(server.url)).value(Health(identity=Identity(user=None)))
        sent = server.requests[0].request.headers
        assert [n for n in sent if n.startswith(("x-openviking", "x-api"))] == []


def test_every_request_has_its_id_and_asks_for_plain_json(client_of: Make) -> None:
    with ScriptedServer() as server:
        client = client_of(settings(server.url))
        client.value(FIND)
        client.value(FIND)
        first, second = (seen.request.headers for seen in server.requests)
        assert first["x-request-id"] != second["x-request-id"]
        assert first["accept-encoding"] == "identity"
        assert first["content-type"] == "application/json"
        assert "x-trace-id" not in first


@pytest.mark.parametrize(
    ("trace_id", "sent"),
    [
        ("4bf92f35-00", True),
        ("a" * 512, True),
        ("a" * 513, False),
        ("", False),
        ("línea", False),
        ("a\r\nX-Evil: 1", False),
        ("a\x00", False),
    ],
)
def test_trace_id_is_passed_on_when_it_fits_a_header(
    client_of: Make, trace_id: str, *, sent: bool
) -> None:
    with ScriptedServer() as server:
        answer = client_of(settings(server.url)).send(FIND, trace_id=trace_id)
        assert isinstance(answer, Success)
        headers = server.requests[0].request.headers
        assert headers.get("x-trace-id") == (trace_id if sent else None)
        assert "x-evil" not in headers


def test_unreadable_key_is_an_auth_failure_and_sends_nothing(client_of: Make) -> None:
    def key() -> str | None:
        raise CredentialError("not read yet")

    with ScriptedServer() as server:
        failure = client_of(settings(server.url), key=key).failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.AUTH, Evidence.NOT_SENT)
        assert server.connections == 0


def test_base_url_may_have_a_path(client_of: Make) -> None:
    with ScriptedServer() as server:
        client_of(settings(f"{server.url}/proxy/ov/")).failure(FIND)
        assert server.requests[0].request.path == "/proxy/ov/api/v1/search/find"


def test_environment_proxies_are_ignored(client_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server, ScriptedServer() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        client_of(settings(server.url)).value(FIND)
        assert proxy.connections == 0


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_redirects_are_never_followed(client_of: Make, code: int) -> None:
    with ScriptedServer() as other:
        headers = {"location": f"{other.url}/api/v1/search/find"}
        with ScriptedServer(Rule(on="any", do="status", code=code, headers=headers)) as server:
            failure = client_of(settings(server.url)).failure(add())
            assert (failure.kind, failure.status) == (FailureKind.PROTOCOL, code)
            assert len(server.requests) == 1
        assert other.connections == 0


# -- connections ------------------------------------------------------------------------------


def test_connections_are_kept_alive(client_of: Make) -> None:
    with ScriptedServer() as server:
        client = client_of(settings(server.url))
        for _ in range(3):
            client.value(FIND)
        assert server.connections == 1


def test_connection_the_server_closed_is_not_used_again(client_of: Make) -> None:
    with ScriptedServer(Rule(on="any", do="ok_then_close")) as server:
        client = client_of(settings(server.url))
        for _ in range(3):
            client.value(FIND)
            threading.Event().wait(0.02)  # the end of the connection takes a moment
        assert server.connections == 3


def test_closing_lets_calls_in_flight_fail() -> None:
    with ScriptedServer(Rule(on="any", do="hang")) as server:
        client = SyncClient(settings(server.url))
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(client.send(FIND, 30.0)))
        thread.start()
        while not server.requests:
            threading.Event().wait(0.01)
        client.close()
        thread.join(5.0)
        (answer,) = answers
        assert isinstance(answer, Failure)
        assert (answer.kind, answer.evidence) == (FailureKind.RESET, Evidence.UNKNOWN)


def test_closing_from_a_thread_lets_calls_on_a_loop_fail() -> None:
    with ScriptedServer(Rule(on="any", do="hang")) as server:
        client = AsyncClient(settings(server.url))

        async def scenario() -> Any:
            task = asyncio.create_task(client.server.send(attempt(FIND, 30.0)))
            while not server.requests:  # noqa: ASYNC110 - the server lives on threads
                await asyncio.sleep(0.01)
            await asyncio.get_running_loop().run_in_executor(None, client.server.close)
            return await task

        answer = client.runner.run(scenario())
        assert isinstance(answer, Failure)
        assert (answer.kind, answer.evidence) == (FailureKind.RESET, Evidence.UNKNOWN)
        client.close()


def test_pool_that_lost_its_connections_is_replaced_within_the_call(
    client_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as server:
        client = client_of(settings(server.url))
        client.value(FIND)
        if isinstance(client, SyncClient):
            kind, method = httpcore.ConnectionPool, "handle_request"
        else:
            kind, method = httpcore.AsyncConnectionPool, "handle_async_request"
        honest = getattr(kind, method)
        poisoned: list[Any] = []

        def handle(pool: Any, request: Any) -> Any:
            if not poisoned:
                poisoned.append(pool)
            if pool is poisoned[0]:
                raise httpcore.PoolTimeout
            return honest(pool, request)

        monkeypatch.setattr(kind, method, handle)
        client.value(FIND)
        client.value(FIND)
        assert client.healed == 1
        assert server.connections == 2


def test_one_async_server_serves_several_loops_one_after_another_and_at_once() -> None:
    with ScriptedServer() as server:
        found = AsyncHttpxMemoryServer(settings(server.url), key=lambda: KEY)
        answers: list[Any] = []

        async def once() -> None:
            answers.append(await found.send(attempt(FIND)))

        for _ in range(3):
            asyncio.run(once())
        threads = [threading.Thread(target=lambda: asyncio.run(once())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        assert [type(answer) for answer in answers] == [Success] * 5


_LOOPS = """
import asyncio, sys
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer, HttpxMemoryServer
from resilient_ov.domain.exchange import Success
from tests.integration.faulty import FIND, KEY, attempt, settings

found = settings(sys.argv[1])
loops = AsyncHttpxMemoryServer(found, key=lambda: KEY)
threads = HttpxMemoryServer(found, key=lambda: KEY)
for _ in range(3):
    assert isinstance(asyncio.run(loops.send(attempt(FIND))), Success)
assert isinstance(threads.send(attempt(FIND)), Success)
"""


def test_servers_that_are_never_closed_leave_no_warning() -> None:
    with ScriptedServer() as server:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", _LOOPS, server.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
        assert told == []


_LOADED = """
import asyncio, sys
from resilient_ov.adapters.memory_server import AsyncHttpxMemoryServer
from resilient_ov.domain.exchange import Success
from tests.integration.faulty import FIND, KEY, attempt, settings

class Finder:
    asked = []
    def find_spec(self, name, path=None, target=None):
        self.asked.append(name)

found = settings(sys.argv[1])
server = AsyncHttpxMemoryServer(found, key=lambda: KEY)

async def once():
    sys.meta_path.insert(0, Finder())
    assert isinstance(await server.send(attempt(FIND)), Success)

asyncio.run(once())
print(*Finder.asked)
"""


def test_not_even_the_first_request_looks_for_a_module_on_the_loop() -> None:
    with ScriptedServer() as server:
        done = subprocess.run(
            [sys.executable, "-c", _LOADED, server.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout.split(), done.stderr) == ([], "")


def test_no_free_descriptor_is_our_own_saturation(
    client_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as server:
        client = client_of(settings(server.url))

        def exhausted(*_: object) -> socket.socket:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(sockets.socket, "socket", exhausted)
            failure = client.failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.SATURATED, Evidence.NOT_SENT)
        assert client.healed == 0
        client.value(FIND)


# -- fork -------------------------------------------------------------------------------------

_FORKED = """
import asyncio, json, os, sys
from pathlib import Path
from resilient_ov.domain.exchange import GetSession, Success
from resilient_ov.settings import TlsSettings
from tests.integration.faulty import COLOURS, ME, settings

trust = TlsSettings(ca_file=Path(sys.argv[3]))
client = COLOURS[sys.argv[1]](settings(sys.argv[2], tls=trust))
warm = client.send(GetSession(identity=ME, session_id="parent"))
reader, writer = os.pipe()
for child in range(2):
    if os.fork() == 0:
        if sys.argv[1] == "async":
            client.runner = asyncio.Runner()
        right = wrong = 0
        for number in range(100):
            command = GetSession(identity=ME, session_id=f"child-{child}-{number}")
            answer = client.send(command)
            expected = 1 + child * 1000 + number
            if isinstance(answer, Success) and answer.value.total_messages == expected:
                right += 1
            else:
                wrong += 1
        os.write(writer, (json.dumps([right, wrong]) + "\\n").encode())
        os._exit(0)
os.wait(), os.wait()
print(os.read(reader, 1000).decode())
assert isinstance(client.send(GetSession(identity=ME, session_id="parent")), Success)
client.close()
"""


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_forked_children_never_get_each_others_answers(
    authority: "Authority", colour: str, *, secure: bool
) -> None:
    with ScriptedServer(tls=authority.server("localhost") if secure else None) as server:
        honest = server.store.handle

        def handle(request: Any) -> Any:
            reply = honest(request)
            name = request.path.rsplit("/", 1)[-1]
            _, _, rest = name.partition("child-")
            child, _, number = rest.partition("-")
            total = 1 + int(child) * 1000 + int(number) if rest else 0
            counts = {"message_count": total, "total_message_count": total, "commit_count": 0}
            return type(reply)(200, {"status": "ok", "result": counts})

        server.store.handle = handle  # type: ignore[method-assign]
        done = subprocess.run(
            [sys.executable, "-c", _FORKED, colour, server.url, str(authority.ca_file)],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [json.loads(line) for line in done.stdout.split("\n") if line] == [[100, 0]] * 2


_PARENT = """
import os, sys
from pathlib import Path
from resilient_ov.domain.exchange import Success
from resilient_ov.settings import TlsSettings
from tests.integration.faulty import COLOURS, FIND, settings

trust = TlsSettings(ca_file=Path(sys.argv[3]))
client = COLOURS[sys.argv[1]](settings(sys.argv[2], tls=trust))
assert isinstance(client.send(FIND), Success)
if os.fork() == 0:
    os._exit(0)
os.wait()
assert isinstance(client.send(FIND), Success)
client.close()
"""


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_child_says_no_goodbye_on_its_parents_connection(
    authority: "Authority", colour: str, *, secure: bool
) -> None:
    with ScriptedServer(tls=authority.server("localhost") if secure else None) as server:
        done = subprocess.run(
            [sys.executable, "-c", _PARENT, colour, server.url, str(authority.ca_file)],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert server.connections == 1


# -- trust ------------------------------------------------------------------------------------


class Authority:
    """A certificate authority and what it issued, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))

    def server(
        self,
        *names: str,
        client_ca: "Authority | None" = None,
        not_after: datetime | None = None,
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names, not_after=not_after).configure_cert(context)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            client_ca.ca.configure_trust(context)
        return context

    def client(self) -> TlsSettings:
        pair = self.ca.issue_cert("client@example.org")
        certificate, key = self.folder / "client.pem", self.folder / "client.key"
        pair.cert_chain_pems[0].write_to_path(str(certificate))
        pair.private_key_pem.write_to_path(str(key))
        return TlsSettings(ca_file=self.ca_file, client_cert_file=certificate, client_key_file=key)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_private_authority_is_trusted(client_of: Make, authority: Authority) -> None:
    with ScriptedServer(tls=authority.server("localhost")) as server:
        client = client_of(settings(server.url, tls=TlsSettings(ca_file=authority.ca_file)))
        for _ in range(3):
            client.value(FIND)
        client.value(add("x" * 500_000))
        assert server.connections <= 2


def test_large_answer_comes_over_tls(client_of: Make, authority: Authority) -> None:
    with ScriptedServer(tls=authority.server("localhost")) as server:
        server.store.remember("acme", "df_me", "green tea " * 100_000)
        client = client_of(settings(server.url, tls=TlsSettings(ca_file=authority.ca_file)))
        (hit,) = client.value(FIND)
        assert len(hit.text) == 1_000_000


@pytest.mark.parametrize("fault", ["unknown authority", "wrong name", "expired"])
def test_certificate_that_does_not_fit_is_a_tls_failure_and_nothing_is_sent(
    client_of: Make, authority: Authority, fault: str
) -> None:
    name = "localhost" if fault == "unknown authority" else "other.example"
    trust = (
        TlsSettings() if fault == "unknown authority" else TlsSettings(ca_file=authority.ca_file)
    )
    with ScriptedServer(tls=authority.server(name)) as server:
        failure = client_of(settings(server.url, tls=trust)).failure(add())
        assert (failure.kind, failure.evidence) == (FailureKind.TLS, Evidence.NOT_SENT)
        assert server.requests == []


def test_plain_http_behind_https_is_a_tls_failure(client_of: Make) -> None:
    with ScriptedServer() as server:
        found = settings(
            f"https://localhost:{server.port}", timeouts=TimeoutSettings(connect_s=0.2)
        )
        failure = client_of(found).failure(add())
        assert (failure.kind, failure.evidence) == (FailureKind.TLS, Evidence.NOT_SENT)


def test_unreadable_authority_file_is_a_tls_failure(client_of: Make, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        found = settings(
            f"https://localhost:{server.port}", tls=TlsSettings(ca_file=tmp_path / "none.pem")
        )
        failure = client_of(found).failure(add())
        assert (failure.kind, failure.evidence) == (FailureKind.TLS, Evidence.NOT_SENT)


def test_client_certificate_is_shown(client_of: Make, authority: Authority) -> None:
    tls = authority.server("localhost", client_ca=authority)
    with ScriptedServer(tls=tls) as server:
        client_of(settings(server.url, tls=authority.client())).value(FIND)


def test_missing_client_certificate_is_a_tls_failure(client_of: Make, authority: Authority) -> None:
    tls = authority.server("localhost", client_ca=authority)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2  # later versions tell only after the request
    with ScriptedServer(tls=tls) as server:
        found = settings(server.url, tls=TlsSettings(ca_file=authority.ca_file))
        failure = client_of(found).failure(FIND)
        assert (failure.kind, failure.evidence) == (FailureKind.TLS, Evidence.NOT_SENT)


def test_client_certificate_refused_after_the_handshake_is_read_again(
    client_of: Make, authority: Authority, tmp_path: Path
) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Authority(other_folder)
    tls = authority.server("localhost", client_ca=other)
    with ScriptedServer(tls=tls) as server:
        shown = authority.client()
        client = client_of(settings(server.url, tls=shown))
        # The server resets the connection; whether its reason arrives before is a matter of luck.
        kinds = {client.failure(FIND).kind for _ in range(5)}
        assert FailureKind.TLS in kinds
        assert kinds <= {FailureKind.TLS, FailureKind.RESET}
        accepted = other.client()
        for old, new in (
            (shown.client_cert_file, accepted.client_cert_file),
            (shown.client_key_file, accepted.client_key_file),
        ):
            assert old is not None
            assert new is not None
            old.write_bytes(new.read_bytes())
        answers = [client.send(FIND) for _ in range(5)]
        assert isinstance(answers[-1], Success)


def test_rotated_authority_is_picked_up_after_one_failure(
    client_of: Make, authority: Authority, tmp_path: Path
) -> None:
    rotated_folder = tmp_path / "new"
    rotated_folder.mkdir()
    rotated = Authority(rotated_folder)
    with (
        ScriptedServer(tls=authority.server("localhost")) as old,
        ScriptedServer(tls=rotated.server("localhost")) as new,
    ):
        trust = TlsSettings(ca_file=authority.ca_file)
        client_of(settings(old.url, tls=trust)).value(FIND)
        client = client_of(settings(new.url, tls=trust))
        assert client.failure(FIND).kind is FailureKind.TLS
        authority.ca_file.write_bytes(rotated.ca_file.read_bytes())
        client.value(FIND)


# -- silence ----------------------------------------------------------------------------------


def test_http_libraries_log_nothing_of_ours(
    client_of: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), ScriptedServer() as server:
        client = client_of(settings(server.url))
        client.value(FIND)
        server.script(Rule(on="any", do="reset"))
        client.failure(FIND)
        server.script(Rule(on="any", do="refuse"))
        client.failure(FIND)
    assert [r for r in caplog.records if r.name.startswith(("httpcore", "httpx"))] == []


def test_http_libraries_of_the_host_log_as_before(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), ScriptedServer() as server:
        client = SyncClient(settings(server.url))
        client.value(FIND)
        client.close()
        httpx.get(f"{server.url}/health", trust_env=False)
    names = {record.name for record in caplog.records}
    assert {"httpx", "httpcore.connection", "httpcore.http11"} <= names


def test_failures_carry_no_text_of_the_server(client_of: Make) -> None:
    with ScriptedServer(Rule(on="any", do="status", code=500, echo=True)) as server:
        told = repr(client_of(settings(server.url)).failure(add("SECRET-TEXT")))
        assert "SECRET-TEXT" not in told
        assert KEY not in told


def test_http_spans_can_be_put_around_the_transport() -> None:
    with ScriptedServer() as server:
        found = settings(server.url)
        threads = HttpxMemoryServer(found, key=lambda: KEY, wrap=SyncOpenTelemetryTransport)
        assert isinstance(threads.send(attempt(FIND)), Success)
        threads.close()
        loops = AsyncHttpxMemoryServer(found, key=lambda: KEY, wrap=AsyncOpenTelemetryTransport)

        async def once() -> Any:
            answer = await loops.send(attempt(FIND))
            await loops.aclose()
            return answer

        assert isinstance(asyncio.run(once()), Success)


def test_every_phase_is_bounded_by_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, float]] = []
    honest = httpcore.ConnectionPool.handle_request

    def spy(pool: Any, request: httpcore.Request) -> Any:
        seen.append(dict(request.extensions["timeout"]))
        return honest(pool, request)

    monkeypatch.setattr(httpcore.ConnectionPool, "handle_request", spy)
    with ScriptedServer() as server:
        found = settings(server.url, timeouts=TimeoutSettings(connect_s=0.2))
        client = SyncClient(found)
        client.value(FIND, 0.5)
        client.close()
    (phases,) = seen
    assert set(phases) == {"connect", "read", "write", "pool"}
    assert phases["connect"] == 0.2
    assert all(0 <= value <= 0.5 for value in phases.values())


def test_descriptors_do_not_grow_with_failures(client_of: Make) -> None:
    with ScriptedServer(Rule(on="any", do="reset")) as server:
        client = client_of(settings(server.url))
        client.failure(FIND)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(30):
            client.failure(FIND)
        server.drop_connections()
        assert len(os.listdir("/proc/self/fd")) <= before + 2
