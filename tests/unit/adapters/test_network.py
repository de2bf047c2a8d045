"""Socket steps and their drivers, on socket pairs: nothing connects anywhere."""

import asyncio
import socket
import ssl
from collections.abc import Generator, Iterator
from typing import Any, cast

import httpcore
import pytest

from resilient_ov.adapters import network
from resilient_ov.adapters.network import AsyncStream, SyncStream
from resilient_ov.adapters.socket_steps import (
    Need,
    connect_steps,
    handshake_steps,
    receive_steps,
    send_steps,
)
from resilient_ov.adapters.sockets import Channel, SocketRegistry, TimeUp, TlsError
from resilient_ov.adapters.tls import TlsContexts
from resilient_ov.adapters.wire_attempt import WireAttempt, current_attempt, entered
from resilient_ov.settings import TlsSettings


class Clock:
    """Stands still; ``tick_s`` passes at each reading."""

    def __init__(self, *, tick_s: float = 0.0) -> None:
        self.now_s = 100.0
        self.tick_s = tick_s

    def __call__(self) -> float:
        self.now_s += self.tick_s
        return self.now_s


class FakeSocket:
    """Answers each call with the next scripted result, or raises it."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.sent: list[bytes] = []

    def _next(self) -> Any:
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    def send(self, data: memoryview) -> int:
        sent = cast("int", self._next())
        self.sent.append(bytes(data[:sent]))
        return sent

    def recv(self, _size: int) -> bytes:
        return cast("bytes", self._next())

    def do_handshake(self) -> None:
        self._next()

    def connect_ex(self, _address: object) -> int:
        return cast("int", self._next())

    def getsockopt(self, *_: object) -> int:
        return cast("int", self._next())


def needs(steps: Generator[Need, None, Any]) -> tuple[list[Need], Any]:
    """Run steps as if every wait succeeded; return the waits and the result."""
    waits: list[Need] = []
    while True:
        try:
            waits.append(next(steps))
        except StopIteration as done:
            return waits, done.value


def fake(*results: object) -> Any:
    return FakeSocket(*results)


# -- steps ------------------------------------------------------------------------------------


def test_send_goes_on_where_the_socket_stopped() -> None:
    sock = fake(2, BlockingIOError(), 1, 3)
    waits, _ = needs(send_steps(sock, b"abcdef", lambda: None))
    assert sock.sent == [b"ab", b"c", b"def"]
    assert waits == [Need.WRITABLE]


def test_nothing_is_written_after_the_check_says_no() -> None:
    sock = fake(2, BlockingIOError(), 2, 2)
    checks = iter([True, True, True, False])

    def check() -> None:
        if not next(checks):
            raise TimeoutError

    with pytest.raises(TimeoutError):
        needs(send_steps(sock, b"abcdef", check))
    assert sock.sent == [b"ab", b"cd"]


def test_large_data_is_written_in_pieces() -> None:
    sock = fake(65_536, 65_536, 10)
    needs(send_steps(sock, bytes(65_536 * 2 + 10), lambda: None))
    assert [len(piece) for piece in sock.sent] == [65_536, 65_536, 10]


def test_tls_may_need_the_other_direction() -> None:
    assert needs(send_steps(fake(ssl.SSLWantReadError(), 1), b"a", lambda: None))[0] == [
        Need.READABLE
    ]
    received = needs(receive_steps(fake(ssl.SSLWantWriteError(), b"x"), 10))
    assert received == ([Need.WRITABLE], b"x")


def test_receive_waits_until_something_is_there() -> None:
    found = needs(receive_steps(fake(BlockingIOError(), ssl.SSLWantReadError(), b"x"), 10))
    assert found == ([Need.READABLE, Need.READABLE], b"x")


def test_handshake_is_checked_before_each_flight() -> None:
    sock = fake(ssl.SSLWantReadError(), ssl.SSLWantWriteError(), None)
    checks: list[int] = []
    waits, _ = needs(handshake_steps(sock, lambda: checks.append(1)))
    assert waits == [Need.READABLE, Need.WRITABLE]
    assert len(checks) == 3


def test_connect_waits_for_its_outcome() -> None:
    assert needs(connect_steps(fake(115, 0), ("10.0.0.1", 1))) == ([Need.WRITABLE], None)
    assert needs(connect_steps(fake(0), ("10.0.0.1", 1))) == ([], None)


@pytest.mark.parametrize("results", [(111,), (115, 111)])
def test_refused_connect_is_an_error(results: tuple[int, ...]) -> None:
    with pytest.raises(ConnectionRefusedError):
        needs(connect_steps(fake(*results), ("10.0.0.1", 1)))


# -- the attempt ------------------------------------------------------------------------------


def test_phase_and_deadline_the_earlier_one_wins() -> None:
    attempt = WireAttempt(110.0, Clock())
    assert attempt.until_s(2.0) == 102.0
    assert attempt.until_s(20.0) == 110.0
    assert attempt.until_s(None) == 110.0


def test_attempt_expires_at_its_deadline() -> None:
    clock = Clock()
    attempt = WireAttempt(100.5, clock)
    assert not attempt.expired
    clock.now_s = 100.5
    assert attempt.expired


def test_wire_time_begins_with_the_first_write() -> None:
    clock = Clock()
    attempt = WireAttempt(110.0, clock)
    assert (attempt.sent, attempt.wire_s) == (False, 0.0)
    attempt.note_write()
    clock.now_s += 1.5
    attempt.note_write()
    clock.now_s += 1.0
    assert (attempt.sent, attempt.wire_s) == (True, 2.5)


def test_reads_tell_bytes_from_the_end() -> None:
    attempt = WireAttempt(110.0, Clock())
    attempt.note_read(b"")
    assert (attempt.byte_received, attempt.peer_closed) == (False, True)
    attempt.note_read(b"x")
    assert attempt.byte_received


def test_attempt_is_current_inside_its_step_only() -> None:
    attempt = WireAttempt(110.0, Clock())
    with entered(attempt):
        assert current_attempt() is attempt
    assert current_attempt() is None


# -- streams ----------------------------------------------------------------------------------


class Pair:
    """A stream of each colour on one end of a pair, and the other end."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.settimeout(0)
        self.registry = SocketRegistry()
        self.registry.add(self.near)

    def channel(self, clock: Any) -> Channel:
        return Channel(self.near, self.registry, clock)

    def sync(self, clock: Any) -> SyncStream:
        return SyncStream(self.channel(clock), TlsContexts(TlsSettings()), 0.0)

    def colour_async(self, clock: Any) -> AsyncStream:
        return AsyncStream(self.channel(clock), TlsContexts(TlsSettings()), 0.0)


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.near.close()
    found.far.close()


def test_sync_stream_reads_and_writes(pair: Pair) -> None:
    stream = pair.sync(Clock())
    stream.write(b"hello", 1.0)
    assert pair.far.recv(10) == b"hello"
    pair.far.send(b"world")
    assert stream.read(10, 1.0) == b"world"


def test_async_stream_reads_and_writes(pair: Pair) -> None:
    async def scenario() -> None:
        stream = pair.colour_async(Clock())
        await stream.write(b"hello", 1.0)
        pair.far.send(b"world")
        assert await stream.read(10, 1.0) == b"world"

    asyncio.run(scenario())
    assert pair.far.recv(10) == b"hello"


def test_async_stream_waits_for_bytes(pair: Pair) -> None:
    async def scenario() -> bytes:
        reading = asyncio.create_task(pair.colour_async(Clock()).read(10, 5.0))
        await asyncio.sleep(0)
        pair.far.send(b"late")
        return await reading

    assert asyncio.run(scenario()) == b"late"


def test_silence_ends_with_the_phase(pair: Pair) -> None:
    clock = Clock(tick_s=0.4)
    with pytest.raises(httpcore.ReadTimeout):
        pair.sync(clock).read(10, 0.001)

    async def scenario() -> None:
        await pair.colour_async(clock).read(10, 0.001)

    with pytest.raises(httpcore.ReadTimeout):
        asyncio.run(scenario())


def test_nothing_is_written_after_the_deadline(pair: Pair) -> None:
    attempt = WireAttempt(100.0, Clock())
    with entered(attempt), pytest.raises(httpcore.WriteTimeout):
        pair.sync(Clock()).write(b"late", 5.0)
    assert not attempt.sent

    async def scenario() -> None:
        with entered(attempt):
            await pair.colour_async(Clock()).write(b"late", 5.0)

    with pytest.raises(httpcore.WriteTimeout):
        asyncio.run(scenario())
    pair.far.settimeout(0)
    with pytest.raises(BlockingIOError):
        pair.far.recv(1)


def test_a_process_that_wakes_up_late_sends_no_further_byte(pair: Pair) -> None:
    clock = Clock(tick_s=1.0)
    attempt = WireAttempt(105.0, clock)
    with entered(attempt), pytest.raises(httpcore.WriteTimeout):
        pair.sync(clock).write(bytes(50_000_000), 60.0)
    pair.near.close()
    received = 0
    while data := pair.far.recv(1_000_000):
        received += len(data)
    assert 0 < received < 50_000_000


def test_a_write_is_evidence_and_hands_over_its_socket(pair: Pair) -> None:
    attempt = WireAttempt(110.0, Clock())
    with entered(attempt):
        pair.sync(Clock()).write(b"x", 1.0)
    assert attempt.sent
    attempt.close_socket()
    assert pair.near.fileno() == -1
    assert len(pair.registry) == 0


def test_end_of_the_peer_is_seen(pair: Pair) -> None:
    attempt = WireAttempt(110.0, Clock())
    pair.far.close()
    with entered(attempt):
        assert pair.sync(Clock()).read(10, 1.0) == b""
    assert attempt.peer_closed


def test_broken_connection_has_the_pools_name(pair: Pair) -> None:
    pair.far.close()
    stream = pair.sync(Clock())
    with pytest.raises(httpcore.WriteError) as caught:
        stream.write(b"x", 1.0)
    assert str(caught.value) == ""
    pair.near.close()
    with pytest.raises(httpcore.ReadError):
        stream.read(1, 1.0)


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (TimeoutError(), httpcore.ReadTimeout),
        (TimeoutError(110, "the kernel gave up"), httpcore.ReadError),
        (ssl.SSLError("alert"), TlsError),
        (ssl.SSLCertVerificationError("expired"), TlsError),
        (ConnectionResetError(104, "reset"), httpcore.ReadError),
        (TimeUp(), httpcore.ReadTimeout),
    ],
)
def test_errors_are_named_without_their_text(raised: Exception, named: type[Exception]) -> None:
    with (
        pytest.raises(named) as caught,
        network._named(httpcore.ReadTimeout, httpcore.ReadError),
    ):
        raise raised
    assert type(caught.value) is named
    assert caught.value.args == ()
    assert caught.value.__cause__ is None


def test_readable_means_that_an_idle_connection_is_over(pair: Pair) -> None:
    stream = pair.sync(Clock())
    assert stream.get_extra_info("is_readable") is False
    pair.far.close()
    assert stream.get_extra_info("is_readable") is True
    assert stream.get_extra_info("socket") is pair.near
    assert stream.get_extra_info("ssl_object") is None
    assert stream.get_extra_info("client_addr") is None
    stream.close()
    assert stream.get_extra_info("is_readable") is True


def test_registry_cuts_and_closes(pair: Pair) -> None:
    pair.registry.cut_all()
    assert pair.far.recv(1) == b""
    pair.registry.close_all()
    assert pair.near.fileno() == -1
    pair.registry.cut_all()
    assert len(pair.registry) == 0


def test_registry_cuts_what_was_never_connected() -> None:
    registry = SocketRegistry()
    sock = socket.socket()
    registry.add(sock)
    registry.cut_all()
    registry.close(sock)
    assert sock.fileno() == -1
