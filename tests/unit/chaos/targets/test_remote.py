import subprocess
from pathlib import Path

import pytest

from resilient_ov_chaos.targets.remote import HookError, RemoteTarget, TargetError, read_hooks
from resilient_ov_chaos.targets.target import Ability


def target(hooks: dict[Ability, tuple[str, str]] | None = None) -> RemoteTarget:
    return RemoteTarget("http://staging:1933", key="k", account="a", hooks=hooks or {})


def test_an_address_is_taken_from_the_url() -> None:
    assert target().address == "staging:1933"
    assert RemoteTarget("http://staging/", key="k", account="a", hooks={}).address == "staging:80"


@pytest.mark.parametrize("url", ["https://staging", "http://staging/openviking", "staging:1933"])
def test_a_url_that_no_proxy_can_stand_before_is_refused(url: str) -> None:
    with pytest.raises(TargetError, match="http://host:1933"):
        RemoteTarget(url, key="k", account="a", hooks={})


def test_only_what_has_a_hook_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    hooked = target({Ability.KILL: ("stop it", "start it")})
    assert hooked.can(Ability.KILL)
    assert not hooked.can(Ability.FREEZE)
    hooked.do(Ability.KILL, on=True)
    hooked.do(Ability.KILL, on=False)
    assert [command[-1] for command in ran] == ["stop it", "start it"]


@pytest.mark.parametrize(
    "error", [subprocess.CalledProcessError(3, "x"), subprocess.TimeoutExpired("x", 1), OSError()]
)
def test_a_hook_that_fails_is_an_error_of_the_suite(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(HookError, match=r"kill\.on failed"):
        target({Ability.KILL: ("stop it", "start it")}).do(Ability.KILL, on=True)


def test_hooks_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hooks.toml"
    file.write_text('[kill]\non = "a"\noff = "b"\n')
    assert read_hooks(file) == {Ability.KILL: ("a", "b")}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[luck]", "'luck' is no hook; there are: kill"),
        ('[kill]\non = "a"', "needs two commands, on and off"),
        ("[kill]\non = 1\noff = 2", "needs two commands"),
        ("kill = 1", "needs two commands"),
        ("[kill", "hooks.toml"),
    ],
)
def test_a_hooks_file_of_another_shape_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "hooks.toml"
    file.write_text(text)
    with pytest.raises(TargetError, match=told):
        read_hooks(file)


def test_a_hooks_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError):
        read_hooks(tmp_path / "none.toml")
