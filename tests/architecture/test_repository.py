"""What a reader of the repository relies on: licence, changelog, reasons, no trace of a machine."""

import contextlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import ROOT, modules

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
# Folders of a developer's or a build machine. (`/proc`, `/etc` and the like exist everywhere.)
MACHINE = re.compile(r"(?<![\w.}])/(?:work|root|tmp|home|Users|private|mnt/c)/")
# Paths inside DeerFlow's sandbox, as they stand in real messages.
FOREIGN = re.compile(r"/mnt/user-data/")


def tracked_texts() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and path != Path(__file__):
            # An image has no lines to read.
            with contextlib.suppress(UnicodeDecodeError):
                yield name, path.read_text(encoding="utf-8")


def test_no_tracked_file_names_a_machines_path() -> None:
    wrong = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(FOREIGN.sub("", line))
    ]
    assert wrong == []


def test_a_machines_path_would_be_found() -> None:
    assert all(
        MACHINE.search(f"{before}/{folder}/x") for before in " '=:" for folder in ("root", "tmp")
    )


def test_the_licence_is_the_declared_one() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    head = (ROOT / "LICENSE").read_text(encoding="utf-8")[:400]
    assert "Apache License" in head
    assert "Version 2.0" in head


def test_the_changelog_tells_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, flags=re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert versions == ["Unreleased"] or PROJECT["version"] in versions
    kinds = set(re.findall(r"^### (\w+)", text, flags=re.MULTILINE))
    assert kinds
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_rule_left_out_has_its_reason() -> None:
    section = PYPROJECT[PYPROJECT.index("[tool.ruff.lint]") :]
    lists = re.findall(r"= \[\n(.*?)\n\]", section, flags=re.DOTALL)
    rules = [line for text in lists for line in text.splitlines()]
    assert len(rules) > 5
    assert [line for line in rules if not re.search(r'",\s+# \w', line)] == []


def test_every_rule_silenced_in_the_code_has_its_reason() -> None:
    """`# noqa: CODE - reason`, or the reason as a comment on the line above."""
    wrong = []
    for module in modules():
        lines = module.path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if "# noqa" not in line or re.search(r"# noqa: [A-Z0-9, ]+ +(-+|#) \w", line):
                continue
            if not lines[number - 1].strip().startswith("# "):
                wrong.append(f"{module.where}:{number + 1}: {line.strip()}")
    assert wrong == []


def test_floors_not_pins() -> None:
    """Beside a host's own pins only lower bounds can be met."""
    wrong = [item for item in PROJECT["dependencies"] if re.search(r"==|~=|<", item)]
    assert wrong == []
