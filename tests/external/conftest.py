"""Suites against programs outside this project. They fail, never skip, without their target.

Not collected by a plain `pytest` or `make test`; see `make test-openviking`, `make test-deerflow`.
"""

from pathlib import Path

import pytest

from tests.external.targets import existing


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("targets outside this project")
    group.addoption("--openviking-venv", default="", help="environment with openviking==0.5.2")
    group.addoption("--deerflow-python", default="", help="interpreter that imports deerflow")
    group.addoption("--shared", default="", help="folder with start_openviking.sh, embed_check.py")


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Path:
    advice = "give the folder of documents and recordings as SHARED=..."
    return existing(request.config, "--shared", "openviking/start_openviking.sh", advice)
