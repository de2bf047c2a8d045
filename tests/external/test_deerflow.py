"""Our wheel inside a real DeerFlow: its call sites drive us, and its own memory tests still pass.

The wheel is installed into the environment of the interpreter that is given.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.architecture.sources import ROOT
from tests.external.targets import existing

MANAGER = "resilient_ov_manager:OpenVikingMemoryManager"
# Long and odd, because the check looks for it in every log line.
KEY = "embed-check-key-7f3a"
# What an operator has to write at least; everything else are our defaults.
CONFIG = {
    "backend_config": {"base_url": "{FAKE_URL}", "account": "acme"},
    "env": {"OPENVIKING_API_KEY": KEY},
    "secrets": [KEY],
    "user_id": "alice",
}
# Makes sense for the tool mode only, which is refused.
SKIPPED_BY_DESIGN = {"factory.tool_mode_needs_search"}
# DeerFlow's own, red on its own after some weeks: it calls a fixed day of August 2026 "recent",
# against a half-life of 90 days, and reads the real clock. No code of ours takes part.
DATED = (
    "tests/test_memory_updater.py",
    "test_automatic_update_uses_hybrid_capacity_policy",
)


@dataclass(frozen=True)
class DeerFlow:
    python: Path
    backend: Path
    before: set[str]
    after: set[str]
    environment: dict[str, str]


def installed(python: Path) -> set[str]:
    listed = [find_uv_bin(), "pip", "freeze", "--python", str(python)]
    lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line for line in lines if not re.match(r"(-e file:|resilient-ov\b)", line)}


def backend_of(python: Path) -> Path:
    """The folder that holds DeerFlow's `app` and `tests`, above the installed harness."""
    where = subprocess.run(
        [str(python), "-c", "import deerflow; print(deerflow.__file__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for folder in Path(where.stdout.strip() or "/").parents:
        if (folder / "app" / "gateway").is_dir():
            return folder
    pytest.fail(f"{python} does not import deerflow from a checkout: {where.stderr}", pytrace=False)


@pytest.fixture(scope="session")
def deerflow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DeerFlow:
    advice = "set DeerFlow's backend up as its documentation says and give PYTHON=ENV/bin/python"
    python = existing(request.config, "--deerflow-python", "", advice)
    backend = backend_of(python)
    before = installed(python)
    dist = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [find_uv_bin(), "build", "--quiet", "--out-dir", str(dist), str(ROOT)], check=True
    )
    (wheel,) = dist.glob("*.whl")
    print(f"\ninstalling {wheel.name} into {python.parents[1]}")
    install = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--reinstall-package", "resilient-ov", str(wheel)], check=True)
    home = tmp_path_factory.mktemp("home")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = own | {
        "DEER_FLOW_HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUTF8": "1",
    }
    return DeerFlow(python, backend, before, installed(python), environment)


def test_installing_us_only_adds(deerflow: DeerFlow) -> None:
    print("added:", *sorted(deerflow.after - deerflow.before))
    assert deerflow.before - deerflow.after == set()


def test_the_hosts_call_sites_find_no_fault(
    deerflow: DeerFlow, shared: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    report = tmp_path / "report.json"
    arguments = ["--manager", MANAGER, "--config", config, "--json", report, "--add-s", "3.5"]
    arguments += ["--fake", "ok", "--fake-args", json.dumps({"auth": "trusted", "key": KEY})]
    arguments += ["--multi-user", "--destructive", "--fault", "--exit-check", "--extra"]
    command = [deerflow.python, shared / "deerflow" / "embed_check.py", *arguments]
    run = subprocess.run(list(map(str, command)), env=deerflow.environment, check=False)
    checks = json.loads(report.read_text())["checks"]
    count = {s: sum(c["status"] == s for c in checks) for s in ("PASS", "FAIL", "SKIP")}
    print(count)
    assert [check for check in checks if check["status"] == "FAIL"] == []
    assert {c["check"] for c in checks if c["status"] == "SKIP"} <= SKIPPED_BY_DESIGN
    assert count["PASS"] > 50
    assert run.returncode == 0


def test_the_hosts_own_memory_tests_pass(deerflow: DeerFlow) -> None:
    files = sorted(str(path) for path in (deerflow.backend / "tests").glob("test_*memory*.py"))
    assert len(files) > 10
    name = "::".join(DATED)
    print(f"left out: {name}: it compares a fixed day of August 2026 with today's date")
    left_out = ["--deselect", name]
    arguments = ["-m", "not live", "-q", "-p", "no:cacheprovider", *left_out, *files]
    run = subprocess.run(
        [str(deerflow.python), "-m", "pytest", *arguments],
        cwd=deerflow.backend,
        env=deerflow.environment | {"PYTHONPATH": "."},
        check=False,
    )
    assert run.returncode == 0
