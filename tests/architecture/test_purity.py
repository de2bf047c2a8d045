"""Rules stay rules: the domain and the policy know no I/O, clock, randomness, log or library."""

import ast

import pytest

from tests.architecture.sources import Module, modules

# What arithmetic, text and data need; an addition must be as harmless as these.
PURE_LIBRARY = {
    "abc", "base64", "bisect", "collections", "collections.abc", "contextlib", "dataclasses",
    "datetime", "enum", "functools", "hashlib", "itertools", "json", "math", "operator", "re",
    "string", "types", "typing", "unicodedata", "urllib.parse",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}
READS_THE_CLOCK = {"now", "utcnow", "today"}
PURE = [module for part in ("domain", "policy") for module in modules(f"resilient_ov.{part}")]


def impurities(module: Module) -> list[str]:
    found = []
    for item in module.imports():
        if item.module.startswith("resilient_ov."):
            continue
        # A lock is no I/O: it keeps shared counters whole. Threads and waits stay outside.
        if item.module == "threading" and module.name.startswith("resilient_ov.policy."):
            continue
        if item.module not in PURE_LIBRARY:
            found.append(f"{module.where}:{item.line}: imports {item.full}")
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                found.append(f"{module.where}:{node.lineno}: calls {name}()")
            case ast.Attribute(attr=name) if name in READS_THE_CLOCK:
                found.append(f"{module.where}:{node.lineno}: reads the clock ({name})")
            case ast.Attribute(value=ast.Name(id="threading"), attr=name) if name != "Lock":
                found.append(f"{module.where}:{node.lineno}: uses threading.{name}")
            case _:
                pass
    return found


@pytest.mark.parametrize("module", PURE, ids=lambda module: module.name)
def test_rules_are_pure(module: Module) -> None:
    assert impurities(module) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "import httpx",
        "from random import random",
        "def f():\n    import logging",
        "from datetime import datetime\ndatetime.now()",
        "print('x')",
        "import threading\nthreading.Thread()",
        "from threading import Lock",
    ],
)
def test_each_impurity_is_found(line: str) -> None:
    sample = PURE[0]
    assert impurities(Module("resilient_ov.domain.sample", sample.path, ast.parse(line)))
