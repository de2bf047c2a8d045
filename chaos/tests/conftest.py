"""A real Toxiproxy server for the whole run; without one everything that needs it is skipped."""

from collections.abc import Iterator

import pytest

from resilient_ov_chaos.toxiproxy.link import Toxiproxy
from resilient_ov_chaos.toxiproxy.server import ToolMissingError, toxiproxy


@pytest.fixture(scope="session")
def toxiproxy_server() -> Iterator[Toxiproxy]:
    try:
        with toxiproxy() as server:
            yield server
    except ToolMissingError as missing:
        pytest.skip(str(missing))
