"""Colours of the memory server, closed after each test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.faulty import COLOURS, Client


@pytest.fixture(params=["sync", "async"])
def client_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Make a client of the colour under test from settings; see ``Client``."""
    made: list[Client] = []

    def make(*args: Any, **rest: Any) -> Client:
        made.append(COLOURS[request.param](*args, **rest))
        return made[-1]

    yield make
    for client in made:
        client.close()
