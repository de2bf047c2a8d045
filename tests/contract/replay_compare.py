"""Compares a reply with a recorded one, field by field, each by value, by type or not at all.

A field is named by its path (`result.messages.0.role`); lines of a JSON-lines text count as its
items; `headers.NAME` is a response header. Patterns may hold `*`, which also spans dots. The
patterns of a fixture go before the defaults, and of one table `ignored` before `by_type` before
`by_value`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

COMPARED_HEADERS = ("content-type", "vary", "x-request-id")


class FieldClass(StrEnum):
    IGNORED = "ignored"
    BY_TYPE = "by_type"
    BY_VALUE = "by_value"


@dataclass(frozen=True)
class Rules:
    """The tables that classify a field, the first match of the first table wins."""

    tables: tuple[dict[str, list[str]], ...]

    def classify(self, path: str) -> FieldClass:
        for table in self.tables:
            for field_class in FieldClass:
                if any(fnmatchcase(path, each) for each in table.get(field_class.value, [])):
                    return field_class
        raise AssertionError(f"no rule for field {path}")


def fields(status: int, headers: dict[str, str], body: Any) -> dict[str, Any]:
    """Every leaf of a reply by its path."""
    found: dict[str, Any] = {"http_status": status}
    found |= {f"headers.{name}": headers[name] for name in COMPARED_HEADERS if name in headers}
    found |= _leaves(body, "")
    return found


def differences(recorded: dict[str, Any], got: dict[str, Any], rules: Rules) -> list[str]:
    """What is not as recorded."""
    found: list[str] = []
    for path in sorted(recorded.keys() | got.keys()):
        field_class = rules.classify(path)
        if field_class is FieldClass.IGNORED:
            continue
        if path not in got or path not in recorded:
            where = "missing in the reply" if path not in got else "not in the recording"
            found.append(f"{path}: {where}")
        elif field_class is FieldClass.BY_VALUE and got[path] != recorded[path]:
            found.append(f"{path}: {got[path]!r} instead of {recorded[path]!r}")
        elif _type(got[path]) != _type(recorded[path]):
            found.append(f"{path}: {got[path]!r} is of another type than {recorded[path]!r}")
    return found


def _type(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__


def _leaves(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, str) and (lines := _json_lines(value)):
        value = lines
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, list) and value:
        items = {str(number): item for number, item in enumerate(value)}.items()
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for name, item in items:
        found |= _leaves(item, f"{path}.{name}" if path else name)
    return found


def _json_lines(text: str) -> list[Any]:
    if not (text.startswith("{") and text.endswith("}\n")):
        return []
    return [json.loads(line) for line in text.splitlines()]
