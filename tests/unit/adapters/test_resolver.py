"""Bounded name look-ups, with a scripted resolver and a clock moved by hand."""

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from resilient_ov.adapters.resolver import (
    CACHE_S,
    JOIN_S,
    SLOTS,
    Address,
    LookupFailedError,
    Resolver,
)

HOST, PORT = "memory.internal", 1933
ONE = Address(socket.AF_INET, ("10.0.0.1", PORT))
TWO = Address(socket.AF_INET, ("10.0.0.2", PORT))
SOON_S = 5.0
"""A real wait that never ends early and is only spent when a test fails."""


def row(address: Address) -> tuple[Any, ...]:
    return (address.family, socket.SOCK_STREAM, 6, "", address.sockaddr)


class Names:
    """A resolver that answers as told; while ``held`` its look-ups hang."""

    def __init__(self, *addresses: Address) -> None:
        self.addresses = list(addresses)
        self.error: Exception | None = None
        self.asked: list[tuple[str, int]] = []
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Semaphore(0)

    def __call__(self, host: str, port: int) -> Sequence[tuple[Any, ...]]:
        self.asked.append((host, port))
        self.begun.release()
        assert self.open.wait(SOON_S)
        if self.error is not None:
            raise self.error
        return [row(address) for address in self.addresses]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Case:
    def __init__(self, *addresses: Address) -> None:
        self.names = Names(*addresses)
        self.clock = Clock()
        self.resolver = Resolver(now=self.clock, lookup=self.names)

    def look_up(self, *, wait_s: float = SOON_S) -> tuple[Address, ...]:
        return self.resolver.addresses(HOST, PORT, self.clock.now_s + wait_s)

    def hang(self) -> None:
        """Begin a look-up that does not end by itself and is not waited for."""
        self.names.open.clear()
        with pytest.raises(TimeoutError):
            self.look_up(wait_s=0.0)
        assert self.names.begun.acquire(timeout=SOON_S)


@pytest.fixture
def case() -> Case:
    return Case(ONE, TWO)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a thread to get there, without a sleep."""
    waited = threading.Event()
    for _ in range(500):
        if condition():
            return
        waited.wait(0.01)
    pytest.fail("did not happen")


def test_addresses_are_kept(case: Case) -> None:
    assert case.look_up() == (ONE, TWO)
    assert case.look_up() == (ONE, TWO)
    assert case.names.asked == [(HOST, PORT)]


def test_addresses_are_looked_up_again_after_a_minute(case: Case) -> None:
    case.look_up()
    case.clock.now_s += CACHE_S - 0.001
    case.look_up()
    assert len(case.names.asked) == 1
    case.clock.now_s += 0.001
    case.names.addresses = [TWO]
    assert case.look_up() == (TWO,)


def test_the_last_good_address_comes_first(case: Case) -> None:
    case.look_up()
    case.resolver.worked(HOST, PORT, TWO)
    assert case.look_up() == (TWO, ONE)


def test_a_connect_failure_drops_what_is_known(case: Case) -> None:
    case.look_up()
    case.resolver.failed(HOST, PORT)
    case.names.addresses = [TWO]
    assert case.look_up() == (TWO,)


def test_feedback_about_an_unknown_host_changes_nothing(case: Case) -> None:
    case.resolver.worked(HOST, PORT, TWO)
    case.resolver.failed(HOST, PORT)
    assert case.look_up() == (ONE, TWO)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", Address(socket.AF_INET, ("127.0.0.1", PORT))),
        ("::1", Address(socket.AF_INET6, ("::1", PORT, 0, 0))),
    ],
)
def test_a_numeric_host_is_not_looked_up(case: Case, host: str, address: Address) -> None:
    assert case.resolver.addresses(host, PORT, 0.0) == (address,)
    assert case.names.asked == []


def test_a_failed_lookup_is_told_without_its_text_and_not_kept(case: Case) -> None:
    case.names.error = socket.gaierror(8, "secret.internal not known")
    with pytest.raises(LookupFailedError, match=r"^the name cannot be resolved$"):
        case.look_up()
    case.names.error = None
    assert case.look_up() == (ONE, TWO)


def test_a_name_that_is_no_name_is_a_failed_lookup(case: Case) -> None:
    case.names.error = UnicodeError("label too long")
    with pytest.raises(LookupFailedError):
        case.look_up()


def test_a_name_without_addresses_is_a_failed_lookup() -> None:
    with pytest.raises(LookupFailedError, match=r"no address"):
        Case().look_up()


def test_repeated_addresses_are_tried_once() -> None:
    assert Case(ONE, ONE, TWO).look_up() == (ONE, TWO)


def test_the_wait_ends_although_the_lookup_does_not(case: Case) -> None:
    case.hang()
    case.names.open.set()
    until(lambda: case.look_up(wait_s=0.1) == (ONE, TWO))


def test_callers_share_a_young_lookup(case: Case) -> None:
    case.hang()
    case.clock.now_s += JOIN_S
    with pytest.raises(TimeoutError):
        case.look_up(wait_s=0.0)
    assert len(case.names.asked) == 1
    case.names.open.set()


def test_an_old_lookup_is_not_trusted_to_end(case: Case) -> None:
    case.hang()
    case.clock.now_s += JOIN_S + 0.001
    with pytest.raises(TimeoutError):
        case.look_up(wait_s=0.0)
    assert case.names.begun.acquire(timeout=SOON_S)
    assert len(case.names.asked) == 2
    case.names.open.set()


def test_no_more_lookups_hang_than_there_are_slots(case: Case) -> None:
    for _ in range(SLOTS + 3):
        case.names.open.clear()
        with pytest.raises(TimeoutError):
            case.look_up(wait_s=0.0)
        case.clock.now_s += JOIN_S + 1
    until(lambda: len(case.names.asked) == SLOTS)
    with pytest.raises(LookupFailedError, match=r"slots"):
        case.resolver.addresses("other.internal", PORT, case.clock.now_s)
    case.names.open.set()


def test_slots_come_back(case: Case) -> None:
    for _ in range(SLOTS):
        case.hang()
        case.clock.now_s += JOIN_S + 1
    case.names.open.set()

    def another_host_is_found() -> bool:
        try:
            found = case.resolver.addresses("other.internal", PORT, case.clock.now_s + SOON_S)
        except LookupFailedError:
            return False
        return found == (ONE, TWO)

    until(another_host_is_found)


def test_a_forked_child_does_not_wait_for_its_parents_threads(case: Case) -> None:
    case.hang()
    case.resolver.renew()
    case.names.open.set()
    assert case.look_up() == (ONE, TWO)
    assert len(case.names.asked) == 2


def test_the_loop_gets_the_same_answers(case: Case) -> None:
    async def both() -> list[tuple[Address, ...]]:
        end_s = case.clock.now_s + SOON_S
        found = [await case.resolver.addresses_async(HOST, PORT, end_s) for _ in range(2)]
        return [*found, await case.resolver.addresses_async("127.0.0.1", PORT, 0.0)]

    named, kept, numeric = asyncio.run(both())
    assert named == kept == (ONE, TWO)
    assert numeric[0].sockaddr == ("127.0.0.1", PORT)


def test_the_loop_is_not_held_by_a_hanging_lookup(case: Case) -> None:
    case.names.open.clear()

    async def wait() -> None:
        await case.resolver.addresses_async(HOST, PORT, case.clock.now_s + 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
    case.names.open.set()


def test_a_lookup_may_end_after_its_loop(case: Case) -> None:
    case.names.open.clear()

    async def give_up() -> None:
        await case.resolver.addresses_async(HOST, PORT, case.clock.now_s)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    case.names.open.set()
    until(lambda: case.look_up() == (ONE, TWO))


def test_the_system_is_asked_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        return [row(ONE)] if host == HOST else []

    monkeypatch.setattr(socket, "getaddrinfo", told)
    resolver = Resolver(now=Clock())
    assert resolver.addresses(HOST, PORT, 1000.0 + SOON_S) == (ONE,)
