"""Unit tests own their time and touch no network: sleeping and connecting fail."""

import asyncio
import socket
import time
from typing import Never

import pytest

_asyncio_sleep = asyncio.sleep


def _no_sleep(seconds: float) -> Never:
    pytest.fail(f"a unit test slept {seconds} s: hand in a clock instead")


async def _no_long_sleep(delay: float, result: object = None) -> object:
    if delay > 0:
        _no_sleep(delay)
    return await _asyncio_sleep(0, result)


def _no_network(_self: socket.socket, address: object, *_rest: object) -> Never:
    pytest.fail(f"a unit test used the network ({address}): it belongs to tests/contract")


@pytest.fixture(autouse=True)
def _own_time_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", _no_sleep)
    monkeypatch.setattr(asyncio, "sleep", _no_long_sleep)
    for method in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, method, _no_network)
