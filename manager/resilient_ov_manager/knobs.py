"""The settings in words: ranges for error messages, and the table of the README.

Pure but for `main`. `python -m resilient_ov_manager.knobs` prints the table.
"""

import sys
from enum import StrEnum
from pathlib import Path

from resilient_ov.settings import KnobField, knob_fields
from resilient_ov_manager.config_rules import missing_values

_UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_chars": "characters"}
_KINDS: dict[type[object], str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    tuple: "a list",
}


def allowed_text(found: KnobField) -> str:
    """What a setting accepts, in words with its unit: `a number, 0.05..120 (seconds), or null`."""
    knob = found.knob
    words: list[str] = []
    if issubclass(found.kind, StrEnum):
        words.append(f"one of {knob.accepts or ', '.join(item.value for item in found.kind)}")
    elif issubclass(found.kind, int | float):
        words.append(_KINDS[found.kind])
        if found.kind is not bool:
            words.append(f"{range_text(found)}{_unit(found.key)}")
    else:
        words.append(knob.accepts or _KINDS[found.kind])
    if found.nullable and not any(word.endswith("or null") for word in words):
        words.append("or null")
    return ", ".join(words)


def range_text(found: KnobField) -> str:
    """The range of a setting, short: `0.05..120`."""
    knob = found.knob
    if knob.accepts is not None:
        return knob.accepts
    if issubclass(found.kind, StrEnum):
        return ", ".join(item.value for item in found.kind)
    if knob.low is None or knob.high is None:
        return _KINDS[found.kind]
    return f"{_number(knob.low)}..{_number(knob.high)}"


def default_text(found: KnobField) -> str:
    """The default as it is written in YAML; `required` for a setting without one."""
    if found.required:
        return "injected by DeerFlow" if found.key == "storage_path" else "required"
    value = found.default
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _number(value)
    return f'"{value}"' if value == "0.5" else str(value)


def knobs_table() -> str:
    """The markdown table of every configuration key, without a trailing newline."""
    lines = ["| key | default | range | meaning |", "|---|---|---|---|"]
    for found in knob_fields():
        allowed = range_text(found)
        if found.nullable and not allowed.endswith("null"):
            allowed = f"null or {allowed}"
        meaning = f"{found.knob.meaning}{_missing_note(found)}"
        lines.append(f"| `{found.key}` | {default_text(found)} | {allowed} | {meaning} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    sys.stdout.write(knobs_table() + "\n")


def _missing_note(found: KnobField) -> str:
    missing = missing_values(found.key)
    if missing is None:
        return ""
    if issubclass(found.kind, StrEnum) and missing:
        return f" Not in this version: {', '.join(str(value) for value in missing)}."
    return " Not in this version."


def _unit(key: str) -> str:
    return next((f" ({unit})" for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


if __name__ == "__main__":
    main()
