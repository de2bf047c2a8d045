"""The field-report cases as data: one JSON object a line, the input notation expanded.

No I/O here except for reading `cases.jsonl`.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DATA = Path(__file__).with_name("cases.jsonl")

# The closed list of what a case may ask Python for.
_PYTHON = {
    "datetime(2026,1,1)": lambda: datetime(2026, 1, 1),  # noqa: DTZ001 - without a zone on purpose
    "float('nan')": lambda: float("nan"),
    "float('inf')": lambda: float("inf"),
    "{1,2}": lambda: {1, 2},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One report: what happened to somebody, and what has to hold instead."""

    id: str
    input: Any
    rules: list[dict[str, Any]]
    expected: list[str]

    @property
    def messages(self) -> list[Any]:
        """The messages of the input, shaped as the host's."""
        return messages(self.input["messages"])

    @property
    def turns(self) -> list[list[Any]]:
        """The turns of the input, each the whole list that the host presents."""
        return [messages(turn) for turn in self.input["turns"]]


@cache
def all_cases() -> dict[str, Case]:
    """Return every case by its id."""
    lines = DATA.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return {
        one["id"]: Case(one["id"], expand(one["input"]), one["server_behaviour"], one["expected"])
        for one in found
    }


def case(case_id: str) -> Case:
    """Return one case."""
    return all_cases()[case_id]


def expand(value: Any) -> Any:
    """Replace the notation of the cases by what it stands for; `$gen` stays, it is in words."""
    match value:
        case {"$repeat": [text, times]}:
            return text * times
        case {"$concat": parts}:
            return "".join(expand(part) for part in parts)
        case {"$py": expression}:
            return _PYTHON[expression]()
        case dict():
            return {name: expand(part) for name, part in value.items()}
        case list():
            return [expand(part) for part in value]
        case _:
            return value


def messages(raw: list[Any]) -> list[Any]:
    """Return messages with attributes, as langchain's have them."""
    return [message(**one) for one in raw]


def message(**fields: Any) -> SimpleNamespace:
    """Return one message of the host; what is not given is empty."""
    empty = {"id": None, "content": "", "additional_kwargs": {}, "tool_calls": []}
    return SimpleNamespace(**(empty | fields))


def human(text: Any, message_id: str | None = None, **extra: Any) -> SimpleNamespace:
    """Return a message of the user."""
    return message(type="human", content=text, id=message_id, additional_kwargs=extra)


def ai(text: Any, message_id: str | None = None) -> SimpleNamespace:
    """Return an answer of the assistant."""
    return message(type="ai", content=text, id=message_id)


def dialogue(count: int, *, start: int = 1) -> list[Any]:
    """Return `count` messages `m<start>`.. with texts `n<start>`.., user first."""
    return [
        (human if number % 2 else ai)(f"n{number}", f"m{number}")
        for number in range(start, start + count)
    ]
