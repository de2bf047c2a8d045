"""The wheel as its users meet it: what is in it, what it pulls, what it changes, what it runs on.

Everything here builds and installs into throw-away environments, away from the source tree.
Without a package registry these tests are skipped by name.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.architecture.sources import ROOT, SOURCE_ROOTS, modules

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

# What DeerFlow's lock file fixes of the packages that we use too (harness 2.1.0).
DEERFLOW_PINS = [
    "httpx==0.28.1",
    "httpcore==1.0.9",
    "anyio==4.13.0",
    "pydantic==2.13.3",
    "structlog==25.5.0",
    "starlette==1.3.1",
    "uvicorn==0.46.0",
    "click==8.3.3",
    "rich==15.0.0",
    "tenacity==9.1.4",
    "opentelemetry-api==1.41.1",
    "opentelemetry-sdk==1.41.1",
    "opentelemetry-instrumentation==0.62b1",
    "typing-extensions==4.15.0",
]
# Servers, plots and test tools: none may come with a plain install.
NOT_PLAIN = {
    "starlette",
    "uvicorn",
    "matplotlib",
    "numpy",
    "psycopg",
    "toxiproxy-python",
    "pytest",
    "hypothesis",
    "grafana-foundation-sdk",
    "promql-parser",
    "opentelemetry-sdk",
}
NEEDS_AN_EXTRA = (
    "resilient_ov.embedded",
    "resilient_ov_chaos",
    "resilient_ov_manager.recall_plot",
    "resilient_ov_grafana.dashboards",
    "resilient_ov_grafana.generate",
)
NO_NETWORK = re.compile(r"error sending request|Failed to fetch|dns error|tcp connect error", re.I)


def clean_environment() -> dict[str, str]:
    """This process's, without what would lead a child back into this tree or its coverage."""
    dropped = ("COVERAGE_", "PYTHON", "PYTEST_", "VIRTUAL_ENV", "STRICT")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def uv(*arguments: str | Path) -> str:
    command = [find_uv_bin(), *map(str, arguments), "--no-progress"]
    run = subprocess.run(
        command, capture_output=True, text=True, env=clean_environment(), check=False
    )
    if run.returncode and NO_NETWORK.search(run.stderr):
        pytest.skip(f"packages cannot be fetched: {run.stderr.strip().splitlines()[0]}")
    assert run.returncode == 0, run.stderr
    return run.stdout


class Environment:
    """A virtual environment of this interpreter's version."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        uv("venv", "--quiet", "--python", sys.executable, folder)

    def install(self, *requirements: str | Path) -> None:
        uv("pip", "install", "--quiet", "--python", self.python, *requirements)

    def packages(self) -> dict[str, str]:
        lines = uv("pip", "list", "--python", self.python, "--format", "freeze").splitlines()
        return {name: version for name, _, version in (line.partition("==") for line in lines)}

    def run(self, *arguments: str, cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=cwd, env=clean_environment(), check=False
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist, as a release would be."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    sources = {
        str(path.relative_to(root))
        for package, root in SOURCE_ROOTS.items()
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    version = wheel.name.split("-")[1]
    metadata = {
        f"resilient_ov-{version}.dist-info/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert held == sources | metadata
    assert {name.split("/")[0] for name in held - metadata} == set(SOURCE_ROOTS)


def test_a_plain_install_runs_and_pulls_no_server(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheel)
    assert set(environment.packages()) & NOT_PLAIN == set()
    names = [module.name for module in modules() if not module.name.startswith(NEEDS_AN_EXTRA)]
    imported = environment.run(
        "-I", "-c", f"import importlib; [importlib.import_module(name) for name in {names}]"
    )
    assert imported.returncode == 0, imported.stderr
    script = environment.python.with_name("resilient-ov")
    shown = environment.run("-I", str(script), "--help")
    assert shown.returncode == 0, shown.stderr
    assert "demo" in shown.stdout
    exported = environment.run("-I", str(script), "dashboards", "export", str(tmp_path / "out"))
    assert exported.returncode == 0, exported.stderr
    shipped = ROOT / "grafana" / "resilient_ov_grafana" / "shipped"
    assert contents(tmp_path / "out") == contents(shipped)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_beside_the_hosts_pins_an_install_only_adds(wheel: Path, tmp_path: Path) -> None:
    """No constraint is given: the pins survive because ours ask for nothing newer."""
    environment = Environment(tmp_path / "venv")
    environment.install(*DEERFLOW_PINS)
    before = environment.packages()
    environment.install(wheel)
    after = environment.packages()
    assert {name: after.get(name) for name in before} == before
    assert "resilient-ov" in after.keys() - before.keys()


def test_unit_and_contract_tests_pass_on_the_lowest_versions(wheel: Path, tmp_path: Path) -> None:
    """The lower bounds of pyproject.toml are true, shown with the built wheel."""
    environment = Environment(tmp_path / "venv")
    floors = tmp_path / "floors.txt"
    lowest = ("--resolution", "lowest-direct", "--extra", "dev", "--python", environment.python)
    uv("pip", "compile", "--quiet", ROOT / "pyproject.toml", *lowest, "-o", floors)
    environment.install("-r", floors)
    environment.install("--no-deps", wheel)
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "tests", tree / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for document in [ROOT / "pyproject.toml", *ROOT.glob("*.md")]:
        shutil.copy(document, tree)
    suite = ("tests/unit", "tests/contract", "-q", "-p", "no:cacheprovider")
    run = environment.run("-m", "pytest", *suite, cwd=tree)
    print(run.stdout.splitlines()[-1])
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr
