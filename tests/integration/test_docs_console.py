"""What the documentation shows on a terminal is what the commands print.

Rule: every `console` block is run, in the order of its page, beside a running gateway on the
embedded server. Ids, times, numbers of processes and the folder are made alike, and so is the
place of line breaks and frames; a word that differs is a failure.

To write the blocks anew: `python -m tests.integration.test_docs_console`.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from resilient_ov.embedded import EmbeddedServer, EmbeddedSettings
from resilient_ov_manager import OpenVikingMemoryManager

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in DOCS.glob("*.md") if BLOCK.search(page.read_text("utf-8")))
KEY = "docs-key"
FOLDER = "/srv/deer-flow"
ALIKE = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"process \d+ on \S+", "process PID on HOST"),
    (r"\(\d+ ms\)", "(N ms)"),
    # Lines are broken elsewhere when the folder's name has another length, also inside a path.
    (r"[│╭╮╰╯─\s]+", ""),
)
# Told and extracted by fixed rules, so that scores are always the same.
TOLD = {
    "I live in Oslo.": "Oslo",
    "I prefer short answers.": "short answers",
    "I like tea.": "tea",
}


class World:
    """A folder with a configuration, where a gateway has remembered something."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        raw = {"base_url": url, "account": "deerflow", "api_key_env": "OPENVIKING_API_KEY"}
        raw["storage_path"] = str(folder / ".deer-flow")
        self.environ = {
            **{name: value for name, value in os.environ.items() if name != "FORCE_COLOR"},
            "OPENVIKING_API_KEY": KEY,
            "COLUMNS": "80",
            "NO_COLOR": "1",
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(raw))
        self.manager = OpenVikingMemoryManager.from_config(
            {**raw, "budgets": {"add_seconds": 10}, "session": {"wait_for_extraction": False}}
        )
        for user in ("alice", "USER"):
            self.manager.add("thread-1", thread(tuple(TOLD)), user_id=user)
        self._wait("alice", "USER")
        # The status is at most a second old.
        time.sleep(1.5)

    def _wait(self, *users: str) -> None:
        until_s = time.monotonic() + 30
        while not all(
            self.manager.search(word, user_id=user) for word in TOLD.values() for user in users
        ):
            assert time.monotonic() < until_s, "the memories were not extracted"
            time.sleep(0.1)

    def run(self, line: str) -> str:
        words = shlex.split(line)
        assert words[0] == "resilient-ov"
        ended = subprocess.run(
            [sys.executable, "-m", "resilient_ov_manager.cli", *words[1:]],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown = ended.stdout.replace(str(self.folder), FOLDER)
        shown = shown.replace(f" on {socket.gethostname()} ", " on gw ")
        return "\n".join(each.rstrip() for each in shown.strip("\n").splitlines())

    def block(self, written: str) -> str:
        """Return a block with what its commands print now."""
        commands = [line for line in written.splitlines() if line.startswith("$ ")]
        return "\n".join(f"{line}\n{self.run(line[2:])}" for line in commands) + "\n"


def thread(texts: tuple[str, ...]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(type="human", content=text, id=f"m{n}", additional_kwargs={}, tool_calls=[])
        for n, text in enumerate(texts)
    ]


@contextmanager
def world(folder: Path) -> Iterator[World]:
    settings = EmbeddedSettings(data_dir=folder / "server", root_key=KEY)
    with EmbeddedServer(settings) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENVIKING_API_KEY", KEY)
        made = World(folder, server.url)
        try:
            yield made
        finally:
            made.manager.close()


def alike(text: str) -> str:
    for pattern, word in ALIKE:
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_console_blocks_are_what_the_commands_print(page: Path, tmp_path: Path) -> None:
    with world(tmp_path) as made:
        for written in BLOCK.findall(page.read_text("utf-8")):
            assert alike(made.block(written)) == alike(written)


def test_a_word_that_differs_is_noticed() -> None:
    shown = "$ resilient-ov check\nok  find  answered (974 ms)\nMemory is usable.\n"
    assert alike(shown) == alike(shown.replace("974", "18").replace("\n", "\n   "))
    assert alike(shown) != alike(shown.replace("usable", "fine"))


def test_pages_with_blocks_are_found() -> None:
    assert {page.name for page in PAGES} >= {"day-two.md", "five-minutes.md"}


def main() -> None:
    """Write every block anew."""
    for page in PAGES:
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as made:
            for written in BLOCK.findall(text):
                text = text.replace(written, made.block(written), 1)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
