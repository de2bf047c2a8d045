"""Conventions a reader relies on: addresses, ports, adapters, public names."""

import ast
import importlib
import inspect
import re
from types import ModuleType
from typing import Protocol

import pytest

from resilient_ov.domain import ports
from tests.architecture.sources import Module, modules

PUBLIC = [
    "resilient_ov",
    "resilient_ov.events",
    "resilient_ov.settings",
    "resilient_ov.testing",
    "resilient_ov_manager",
    "resilient_ov_observability",
]
TECHNOLOGY_WORDS = {
    "path", "file", "folder", "directory", "url", "uri", "http", "https", "header", "headers",
    "status", "socket", "host", "port", "sql", "table", "row", "column", "cursor", "dsn", "json",
}  # fmt: skip
TAG = re.compile(r"Secondary adapter \((owned persistence|anti-corruption layer)\): \S")
PORTS = {
    name: value
    for name, value in vars(ports).items()
    if inspect.isclass(value) and value.__module__ == ports.__name__ and issubclass(value, Protocol)
}
# Adapters whose name does not end with their port's, with the reason.
NAMED_OTHERWISE = {"WorkerPool": "the technology is the pool"}


def test_only_the_namespace_modules_know_the_address_scheme() -> None:
    wrong = [
        f"{module.where}:{line}: {text!r}"
        for module in modules()
        for text, line in module.strings()
        if "viking:" in text and not module.name.startswith("resilient_ov.domain.namespace")
    ]
    assert wrong == []


def words(identifier: str) -> set[str]:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier)
    return set(snake.lower().split("_"))


@pytest.mark.parametrize("name", PORTS)
def test_a_port_speaks_no_technology(name: str) -> None:
    (tree,) = (
        node
        for node in next(m for m in modules(ports.__name__)).tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    signatures = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert signatures
    identifiers = {
        *(node.name for node in signatures),
        *(
            node.arg
            for function in signatures
            for node in ast.walk(function.args)
            if isinstance(node, ast.arg)
        ),
        *(
            node.id
            for function in signatures
            for node in ast.walk(ast.Module(body=[function], type_ignores=[]))
            if isinstance(node, ast.Name)
        ),
    }
    assert {
        word for identifier in identifiers for word in words(identifier)
    } & TECHNOLOGY_WORDS == set()
    assert all(ast.get_docstring(node) for node in (tree, *signatures))


def adapter_classes() -> list[tuple[Module, type]]:
    return [
        (module, value)
        for module in modules("resilient_ov.adapters")
        for value in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(value) and value.__module__ == module.name
    ]


def methods(port: type) -> set[str]:
    return {
        name for name, value in vars(port).items() if inspect.isfunction(value) and name[0] != "_"
    }


@pytest.mark.parametrize("name", PORTS)
def test_every_port_has_an_adapter_named_by_its_technology(name: str) -> None:
    wanted = methods(PORTS[name])
    adapters = [
        (module, adapter)
        for module, adapter in adapter_classes()
        if all(callable(getattr(adapter, method, None)) for method in wanted)
        and all(
            inspect.iscoroutinefunction(getattr(adapter, method))
            == inspect.iscoroutinefunction(getattr(PORTS[name], method))
            for method in wanted
        )
    ]
    assert adapters
    for module, adapter in adapters:
        assert TAG.match(module.docstring), f"{module.where}: its docstring lacks the adapter's tag"
        called = adapter.__name__.removeprefix("Async")
        technology = called.removesuffix(name.removeprefix("Async"))
        assert technology not in {"", called} or adapter.__name__ in NAMED_OTHERWISE


@pytest.mark.parametrize("module", modules("resilient_ov.adapters"), ids=lambda module: module.name)
def test_a_tag_is_one_of_the_two(module: Module) -> None:
    if module.docstring.startswith("Secondary adapter"):
        assert TAG.match(module.docstring)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_exactly_all(name: str) -> None:
    package = importlib.import_module(name)
    listed = list(getattr(package, "__all__", []))
    assert len(listed) == len(set(listed))
    assert all(hasattr(package, each) for each in listed)
    bound = {
        each
        for each, value in vars(package).items()
        if each[0] != "_" and each != "TYPE_CHECKING" and not isinstance(value, ModuleType)
    }
    assert bound <= set(listed)


@pytest.mark.parametrize(
    "module", [m for m in modules() if m.path.name == "__init__.py"], ids=lambda module: module.name
)
def test_an_init_holds_names_only(module: Module) -> None:
    """Docstring, imports, plain bindings; `__getattr__` where a name must load late."""
    wrong = [
        f"{module.where}:{node.lineno}"
        for node in module.tree.body
        if not (
            isinstance(node, ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and not any(isinstance(n, ast.Call) for n in ast.walk(node))
            )
            or (isinstance(node, ast.FunctionDef) and node.name == "__getattr__")
            or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        )
    ]
    assert wrong == []
    assert module.docstring
