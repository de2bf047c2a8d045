"""The source code as data for the architecture tests: modules, imports, strings.

Rule: it reads files and runs nothing.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = {
    "resilient_ov": ROOT,
    "resilient_ov_manager": ROOT / "manager",
    "resilient_ov_observability": ROOT / "observability",
    "resilient_ov_chaos": ROOT / "chaos",
    "resilient_ov_grafana": ROOT / "grafana",
}


@dataclass(frozen=True)
class Import:
    """One imported thing: `module` as written, `name` what was taken from it (None = all of it)."""

    module: str
    name: str | None
    line: int

    @property
    def full(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""

    def imports(self) -> Iterator[Import]:
        """Every import, also those inside functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, None, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.where}:{node.lineno}: relative import"
                for alias in node.names:
                    yield Import(node.module or "", alias.name, node.lineno)

    def strings(self) -> Iterator[tuple[str, int]]:
        """Every string in the code with its line, docstrings left out."""
        told = {
            id(first.value)
            for node in ast.walk(self.tree)
            if isinstance(body := getattr(node, "body", None), list) and body
            for first in body
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        }
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in told
            ):
                yield node.value, node.lineno


@cache
def modules(prefix: str = "") -> tuple[Module, ...]:
    """All modules of the distribution whose name is `prefix` or lies below it, sorted."""
    found = []
    for package, root in SOURCE_ROOTS.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not prefix or name == prefix or name.startswith(f"{prefix}."):
                found.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))))
    assert found, f"no module is called {prefix}"
    return tuple(found)


@cache
def module_names() -> frozenset[str]:
    return frozenset(module.name for module in modules())


def own_imports(module: Module) -> Iterator[tuple[str, Import]]:
    """The modules of this distribution that a module imports, as full module names."""
    for item in module.imports():
        if item.full in module_names():
            yield item.full, item
        elif item.module in module_names():
            yield item.module, item


def reachable(start: str) -> frozenset[str]:
    """Everything a module imports, directly or not, with the packages around each module."""
    by_name = {module.name: module for module in modules()}
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting.extend(target for target, _ in own_imports(by_name[name]))
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return frozenset(seen)
