"""No case without a test, no test of a case that is not there."""

import ast
import re
from pathlib import Path

from tests.cases.field_cases import all_cases

_NAME = re.compile(r"test_([A-Z]{2})_(\d{2})_[a-z]")


def test_every_case_has_a_test_of_its_id() -> None:
    tested: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (found := _NAME.match(node.name)):
                tested.add(f"{found[1]}-{found[2]}")
    assert tested == set(all_cases())


def test_there_are_89_cases_and_each_says_what_is_expected() -> None:
    assert len(all_cases()) == 89
    assert all(case.expected for case in all_cases().values())
