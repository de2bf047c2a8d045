"""What the documentation says is what the code does: links, commands, options, settings, help."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from resilient_ov.settings import knob_fields
from resilient_ov_manager.cli import app
from resilient_ov_manager.command_page import command_page
from resilient_ov_manager.host_config import parse_config

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "README.zh-CN.md"]
KNOBS = {found.key for found in knob_fields()}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^ {4,}|`)resilient-ov ([a-z][^`\n#]*)", re.MULTILINE)
# Commands of other packages, or shown in the README before they are there.
ELSEWHERE = {"chaos", "dashboards"}

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@by_name
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong: list[str] = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else page.parent / name
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert wrong == []


def test_every_page_is_in_the_menu() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert {next(iter(entry.values())) for entry in menu} == {page.name for page in DOCS}


def test_the_commands_are_shown_as_they_are() -> None:
    shown = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert shown == command_page(), "python -m resilient_ov_manager.command_page > docs/commands.md"


def options_of(words: list[str]) -> set[str] | None:
    """The options of the command that the words begin with; None = there is no such command."""
    command = typer.main.get_command(app)
    options: set[str] = set()
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]  # type: ignore[attr-defined]
            options = {name for each in command.params for name in each.opts}
    return options or None


@by_name
def test_commands_and_options_exist(page: Path) -> None:
    if page.name == "commands.md":
        return
    wrong: list[str] = []
    for line in COMMAND.findall(page.read_text(encoding="utf-8")):
        try:
            words = shlex.split(line.replace("'", ""))
        except ValueError:
            words = line.split()
        if words[0] in ELSEWHERE:
            continue
        options = options_of(words)
        used = {word for word in words if word.startswith("--") and word != "--help"}
        if options is None or used - options:
            wrong.append(line)
    assert wrong == []


@by_name
def test_settings_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    sections = {key.partition(".")[0] for key in KNOBS if "." in key}
    named = set(re.findall(r"`([a-z_]+\.[a-z_]+)(?:: [^`]+)?`", text))
    ours = {key for key in named if key.partition(".")[0] in sections}
    assert ours <= KNOBS | {"memory.mode", "messages.jsonl"}


@by_name
def test_configurations_that_are_shown_are_accepted(page: Path) -> None:
    for language, block in FENCED.findall(page.read_text(encoding="utf-8")):
        if language != "yaml" or "backend_config" not in block:
            continue
        section = yaml.safe_load(block)["memory"]["backend_config"]
        parse_config(section | {"storage_path": "/nowhere"})
