"""Who may import whom. Arrows point inwards; each border names its reason where it is not plain."""

import enum
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import Module, module_names, modules, own_imports, reachable

CORE = {"domain", "policy", "settings", "events"}
# domain <- policy <- usecases <- (drivers, adapters, composition); settings are plain values.
MAY_IMPORT = {
    "domain": set[str](),
    "settings": set[str](),
    "policy": {"domain", "settings"},
    "events": {"domain", "policy"},
    "operations": {"domain", "policy"},
    "usecases": {*CORE, "operations"},
    "drivers": {"domain", "usecases"},
    "adapters": {*CORE, "usecases", "drivers"},
    "memory": {*CORE, "operations", "usecases"},
    # The wiring of the use cases knows ports only; the composition root makes the adapters.
    "assembly": {*CORE, "operations", "usecases", "memory"},
    "composition": {*CORE, "operations", "usecases", "drivers", "adapters", "memory", "assembly"},
    "per_process": {*CORE, "memory", "composition"},
    "client": {*CORE, "usecases", "memory", "composition", "per_process", "drivers"},
    # The server for development speaks the wire, so it shares nothing with the client but rules.
    "embedded": {"domain", "settings"},
    "testing": {*CORE, "adapters"},
}
# The public names of the package itself come from anywhere but the servers and test tools.
MAY_IMPORT["__init__"] = set(MAY_IMPORT) - {"embedded", "testing"}

PACKAGES = {
    "resilient_ov": set[str](),
    "resilient_ov_observability": {"resilient_ov"},
    "resilient_ov_manager": {"resilient_ov", "resilient_ov_observability"},
    "resilient_ov_chaos": {"resilient_ov", "resilient_ov_observability", "resilient_ov_manager"},
    # The dashboards know metrics by name only; the terminal is the manager's.
    "resilient_ov_grafana": {"resilient_ov_manager"},
}


def part(name: str) -> str:
    """`policy` for resilient_ov.policy.breaker; `__init__` for the package itself."""
    return name.split(".")[1] if "." in name else "__init__"


def test_every_part_has_its_place() -> None:
    assert {part(module.name) for module in modules("resilient_ov")} <= set(MAY_IMPORT)


@pytest.mark.parametrize("module", modules("resilient_ov"), ids=lambda module: module.name)
def test_parts_import_inwards(module: Module) -> None:
    own = part(module.name)
    wrong = [
        f"{module.where}:{item.line}: {own} imports {target}"
        for target, item in own_imports(module)
        if target.split(".")[0] == "resilient_ov" and part(target) not in {own, *MAY_IMPORT[own]}
    ]
    assert wrong == []


def test_packages_import_inwards() -> None:
    wrong = [
        f"{module.where}:{item.line}: imports {target}"
        for module in modules()
        for target, item in own_imports(module)
        if target.split(".")[0] not in {package(module), *PACKAGES[package(module)]}
    ]
    assert wrong == []


def package(module: Module) -> str:
    return module.name.split(".")[0]


def test_observability_sees_ports_events_and_closed_vocabularies() -> None:
    """Besides ports and events only enums (values of event fields) and our error classes."""
    wrong = []
    for module in modules("resilient_ov_observability"):
        for item in module.imports():
            if item.module.split(".")[0] != "resilient_ov":
                continue
            if item.full.startswith(("resilient_ov.events", "resilient_ov.domain.ports")):
                continue
            if item.full.startswith("resilient_ov.domain.errors"):
                continue
            thing = getattr(importlib.import_module(item.module), item.name or "", None)
            if not (isinstance(thing, type) and issubclass(thing, enum.Enum)):
                wrong.append(f"{module.where}:{item.line}: imports {item.full}")
    assert wrong == []


def importers_of(top_level: str) -> set[str]:
    return {
        module.name
        for module in modules()
        for item in module.imports()
        if item.module.split(".")[0] == top_level
    }


def test_only_the_contract_module_imports_the_host() -> None:
    assert importers_of("deerflow") == {"resilient_ov_manager.contract"}
    assert importers_of("langchain") | importers_of("langchain_core") == set()


def test_nothing_imports_the_servers_own_packages() -> None:
    wrong = [
        f"{module.where}:{item.line}: imports {item.module}"
        for module in modules()
        for item in module.imports()
        if item.module.startswith("openviking")
    ]
    assert wrong == []


def test_the_manager_reaches_no_server_and_no_test_tool() -> None:
    within = (
        "resilient_ov.embedded",
        "resilient_ov.testing",
        "resilient_ov_chaos",
        "resilient_ov_grafana",
    )
    assert [
        name for name in reachable("resilient_ov_manager.manager") if name.startswith(within)
    ] == []


def test_importing_the_manager_loads_no_server() -> None:
    loaded = modules_after("import resilient_ov_manager; resilient_ov_manager.MANAGER_CLASS")
    assert "resilient_ov_manager.manager" in loaded
    unwanted = ("resilient_ov.embedded", "resilient_ov.testing", "starlette", "uvicorn", "sqlite3")
    assert [name for name in loaded if name.startswith(unwanted)] == []


WITHOUT_HOST = {
    "resilient_ov.composition",
    "resilient_ov_manager.host_config",
    "resilient_ov_manager.cli",
}


@pytest.mark.parametrize("first", sorted(WITHOUT_HOST & module_names()))
def test_the_host_is_not_imported_by(first: str, tmp_path: Path) -> None:
    """The host costs up to a minute to import: what runs without it must not load it."""
    (tmp_path / "deerflow").mkdir()
    (tmp_path / "deerflow" / "__init__.py").touch()
    loaded = modules_after(f"import {first}", tmp_path)
    assert first in loaded
    assert "deerflow" not in loaded


def modules_after(code: str, *search: Path) -> list[str]:
    # What is there from the start (coverage measures subprocesses too, and keeps a database).
    start = "import sys; already = set(sys.modules); "
    paths = "".join(f"sys.path.insert(0, {str(folder)!r}); " for folder in search)
    shown = "print(*(name for name in sys.modules if name not in already))"
    command = [sys.executable, "-c", f"{start}{paths}{code}; {shown}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()
