import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resilient_ov_manager import plugins
from resilient_ov_manager.cli import app, main

HEAVY = {
    "asyncio", "deerflow", "filelock", "httpx", "opentelemetry", "prometheus_client", "pydantic",
    "pybreaker", "resilient_ov.composition", "resilient_ov.embedded", "stamina", "starlette",
    "structlog", "uvicorn", "yaml",
}  # fmt: skip
PLUGINS = """
import typer

app = typer.Typer()

@app.command()
def greet(name: str) -> None:
    "Say hello."
    typer.echo(f"hello {name}")

@app.command()
def leave() -> None:
    "Say goodbye."
"""
AddPlugin = Callable[[str, str, str], None]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    plugins.plugin_names.cache_clear()
    yield
    plugins.plugin_names.cache_clear()


@pytest.fixture
def add_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddPlugin:
    """Install a distribution called `extras` that has one module and one command."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(command: str, module: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extras\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[resilient_ov.commands]\n{command} = {module}:app\n"
        )
        monkeypatch.delitem(sys.modules, module, raising=False)
        plugins.plugin_names.cache_clear()

    return add


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments, prog_name="resilient-ov")
    return result.exit_code, result.stdout, result.stderr


def loaded_after(*arguments: str) -> set[str]:
    code = (
        "import sys; from resilient_ov_manager.cli import app\n"
        f"try: app({list(arguments)!r})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_help_lists_the_commands_and_the_exit_codes() -> None:
    code, shown, _ = run("--help")
    assert code == 0
    assert "identity" in shown
    assert "Exit codes" in shown


def test_help_loads_nothing_heavy() -> None:
    loaded = loaded_after("--help")
    assert "resilient_ov_manager.commands.identity" in loaded
    assert {name for name in loaded if name in HEAVY or name.split(".")[0] in HEAVY} == set()


def test_the_version_is_the_packages() -> None:
    code, shown, _ = run("--version")
    assert (code, shown.split()[0]) == (0, "resilient-ov")


def test_no_command_shows_the_help() -> None:
    code, shown, told = run()
    assert code == 2
    assert "Usage: resilient-ov" in shown + told


def test_an_unknown_command_names_its_neighbour() -> None:
    code, _, told = run("identit")
    assert code == 2
    assert "identity" in told


def test_a_plugin_is_listed_and_runs_with_its_own_commands(add_plugin: AddPlugin) -> None:
    add_plugin("extra", "extra_plugin", PLUGINS)
    assert "extra " in run("--help")[1]
    assert run("extra", "greet", "you") == (0, "hello you\n", "")
    assert "goodbye" in run("extra", "--help")[1]


def test_a_plugin_is_not_imported_for_another_command(add_plugin: AddPlugin) -> None:
    add_plugin("extra", "extra_plugin", PLUGINS)
    assert run("identity", "--user", "alice")[0] == 0
    assert "extra_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("raise SystemExit('left\\nwith a long story')", "SystemExit: left"),
        ("raise RuntimeError", "RuntimeError"),
        ("app = 5", "is no typer.Typer"),
        ("", "AttributeError"),
    ],
)
def test_a_broken_plugin_costs_one_line(add_plugin: AddPlugin, source: str, problem: str) -> None:
    add_plugin("broken", "broken_plugin", source)
    code, shown, _ = run("--help")
    assert code == 0
    assert [line for line in shown.splitlines() if "broken" in line and "Not usable" in line]
    assert run("identity", "--user", "alice")[0] == 0
    code, _, told = run("broken", "run", "--with", "options", "--help")
    assert code == 2
    assert "the command 'broken' of extras cannot be loaded" in told
    assert problem in told
    assert len(told.splitlines()) == 1


def test_a_plugin_cannot_take_a_built_in_name(add_plugin: AddPlugin) -> None:
    add_plugin("identity", "extra_plugin", PLUGINS)
    code, shown, _ = run("identity", "--user", "alice")
    assert (code, "OpenViking user" in shown) == (0, True)
    assert run("--help")[1].count("identity") == 1


def test_a_fault_of_our_own_shows_no_local_variable(add_plugin: AddPlugin) -> None:
    source = (
        "import typer\napp = typer.Typer()\n@app.command()\n"
        "def boom() -> None:\n    key = 'canary' + '-4711'\n    raise RuntimeError('bang')\n"
    )
    add_plugin("boom", "boom_plugin", source)
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; sys.argv = ['resilient-ov', 'boom'];"
        "from resilient_ov_manager.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "bang" in ended.stderr
    assert "canary-4711" not in ended.stderr + ended.stdout


def test_main_runs_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["resilient-ov", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "resilient-ov" in capsys.readouterr().out


def test_the_module_runs_as_the_script_does() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "resilient_ov_manager.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("resilient-ov ")
