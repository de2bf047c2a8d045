"""One stage for the whole run: a real Toxiproxy, an embedded server, a seed that is printed.

Without Toxiproxy everything that needs it is skipped, naming what would provide it; under
``STRICT=1`` it fails.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from resilient_ov_chaos.knobs import PACES, Knobs
from resilient_ov_chaos.runner import fresh_seed
from resilient_ov_chaos.suite import Suite, suite
from resilient_ov_chaos.targets.embedded import embedded
from resilient_ov_chaos.toxiproxy.link import Toxiproxy
from resilient_ov_chaos.toxiproxy.server import ToolMissingError, toxiproxy

SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--chaos-seed", type=int, help="seed of the traffic; new each time without it")
    group.addoption("--chaos-out", type=Path, help="where everything is kept; else a passing place")
    group.addoption("--chaos-pace", choices=sorted(PACES), default="quick", help="how fast it goes")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SEED] = config.getoption("--chaos-seed") or fresh_seed()


def pytest_report_header(config: pytest.Config) -> str:
    return f"chaos: seed {config.stash[SEED]}, pace {config.getoption('--chaos-pace')}"


@pytest.fixture(scope="session")
def toxiproxy_server() -> Iterator[Toxiproxy]:
    try:
        with toxiproxy() as server:
            yield server
    except ToolMissingError as missing:
        if os.environ.get("STRICT", "") not in {"", "0"}:
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def knobs(request: pytest.FixtureRequest) -> Knobs:
    return PACES[request.config.getoption("--chaos-pace")]


@pytest.fixture(scope="session")
def out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return request.config.getoption("--chaos-out") or tmp_path_factory.mktemp("chaos")


@pytest.fixture(scope="session")
def stage(
    request: pytest.FixtureRequest, toxiproxy_server: Toxiproxy, knobs: Knobs, out: Path
) -> Iterator[Suite]:
    seed = request.config.stash[SEED]
    with (
        embedded(out / "server") as target,
        suite(target, knobs, out, seed=seed, toxiproxy_url=toxiproxy_server.url) as made,
    ):
        yield made
