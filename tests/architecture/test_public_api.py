"""The names and signatures that other people's programs use; a change here is a promise broken."""

import inspect
import subprocess
import sys

import pytest

import resilient_ov
import resilient_ov_manager
from resilient_ov import AsyncClient, Client

_WHOSE = "user_id: str, agent_name: str | None = None"
_CALLS = {
    "get_context": f"(self, *, {_WHOSE}, query: str | None = None) -> str",
    "search": f"(self, query: str, *, {_WHOSE}, top_k: int = 5, category: str | None = None)"
    " -> list[dict[str, str | float]]",
    "add": "(self, thread_id: str, messages: collections.abc.Sequence[object], *,"
    f" {_WHOSE}) -> None",
    "warm": "(self) -> bool",
    "flush": "(self, timeout_s: float | None = None) -> bool",
    "add_nowait": "(self, thread_id: str, messages: collections.abc.Sequence[object], *,"
    f" {_WHOSE}) -> None",
}
FROZEN = {
    Client: {**_CALLS, "close": "(self) -> None"},
    AsyncClient: {**_CALLS, "aclose": "(self) -> None"},
}
IDS = [f"{cls.__name__}.{name}" for cls, calls in FROZEN.items() for name in calls]
CASES = [(cls, name) for cls, calls in FROZEN.items() for name in calls]


def public(cls: type) -> set[str]:
    return {name for name, value in inspect.getmembers(cls, callable) if name[0] != "_"}


def test_the_packages_names_are_frozen() -> None:
    assert resilient_ov.__all__ == ["AsyncClient", "Client", "OpenVikingError", "Settings"]
    assert resilient_ov_manager.__all__ == ["MANAGER_CLASS", "OpenVikingMemoryManager"]


@pytest.mark.parametrize("cls", FROZEN, ids=lambda cls: str(cls.__name__))
def test_a_client_has_these_methods_and_no_more(cls: type) -> None:
    assert public(cls) == set(FROZEN[cls])
    parameters = str(inspect.signature(cls))
    assert parameters == (
        "(settings: resilient_ov.settings.root.Settings, *,"
        " around: resilient_ov.composition.Surroundings | None = None) -> None"
    )


@pytest.mark.parametrize(
    ("cls", "name"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_signature_is_frozen(cls: type, name: str) -> None:
    assert str(inspect.signature(getattr(cls, name))) == FROZEN[cls][name]


@pytest.mark.parametrize(
    ("cls", "name"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_what_is_public_is_documented(cls: type, name: str) -> None:
    assert inspect.getdoc(cls)
    assert len(inspect.getdoc(getattr(cls, name)) or "") > 20


def test_only_the_asynchronous_client_is_asynchronous() -> None:
    for name in _CALLS:
        is_async = inspect.iscoroutinefunction(getattr(AsyncClient, name))
        assert is_async == (name != "add_nowait")
        assert not inspect.iscoroutinefunction(getattr(Client, name))


@pytest.mark.parametrize("package", ["resilient_ov", "resilient_ov_manager"])
def test_a_name_that_is_not_there_is_refused(package: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(sys.modules[package], "no_such_name")  # noqa: B009 - the name is the point


def test_importing_the_package_loads_no_http_library() -> None:
    code = (
        "import sys, resilient_ov; before = 'httpx' in sys.modules;"
        " from resilient_ov import Client, OpenVikingError, Settings;"
        " print(before, Client.__name__)"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "Client"]
