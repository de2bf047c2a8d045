"""Who closes which pool, and who never waits inside one; with pools that do nothing."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import httpcore
import pytest

from resilient_ov.adapters.pools import AsyncPools, NoSlotError, SyncPools
from resilient_ov.adapters.sockets import SocketRegistry


class FakePool:
    def __init__(self, registry: SocketRegistry) -> None:
        self.registry = registry
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


class Case:
    def __init__(self) -> None:
        self.made: list[FakePool] = []
        self.healed = 0
        self.sync = SyncPools(self._sync, slots=2, on_healed=self._healed)
        self.loops = AsyncPools(self._async, slots=2, on_healed=self._healed)

    def _healed(self) -> None:
        self.healed += 1

    def _sync(self, registry: SocketRegistry) -> httpcore.ConnectionPool:
        self.made.append(FakePool(registry))
        return cast("Any", self.made[-1])

    def _async(self, registry: SocketRegistry) -> httpcore.AsyncConnectionPool:
        self.made.append(FakePool(registry))
        return cast("Any", self.made[-1])


@pytest.fixture
def case() -> Case:
    return Case()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def ended(far: socket.socket) -> bool:
    """Whether the other side is gone, without waiting."""
    far.settimeout(0)
    try:
        return far.recv(1) == b""
    except BlockingIOError:
        return False


# -- threads ----------------------------------------------------------------------------------


def test_one_pool_serves_all_uses(case: Case) -> None:
    with case.sync.use() as first, case.sync.use() as second:
        assert first.pool is second.pool
    assert len(case.made) == 1
    assert case.made[0].closed == 0


def test_slots_are_limited_and_come_back(case: Case) -> None:
    with case.sync.slot(0), case.sync.slot(0), pytest.raises(NoSlotError), case.sync.slot(-1):
        pass
    with case.sync.slot(0), case.sync.slot(0):
        pass


def test_poisoned_pool_is_replaced_once_and_closed_by_its_last_user(case: Case) -> None:
    with case.sync.use() as first, case.sync.use() as second:
        case.sync.heal(first)
        case.sync.heal(second)
        with case.sync.use() as fresh:
            assert fresh.pool is not first.pool
        assert case.made[0].closed == 0
    assert [pool.closed for pool in case.made] == [1, 0]
    assert case.healed == 1


def test_closing_waits_for_users_and_cuts_their_connections(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    with case.sync.use() as lease:
        cast("Any", lease.pool).registry.add(near)
        case.sync.close()
        assert case.made[0].closed == 0
        assert ended(far)
    assert case.made[0].closed == 1
    case.sync.close()
    assert case.made[0].closed == 1


def test_idle_pool_is_closed_at_once_and_a_later_use_makes_another(case: Case) -> None:
    with case.sync.use():
        pass
    case.sync.close()
    assert case.made[0].closed == 1
    with case.sync.use():
        pass
    assert len(case.made) == 2


def test_child_starts_with_free_slots_and_without_the_parents_sockets(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    with case.sync.slot(0), case.sync.slot(0), case.sync.use() as lease:
        cast("Any", lease.pool).registry.add(near)
        case.sync.renew()
        assert near.fileno() == -1
        assert ended(far)
        with case.sync.slot(0), case.sync.use() as fresh:
            assert fresh.pool is not lease.pool


def test_forgotten_pools_close_their_sockets(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    with case.sync.use() as lease:
        cast("Any", lease.pool).registry.add(pair[0])
    del case.sync
    gc.collect()
    assert pair[0].fileno() == -1


# -- loops ------------------------------------------------------------------------------------


def test_each_loop_has_its_pool(case: Case) -> None:
    async def used() -> Any:
        async with case.loops.use() as one, case.loops.use() as same:
            assert one.pool is same.pool
            return one.pool

    assert asyncio.run(used()) is not asyncio.run(used())


def test_async_slots_are_limited_and_come_back(case: Case) -> None:
    async def scenario() -> None:
        async with case.loops.slot(0), case.loops.slot(0):
            with pytest.raises(NoSlotError):
                async with case.loops.slot(0.001):
                    pass
        async with case.loops.slot(0), case.loops.slot(0):
            pass

    asyncio.run(scenario())


def test_waiting_task_gets_the_slot_that_is_given_back(case: Case) -> None:
    async def hold(entered: asyncio.Event, leave: asyncio.Event) -> None:
        async with case.loops.slot(1):
            entered.set()
            await leave.wait()

    async def scenario() -> None:
        gates = [(asyncio.Event(), asyncio.Event()) for _ in range(3)]
        tasks = [asyncio.create_task(hold(*gate)) for gate in gates]
        await gates[0][0].wait()
        await gates[1][0].wait()
        assert not gates[2][0].is_set()
        gates[0][1].set()
        await gates[2][0].wait()
        for _, leave in gates:
            leave.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_cancelled_waiters_lose_no_slot(case: Case) -> None:
    async def wait() -> None:
        async with case.loops.slot(5):
            pass

    async def scenario() -> None:
        async with case.loops.slot(0), case.loops.slot(0):
            waiters = [asyncio.create_task(wait()) for _ in range(10)]
            await asyncio.sleep(0)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)
        async with case.loops.slot(0), case.loops.slot(0):
            pass

    asyncio.run(scenario())


def test_poisoned_async_pool_is_replaced_once_and_closed_by_its_last_user(case: Case) -> None:
    async def scenario() -> None:
        async with case.loops.use() as first, case.loops.use() as second:
            await case.loops.heal(first)
            await case.loops.heal(second)
            async with case.loops.use() as fresh:
                assert fresh.pool is not first.pool
            assert case.made[0].closed == 0

    asyncio.run(scenario())
    assert [pool.closed for pool in case.made] == [1, 0]
    assert case.healed == 1


def test_closing_cuts_the_running_loop_only(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair

    async def other() -> None:
        async with case.loops.use():
            pass
        await case.loops.aclose()
        await case.loops.aclose()

    async def scenario() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(near)
            thread = threading.Thread(target=asyncio.run, args=(other(),))
            thread.start()
            thread.join()
            assert not ended(far)
            await case.loops.aclose()
            assert ended(far)
            assert case.made[0].closed == 0
        assert case.made[0].closed == 1

    asyncio.run(scenario())


def test_sockets_of_a_closed_loop_are_closed_when_another_comes(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def use(*sockets: socket.socket) -> None:
        async with case.loops.use() as lease:
            for sock in sockets:
                cast("Any", lease.pool).registry.add(sock)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(use(pair[0]))
    loop.close()
    assert pair[0].fileno() != -1
    asyncio.run(use())
    assert pair[0].fileno() == -1


def test_sockets_of_a_loop_that_vanished_are_closed(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def use() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(pair[0])

    asyncio.run(use())
    gc.collect()
    assert pair[0].fileno() == -1


def test_abandoning_closes_the_sockets_of_idle_loops(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def use() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(pair[0])

    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())
    case.loops.abandon()
    assert pair[0].fileno() == -1
    loop.close()


def test_abandoning_lets_running_loops_tidy_up(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def scenario() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(pair[0])
        await asyncio.get_running_loop().run_in_executor(None, case.loops.abandon)
        assert ended(pair[1])
        for _ in range(3):
            await asyncio.sleep(0)
        assert case.made[0].closed == 1

    asyncio.run(scenario())


def test_child_drops_the_parents_loops(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def scenario() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(pair[0])
            case.loops.renew()
            assert pair[0].fileno() == -1
            async with case.loops.slot(0), case.loops.use() as fresh:
                assert fresh.pool is not lease.pool

    asyncio.run(scenario())


def test_forgotten_async_pools_close_their_sockets(
    case: Case, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def use() -> None:
        async with case.loops.use() as lease:
            cast("Any", lease.pool).registry.add(pair[0])
        del case.loops
        gc.collect()
        assert pair[0].fileno() == -1

    asyncio.run(use())
