"""Finds the addresses of a host within a bounded time, on own threads.

Rule: the caller never waits past its time; a lookup that hangs is left to itself (the system call
cannot be interrupted) and holds one of four slots until it ends.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.offload import Offload, arrival

SLOTS = 4
CACHE_S = 60.0
JOIN_S = 1.0
"""A lookup that runs for longer than this is not joined while a slot is free: it may be stuck on a
name server that is back by now."""

Lookup = Callable[[str, int], Sequence[tuple[Any, ...]]]


class LookupFailedError(OSError):
    """The name has no address, or no resolver slot was free."""


@dataclass(frozen=True, slots=True)
class Address:
    """A numeric address: socket family and what ``connect`` takes."""

    family: int
    sockaddr: tuple[Any, ...]


@dataclass(slots=True)
class _Known:
    addresses: tuple[Address, ...]
    until_s: float


@dataclass(frozen=True, slots=True)
class _Running:
    ticket: "Future[tuple[Address, ...]]"
    since_s: float


class Resolver:
    """Names to addresses, kept for at most 60 s; safe from any thread, loop and after ``fork``.

    Args:
        now: monotonic seconds.
        lookup: ``(host, port) -> getaddrinfo rows``; None = the system's, looked up at each call.

    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, lookup: Lookup | None = None
    ) -> None:
        self._now = now
        self._lookup: Lookup = lookup or _system_lookup
        self._threads = Offload("resilient-ov-dns", SLOTS)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], _Known] = {}
        self._running: dict[tuple[str, int], _Running] = {}
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget lookups of the parent's threads."""
        self._lock = threading.Lock()
        self._running = {}

    def addresses(self, host: str, port: int, until_s: float) -> tuple[Address, ...]:
        """Return at least one address, the last good one first; blocks until ``until_s``.

        Raises:
            TimeoutError: the lookup did not end in time.
            LookupFailedError: there is no address, or no slot.

        """
        found = self._at_hand(host, port)
        if isinstance(found, tuple):
            return found
        return found.result(max(0.0, until_s - self._now()))

    async def addresses_async(self, host: str, port: int, until_s: float) -> tuple[Address, ...]:
        """Do the same on the running loop, without blocking it."""
        found = self._at_hand(host, port)
        if isinstance(found, tuple):
            return found
        return await arrival(found, max(0.0, until_s - self._now()))

    def worked(self, host: str, port: int, address: Address) -> None:
        """Put an address that was connected to in front of the others."""
        with self._lock:
            known = self._known.get((host, port))
            if known is not None and known.addresses[0] != address:
                others = tuple(other for other in known.addresses if other != address)
                known.addresses = (address, *others)

    def failed(self, host: str, port: int) -> None:
        """Drop what is known of a host: it may have moved."""
        with self._lock:
            self._known.pop((host, port), None)

    def _at_hand(self, host: str, port: int) -> "tuple[Address, ...] | Future[tuple[Address, ...]]":
        literal = _literal(host, port)
        if literal is not None:
            return (literal,)
        key = (host, port)
        with self._lock:
            now_s = self._now()
            known = self._known.get(key)
            if known is not None and now_s < known.until_s:
                return known.addresses
            running = self._running.get(key)
            if running is not None and now_s - running.since_s <= JOIN_S:
                return running.ticket
            ticket = self._threads.start(lambda: self._look_up(key))
            if ticket is None:
                if running is not None:
                    return running.ticket
                raise LookupFailedError("all resolver slots are busy")
            self._running[key] = _Running(ticket, now_s)
        ticket.add_done_callback(lambda done: self._ended(key, done))
        return ticket

    def _look_up(self, key: tuple[str, int]) -> tuple[Address, ...]:
        try:
            rows = self._lookup(*key)
        except (OSError, UnicodeError):
            raise LookupFailedError("the name cannot be resolved") from None
        found = tuple(dict.fromkeys(Address(int(row[0]), tuple(row[4])) for row in rows))
        if not found:
            raise LookupFailedError("the name has no address")
        with self._lock:
            self._known[key] = _Known(found, self._now() + CACHE_S)
        return found

    def _ended(self, key: tuple[str, int], ticket: "Future[tuple[Address, ...]]") -> None:
        with self._lock:
            running = self._running.get(key)
            if running is not None and running.ticket is ticket:
                del self._running[key]


def _system_lookup(host: str, port: int) -> Sequence[tuple[Any, ...]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _literal(host: str, port: int) -> Address | None:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    if version == 4:
        return Address(socket.AF_INET, (host, port))
    return Address(socket.AF_INET6, (host, port, 0, 0))
